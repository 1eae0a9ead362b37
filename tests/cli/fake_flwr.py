"""A ``flwr`` command that does to the ledger what a ServerApp with a monitor would do."""

from __future__ import annotations

import json
import os
import stat
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from flwr_kld.accounting.entry import FailureKind
from flwr_kld.accounting.errors import LedgerUnavailable

_SCRIPT = """#!{python}
import json, os, sys, time
plan = json.loads(open({plan!r}).read())
with open({log!r}, "a") as log:
    log.write(json.dumps(sys.argv[1:]) + "\\n")
if sys.argv[1] == "stop":
    sys.exit(0)
with open({pid!r}, "w") as file:
    file.write(str(os.getpid()))
if plan["does"] == "hang early":
    print("Building the app", flush=True)
    time.sleep(60)
print("Successfully started run 4711", flush=True)
print("\\x1b[92mINFO\\x1b[0m :  a line of the ServerApp's log", flush=True)
does, key = plan["does"], sys.argv[-1].split('"')[1]
if does == "hang":
    time.sleep(60)
if does == "quit":
    print("Connection to the SuperLink is unavailable.", flush=True)
    sys.exit(1)
if does == "misconfigured":
    print("╭─ Error ─────────╮\\n│ Invalid run configuration. │\\n╰─────────────────╯", flush=True)
    sys.exit(1)
if does == "misconnect":
    print("Loading\\n╭─ Error ──────╮\\n│ There is no  │\\n│ connection   │\\n│ 'prod'.      │")
    print("╰──────────────╯", flush=True)
    sys.exit(1)
if does == "no budget":
    print("Traceback (most recent call last):\\n  File x, line 1")
    from flwr_kld.accounting.errors import NoBudget
    print(f"{{NoBudget.__module__}}.{{NoBudget.__qualname__}}: {{NoBudget('us')}}", flush=True)
if does == "break":
    print("Traceback (most recent call last):\\n  File x, line 1\\nRuntimeError: it broke")
if does == "fail aloud":
    print("Traceback (most recent call last):\\n  File x, line 1", flush=True)
    print(plan["exception"] + ": no room until [Sunday]", flush=True)
if does == "refuse":
    from flwr_kld.accounting import Ledger
    from flwr_kld.accounting.entry import Failure, FailureKind
    why = Failure(FailureKind(plan["refusal"]), "no room until [Sunday]")
    Ledger(plan["ledger"]).refuse(key, why, population=plan["population"])
if does in ("settle", "make", "fail", "fail oddly", "crash", "crash aloud"):
    from flwr_kld.accounting import Charge, Cost, Everyone, Kind, Ledger
    from flwr_kld.accounting.entry import Failure, FailureKind
    from flwr_kld.privacy import Guarantee
    ledger = Ledger(plan["ledger"])
    cost = Cost.claimed("discrete-laplace", Guarantee(0.1))
    reservation = ledger.reserve(
        key, [Charge(cost, Everyone())], population=plan["population"],
        kind=Kind.REFERENCE if does == "make" else Kind.CHECK,
    )
    if does == "settle":
        cost_of = {{**plan["report"]["cost"], "population": plan["population"]}}
        report = {{**plan["report"], "key": key, "cost": cost_of}}
        ledger.settle(reservation, report)
    elif does == "make":
        from flwr_kld import Labels, Reference
        from flwr_kld.accounting.kept_reference import kept_as
        made = Reference.from_counts(Labels(["bus", "car", "train"]), [3, 1, 3])
        reading = {{**plan["report"]["reading"], "reference": made.fingerprint}}
        report = {{**plan["report"], "reading": reading}}
        states = [kept_as(made, key, plan["population"])]
        ledger.settle(reservation, report, states=states)
    elif does == "fail":
        why = Failure(FailureKind.UNANSWERED, "3 clients answered and 5 are needed")
        ledger.fail(reservation, why)
    elif does == "crash aloud":
        print("Traceback (most recent call last):\\n  File x, line 1\\nRuntimeError: it broke")
    elif does == "fail oddly":
        ledger.fail(reservation, Failure(FailureKind.ERROR, "ZeroDivisionError"))
"""


@dataclass(frozen=True)
class FakeFlwr:
    """The command, and what it was called with.

    Parameters
    ----------
    folder : Path
        To be put on PATH.
    ledger, population : str
        What it writes to.
    """

    folder: Path
    ledger: str
    population: str = "default"

    def will(
        self,
        does: str,
        report: dict[str, Any] | None = None,
        refusal: FailureKind = FailureKind.BUDGET,
        exception: type[Exception] = LedgerUnavailable,
    ) -> None:
        """Say what the next runs do."""
        plan = self.folder / "plan.json"
        content = {
            "does": does,
            "ledger": self.ledger,
            "population": self.population,
            "report": report,
            "refusal": str(refusal),
            "exception": f"{exception.__module__}.{exception.__qualname__}",
        }
        plan.write_text(json.dumps(content))
        script = self.folder / "flwr"
        script.write_text(
            _SCRIPT.format(
                python=sys.executable, plan=str(plan), log=str(self._log), pid=str(self._pid)
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
    def _log(self) -> Path:
        return self.folder / "calls"

    @property
    def _pid(self) -> Path:
        return self.folder / "pid"
