"""What a check costs in the ledger where more and more checks, or clients, are in the window."""

from __future__ import annotations

import secrets
import tempfile
from collections.abc import Iterator
from pathlib import Path

from measuring import Row, Timed, cpu, measured

from flwr_kld.accounting import Budget, Charge, Clients, Cost, Ledger
from flwr_kld.kernel import Guarantee

_NOW = 2_000_000_000
_DAYS = 30


def rows(repeats: int = 5, *, quick: bool = False) -> Iterator[Row]:
    """Reserve and settle a check where so many others have been."""
    for number in (10, 20) if quick else (100, 300, 1_000):
        timed = reserving(number, 400)
        yield measured("ledger", "checks in the window", timed, repeats=repeats, size=number)
    for clients in (20, 40) if quick else (400, 4_000, 40_000):
        timed = reserving(100, clients)
        yield measured("ledger", "clients of a check", timed, repeats=repeats, size=clients)


def reserving(number: int, clients: int) -> Timed:
    """Fill a ledger with so many checks, and return what reserves and settles one more."""
    folder = tempfile.TemporaryDirectory()
    ledger = Ledger(f"sqlite:///{Path(folder.name) / 'bench.db'}")
    ledger.set_budget(Budget(1.0, 1e-6, _DAYS), now=0)
    # Distributions alone have room for so many: adding up would not.
    release = Cost.claimed("discrete-laplace", Guarantee(0.5 / 5.4 / number**0.5))
    charges = [Charge(release, Clients(f"client {i}" for i in range(clients)))]

    def a_check(now: int = _NOW, _: object = folder) -> None:  # the folder lasts as long as this
        kept = ledger.reserve(secrets.token_hex(8), charges, now=now)
        ledger.settle(kept, {"schema": 0}, delivered=[release], now=now)

    step = (_DAYS * 86_400 - 3600) // number
    for i in range(number):
        a_check(_NOW - (number - i) * step)
    return cpu(a_check)
