"""What guarded nodes and an aggregator's node find on their disks."""

import time
from types import SimpleNamespace

import pytest
from guard.files import guard_file
from sealed_federation import KEY

from flwr_kld.common.errors import LedgerUnavailable
from flwr_kld.guard import verify
from flwr_kld.ledger import Ledger
from flwr_kld.strategies import exchange
from flwr_kld.strategies.aggregators import ByAggregators
from flwr_kld.trust.session_book import SessionBook


@pytest.fixture
def limits(tmp_path, monkeypatch):
    """Write the file that guards every node; changes as in `guard_file`."""

    def write(*changes, more=""):
        path = guard_file(tmp_path, *changes, more=more)
        monkeypatch.setenv("FLWR_KLD_GUARD", str(path))
        return path

    return write


@pytest.fixture
def receipts(tmp_path):
    """Read what the nodes answered; empty where nothing was ever written."""

    def read():
        path = tmp_path / "receipts.db"
        return verify(path).receipts if path.exists() else ()

    return read


@pytest.fixture
def key_file(tmp_path, monkeypatch):
    monkeypatch.setenv("FLWR_HOME", str(tmp_path / "flower"))
    KEY.save(tmp_path / "key")
    return str(tmp_path / "key")


@pytest.fixture
def on_claim(monkeypatch):
    """Have something done whenever a book has claimed a night: with the book, terms and noise."""
    claim, done = SessionBook.claim, []

    def claimed(book, terms, *about):
        noise = claim(book, terms, *about)
        for do in done:
            do(book, terms, noise)
        return noise

    monkeypatch.setattr(SessionBook, "claim", claimed)
    return done.append


@pytest.fixture
def aggregator_is(monkeypatch):
    """Let the server take a node for the aggregator, whatever nodes say."""
    return lambda node: monkeypatch.setattr(ByAggregators, "holder", lambda *_: node)


class Full(Ledger):
    """A ledger whose disk is full when a check ends."""

    def settle(self, *_, **__):
        raise LedgerUnavailable("the disk is full")


@pytest.fixture
def full_ledger(ledger, tmp_path):
    """The same file as that of `ledger`."""
    return Full(f"sqlite:///{tmp_path}/drift.db")


@pytest.fixture
def no_waiting(monkeypatch):
    """Let the time for which a server waits pass at once: in process, who answers has answered."""
    waited = []
    clock = {"monotonic": lambda: time.monotonic() + sum(waited), "time": time.time}
    monkeypatch.setattr(exchange, "time", SimpleNamespace(**clock, sleep=waited.append))
