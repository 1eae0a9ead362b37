"""Shorthands for charges and spends in tests."""

import json
from dataclasses import replace

import sqlalchemy as sa
from ledger.conftest import NOW

from flwr_kld.kernel import Guarantee
from flwr_kld.ledger import Charge, Cost
from flwr_kld.ledger.entry import Failure, FailureKind
from flwr_kld.ledger.rows import pack, store_cost
from flwr_kld.ledger.schema import checks

DAY = 86_400
REPORT = {"schema": 1, "estimate": 0.1}
SILENCE = Failure(FailureKind.UNANSWERED, "2 clients answered and 5 are needed")


def pure(epsilon: float, protects="record", delta=0.0) -> Cost:
    return replace(Cost.claimed("discrete-laplace", Guarantee(epsilon, delta)), protects=protects)


def ask(epsilon: float, *names: str) -> Charge:
    """A release to some clients."""
    return Charge(pure(epsilon), names or ["a"])


def insert_checks(connection, cohorts, cost, population="default", since=0):
    """Write checks of these clients' numbers, one a minute."""
    kept = store_cost(connection, cost)
    first = 1 + (connection.execute(sa.select(sa.func.max(checks.c.number))).scalar() or 0)
    connection.execute(
        checks.insert(),
        [
            {"number": first + i, "population": population, "kind": "check", "state": "settled",
             "key": f"old {first + i}", "started": since + 60 * i, "report": json.dumps(REPORT),
             "asked": kept, "members": pack(asked)}
            for i, asked in enumerate(cohorts)
        ],
    )  # fmt: skip


def spent(ledger, now=NOW):
    return ledger.spent(now=now).epsilon


def run(ledger, key, charge, now=NOW, **settled):
    reservation = ledger.reserve(key, charge, now=now)
    ledger.settle(reservation, REPORT, now=now, **settled)


def tables(ledger):
    """The database of a ledger, as whoever damages or audits it has it."""
    return ledger._database


def alter(ledger, statement):
    with tables(ledger).writing() as connection:
        connection.exec_driver_sql(statement)
