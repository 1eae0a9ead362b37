"""A ledger behind the live page, and its visitor."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from report.samples import STATISTICS, checksummed, decided, learnt
from report.tables import NAMES, drifted, table_report

from flwr_kld.kernel import Guarantee
from flwr_kld.ledger import Budget, Charge, Cost, Kind, Ledger
from flwr_kld.ledger.entry import Failure, FailureKind
from flwr_kld.ledger.read_only import LedgerView
from flwr_kld.report import Outcome
from flwr_kld.serve.door import Door
from flwr_kld.serve.pages import Pages, site

EVIL = "<script>alert('x')</script>\"'&../../etc/passwd"
"""A name that is markup, a quote and a path; every text of the ledger may be one."""
FIRST = datetime.now(UTC) - timedelta(days=10)
COST = Cost.claimed("discrete-laplace", Guarantee(0.01))


def settle(ledger: Ledger, population: str, key: str, report: dict, night: int, kind=Kind.CHECK):
    now = (FIRST + timedelta(days=night)).timestamp()
    charge = Charge(COST, ["a"])
    reserved = ledger.reserve(key, charge, kind=kind, population=population, now=now)
    told = checksummed({**report, "key": key}) if kind is Kind.CHECK else report
    ledger.settle(reserved, told, now=now + 60)


def fill(url: str) -> None:
    ledger = Ledger(url)
    for population in ("fleet", EVIL, "empty"):
        budget = Budget(1.0, 1e-6, 30, population)
        ledger.set_budget(budget, now=FIRST.timestamp() - 86_400)
    still = table_report(dict.fromkeys(NAMES, 0.0)).to_dict()
    settle(ledger, "fleet", "night 1", still, 0)
    settle(ledger, "fleet", "night 2", decided(Outcome.INCONCLUSIVE, 0.0).to_dict(), 1)
    settle(ledger, "fleet", "night 3", drifted(3).to_dict(), 2)
    evil = decided(Outcome.DRIFT, 0.2, dropouts={EVIL: 1}, counted=EVIL, drawn_from=EVIL, note=EVIL)
    settle(ledger, EVIL, EVIL, evil.to_dict(), 3)
    failing = ledger.reserve("night 5", Charge(COST, ["a"]), population=EVIL)
    ledger.fail(failing, Failure(FailureKind.UNANSWERED, EVIL))
    ledger.refuse("night 6", Failure(FailureKind.BUDGET, EVIL), population="fleet")
    for number in (1, 2):
        report = learnt(number, EVIL, name=EVIL).to_dict()
        settle(ledger, "fleet", f"{EVIL}/{number}", report, 4 + number, Kind.ROUND)
    ledger.reserve("night 7", Charge(COST, ["a"]), population="fleet")
    columns = {EVIL: replace(STATISTICS.columns["minutes"], unit=EVIL, description=EVIL)}
    described = replace(STATISTICS, whom=EVIL, columns={**STATISTICS.columns, **columns})
    settle(ledger, EVIL, f"{EVIL} described", described.to_dict(), 5, Kind.STATISTICS)


@dataclass(frozen=True)
class Answer:
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def text(self) -> str:
        return self.body.decode()


class Visitor:
    """Sends requests to an application exactly as they are given: nothing is made valid."""

    def __init__(self, app: Door) -> None:
        self._app = app

    def get(
        self,
        target: str,
        *,
        method: str = "GET",
        host: str | None = "localhost",
        **headers: str,
    ) -> Answer:
        path, _, query = target.partition("?")
        given = [(name.encode(), value.encode()) for name, value in headers.items()]
        scope = {
            "type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": method,
            "path": path, "raw_path": path.encode(), "query_string": query.encode(),
            "headers": given + ([] if host is None else [(b"host", host.encode())]),
            "scheme": "http", "server": ("127.0.0.1", 8600), "client": ("127.0.0.1", 1),
            "root_path": "",
        }  # fmt: skip
        said: list[dict] = []

        async def receive() -> dict:
            return {"type": "http.request", "body": b"", "more_body": False}

        async def send(message: dict) -> None:
            said.append(message)

        asyncio.run(self._app(scope, receive, send))
        answered = {n.decode(): v.decode() for n, v in said[0]["headers"]}
        return Answer(said[0]["status"], answered, b"".join(m.get("body", b"") for m in said[1:]))


@pytest.fixture(scope="session")
def full_ledger(tmp_path_factory, ledger_at: Callable[[Path], str]) -> str:
    url = ledger_at(tmp_path_factory.mktemp("served") / "drift.db")
    fill(url)
    return url


def door_of(url: str, token: str | None = None) -> Door:
    return Door(site(Pages(LedgerView(url))), token=token)


@pytest.fixture(scope="session")
def visitor(full_ledger: str) -> Visitor:
    return Visitor(door_of(full_ledger))
