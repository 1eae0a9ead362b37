"""A ledger with a budget, an app, a flwr command, and the command line itself."""

from __future__ import annotations

import json
import shutil
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from cli.fake_flwr import FakeFlwr, fake_flwr
from cli.place import Place
from report.samples import checksummed
from typer.testing import CliRunner

from flwr_kld.cli.app import app
from flwr_kld.guard import node_identity
from flwr_kld.kernel import Guarantee
from flwr_kld.ledger import Budget, Charge, Cost, Ledger
from flwr_kld.ledger.entry import Failure, FailureKind


@pytest.fixture(autouse=True)
def no_forecasts(monkeypatch):
    """Let `init` forecast nothing: that takes seconds for each column."""
    monkeypatch.setattr("flwr_kld.cli.init.foreseen", lambda *_: ())


@pytest.fixture
def url(tmp_path: Path, ledger_at: Callable[[Path], str]) -> str:
    """A ledger with a budget."""
    url = ledger_at(tmp_path / "drift.db")
    Ledger(url).set_budget(Budget(epsilon=1.0, delta=1e-6, window_days=30))
    return url


@pytest.fixture
def flwr(tmp_path: Path, url: str, monkeypatch) -> Iterator[FakeFlwr]:
    """The flwr command on PATH."""
    folder = tmp_path / "bin"
    folder.mkdir()
    (folder / "calls").touch()
    with fake_flwr(folder, url) as fake:
        monkeypatch.setenv("PATH", fake.path)
        monkeypatch.setenv("FLWR_KLD_LEDGER", url)
        yield fake


@pytest.fixture
def flower_app(tmp_path: Path) -> Path:
    """A folder that holds a Flower app."""
    folder = tmp_path / "app"
    folder.mkdir()
    (folder / "pyproject.toml").write_text(
        "[tool.flwr.app.components]\n[tool.flwr.app.config]\n"
        "drift-check = ''\ndrift-statistics = ''\ndrift-discovery = ''\ndrift-column = ''\n"
    )
    return folder


@pytest.fixture
def cli():
    """Run a command line; returns what typer's runner returns."""

    def run(*arguments: object, **environment: str):
        return CliRunner().invoke(app, [str(a) for a in arguments], env=environment)

    return run


@pytest.fixture
def settled(url: str):
    """Write a check into the ledger as a ServerApp does."""

    def write(key: str, report: dict[str, object] | None, epsilon: float = 0.1) -> None:
        ledger = Ledger(url)
        cost = Cost.claimed("discrete-laplace", Guarantee(epsilon))
        reservation = ledger.reserve(key, Charge(cost, ["a"]))
        if report is None:
            ledger.fail(reservation, Failure(FailureKind.UNANSWERED, "too few answered"))
        else:
            ledger.settle(reservation, checksummed({**report, "key": key}))

    return write


class Receiver:
    """A service that answers with given statuses, the last one from then on."""

    def __init__(self) -> None:
        self.statuses = [200]
        self.bodies: list[bytes] = []
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                receiver.bodies.append(self.rfile.read(int(self.headers["Content-Length"])))
                left = receiver.statuses
                self.send_response(left.pop(0) if len(left) > 1 else left[0])
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *args: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"json://127.0.0.1:{self.server.server_port}/hooks/T0K3N"

    @property
    def notices(self) -> list[str]:
        return [json.loads(body)["message"] for body in self.bodies]


@pytest.fixture
def receiver(monkeypatch) -> Iterator[Receiver]:
    monkeypatch.setenv("NO_PROXY", "*")
    receiver = Receiver()
    thread = threading.Thread(target=receiver.server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield receiver
    receiver.server.shutdown()
    thread.join()
    receiver.server.server_close()


@pytest.fixture(scope="session")
def template(tmp_path_factory) -> Path:
    """An app as `init` writes it, made once."""
    folder = tmp_path_factory.mktemp("template")
    rows = (f"{20 + i % 40},{'clerk' if i % 3 else 'nurse'}" for i in range(300))
    (folder / "sample.csv").write_text("\n".join(["age,job", *rows]))
    command = ["init", folder / "sample.csv", "--out", folder / "app"]
    done = CliRunner().invoke(app, [str(word) for word in command])
    assert done.exit_code == 0, done.output
    key = node_identity(folder / "node.key").public.hex()
    (folder / "roster.json").write_text(f'{{"clinic-a": "{key}"}}')
    return folder


@pytest.fixture
def place(template, tmp_path, monkeypatch, flwr) -> Place:
    """Copy it, with a ledger of its own and a ``flwr`` command that must not be called."""
    shutil.copytree(template, tmp_path / "here")
    here = Place(tmp_path / "here")
    (here.folder / "home").mkdir()
    monkeypatch.setenv("FLWR_HOME", str(here.folder / "home"))
    monkeypatch.delenv("FLWR_KLD_LEDGER", raising=False)
    here.change("app/pyproject.toml", str(template), str(here.folder))
    flwr.will("settle")
    return here
