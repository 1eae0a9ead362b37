"""A ``flwr`` command; what a ServerApp with a monitor does to the ledger, the test's process does.

The command would import what is loaded here already, which takes a second each time.
"""

from __future__ import annotations

import json
import os
import socketserver
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import Thread
from typing import Any

from report.samples import checksummed

from flwr_kld import Labels, Reference
from flwr_kld.common.errors import LedgerUnavailable, NoBudget
from flwr_kld.kernel import Guarantee
from flwr_kld.ledger import Charge, Cost, Kind, Ledger
from flwr_kld.ledger.entry import Failure, FailureKind
from flwr_kld.report.stored_reference import reference_state

_SCRIPT = """#!{python} -SE
import json, os, socket, sys, time
plan = json.loads(open({plan!r}).read())
does = plan["does"]
with open({log!r}, "a") as log:
    log.write(json.dumps(sys.argv[1:]) + "\\n")
if sys.argv[1] == "stop":
    sys.exit(0)
with open({pid!r}, "w") as file:
    file.write(str(os.getpid()))
if does == "hang early":
    print("Building the app", flush=True)
    time.sleep(60)
if does == "misconfigured":
    print("╭─ Error ─────────╮\\n│ Invalid run configuration. │\\n╰─────────────────╯", flush=True)
    sys.exit(1)
if does == "misconnect":
    print("Loading\\n╭─ Error ──────╮\\n│ There is no  │\\n│ connection   │\\n│ 'prod'.      │")
    print("╰──────────────╯", flush=True)
    sys.exit(1)
print("Successfully started run 4711", flush=True)
print("\\x1b[92mINFO\\x1b[0m :  a line of the ServerApp's log", flush=True)
if does == "print":
    print(plan["lines"], flush=True)
    sys.exit(0)
key = sys.argv[-1].split('"')[1]
if does == "hang":
    time.sleep(60)
if does == "quit":
    print("Connection to the SuperLink is unavailable.", flush=True)
    sys.exit(1)
if does == "no budget":
    print("Traceback (most recent call last):\\n  File x, line 1")
    print(plan["no budget"], flush=True)
if does in {deeds}:
    with socket.create_connection(("127.0.0.1", {port})) as test:
        test.sendall(key.encode() + b"\\n")
        assert test.recv(1), "the test's process has raised"
if does.endswith("aloud"):
    print("ERROR :  ServerApp raised an exception")
if does in ("break", "crash aloud"):
    print("Traceback (most recent call last):\\n  File x, line 1\\nRuntimeError: it broke")
if does == "fail aloud":
    print("Traceback (most recent call last):\\n  File x, line 1", flush=True)
    print(plan["exception"] + ": no room until [Sunday]", flush=True)
if does.endswith("aloud"):
    print("ERROR :  Exit Code: 201\\n\\nAn unhandled exception occurred in the ServerApp.\\n")
    print("For more information, visit: <https://example.org/201.html>")
    print("INFO :  the end", flush=True)
"""

_DEEDS = ("refuse", "settle", "make", "name", "fail", "fail oddly", "crash", "crash aloud")
"""What changes the ledger."""


def _do(plan: dict[str, Any], key: str) -> None:
    """Do to the ledger what a ServerApp would do."""
    does, ledger = plan["does"], Ledger(plan["ledger"])
    if does == "refuse":
        why = Failure(FailureKind(plan["refusal"]), "no room until [Sunday]")
        ledger.refuse(key, why)
        return
    charge = Charge(Cost.claimed("discrete-laplace", Guarantee(0.1)), ["a"])
    kind = {"make": Kind.STATISTICS, "name": Kind.DISCOVERY}.get(does, Kind.CHECK)
    reservation = ledger.reserve(key, charge, kind=kind)
    report = plan["report"]
    if does == "settle":
        cost = {**report["cost"], "population": "default"}
        ledger.settle(reservation, checksummed({**report, "key": key, "cost": cost}))
    elif does == "name":
        ledger.settle(reservation, report)
    elif does == "make":
        made = Reference.from_counts(Labels(["bus", "car", "train"]), [3, 1, 3])
        states = [reference_state(made, key, "default")]
        told = checksummed({**report, "reference": made.fingerprint})
        ledger.settle(reservation, told, states=states)
    elif does == "fail":
        why = Failure(FailureKind.UNANSWERED, "3 clients answered and 5 are needed")
        ledger.fail(reservation, why)
    elif does == "fail oddly":
        ledger.fail(reservation, Failure(FailureKind.ERROR, "ZeroDivisionError"))


def _named(exception: type[Exception]) -> str:
    return f"{exception.__module__}.{exception.__qualname__}"


@dataclass(frozen=True)
class FakeFlwr:
    """The command, and what it was called with.

    Parameters
    ----------
    folder : Path
        To be put on PATH.
    ledger : str
        What is written to.
    port : int
        Where this process listens; see `fake_flwr`.
    """

    folder: Path
    ledger: str
    port: int

    def will(
        self,
        does: str,
        report: dict[str, Any] | None = None,
        refusal: FailureKind = FailureKind.BUDGET,
        exception: type[Exception] = LedgerUnavailable,
        lines: str = "",
    ) -> None:
        """Say what the next runs do."""
        content = {
            "does": does,
            "ledger": self.ledger,
            "report": report,
            "refusal": str(refusal),
            "exception": _named(exception),
            "lines": lines,
            "no budget": f"{_named(NoBudget)}: {NoBudget('us')}",
        }
        self._plan.write_text(json.dumps(content))
        script = self.folder / "flwr"
        script.write_text(
            _SCRIPT.format(
                python=sys.executable,
                plan=str(self._plan),
                log=str(self._log),
                pid=str(self._pid),
                port=self.port,
                deeds=_DEEDS,
            )
        )
        script.chmod(script.stat().st_mode | stat.S_IXUSR)

    @property
    def calls(self) -> list[list[str]]:
        """Arguments of each call so far."""
        return [json.loads(line) for line in self._log.read_text().splitlines()]

    @property
    def lives(self) -> bool:
        """Whether the last run's process does; one that was waited for is gone altogether."""
        try:
            os.kill(int(self._pid.read_text()), 0)
        except ProcessLookupError:
            return False
        return True

    @property
    def path(self) -> str:
        """PATH with the command in front."""
        return f"{self.folder}{os.pathsep}{os.environ['PATH']}"

    @property
    def _plan(self) -> Path:
        return self.folder / "plan.json"

    @property
    def _log(self) -> Path:
        return self.folder / "calls"

    @property
    def _pid(self) -> Path:
        return self.folder / "pid"


@contextmanager
def fake_flwr(folder: Path, ledger: str) -> Iterator[FakeFlwr]:
    """Make a command, and do what it asks for while it is used."""

    class Handler(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            plan = json.loads((folder / "plan.json").read_text())
            _do(plan, self.rfile.readline().decode().rstrip("\n"))
            self.wfile.write(b".")

    with socketserver.TCPServer(("127.0.0.1", 0), Handler) as server:
        thread = Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield FakeFlwr(folder, ledger, server.server_address[1])
        finally:
            server.shutdown()
            thread.join()
