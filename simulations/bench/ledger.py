"""What a check costs in the ledger where very many are in the window.

python simulations/bench/ledger.py --checks 100000 --clients 400

Writes two ledgers in a temporary folder: one whose checks all ask the same clients, one whose
checks rotate through a hundred times as many. Every time below is of one call on that ledger, the
median of a few, in a process that has composed before (the first composition imports dp-accounting,
which takes two seconds).
"""

from __future__ import annotations

import argparse
import json
import secrets
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import repeat
from pathlib import Path

import numpy as np
from measuring import Row, Timed, cpu, measured
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table

from flwr_kld.accounting import Budget, BudgetExhausted, Charge, Clients, Cost, Ledger
from flwr_kld.kernel import Guarantee
from flwr_kld.simulations.bench.stored_checks import write_checks

_NOW = 2_000_000_000
_DAYS = 30
_REPEATS = 5
_REPORT = json.dumps({"schema": 0, "padding": "x" * 2000})


def cost(epsilon: float) -> Cost:
    """Return a pure release."""
    return Cost.claimed("discrete-laplace", Guarantee(epsilon))


def fill(ledger: Ledger, cohorts: list[NDArray[np.int64]], release: Cost, fleet: int) -> None:
    """Write settled checks of these clients, evenly over the window, and their sums."""
    started = np.linspace(_NOW - _DAYS * 86_400 + 3600, _NOW - 60, len(cohorts)).astype(int)
    settled = zip(map(str, range(len(cohorts))), started.tolist(), repeat(_REPORT), cohorts)
    with ledger._database.writing() as connection:
        write_checks(connection, release, fleet, settled)


def milliseconds(run: Callable[[int], object]) -> list[float]:
    """Median and largest of a few calls, and the median of the processor's time."""
    run(-1)
    taken, busy = [], []
    for i in range(_REPEATS):
        began, worked = time.perf_counter(), time.process_time()
        run(i)
        taken.append(1000 * (time.perf_counter() - began))
        busy.append(1000 * (time.process_time() - worked))
    return [statistics.median(taken), max(taken), statistics.median(busy)]


def measure(ledger: Ledger, names: list[str], small: float, table: Table, what: str) -> None:
    """Time what a monitor does, and add the rows."""
    cohort, reservations = Clients(names), {}

    def reserve(i: int) -> None:
        charges = [Charge(cost(small), cohort)]
        reservations[i] = ledger.reserve(f"new {what} {i}", charges, now=_NOW)

    def refuse(i: int) -> None:
        # Another amount each time: no composition is known from the time before.
        with suppress(BudgetExhausted):
            ledger.reserve("never", [Charge(cost(0.9 + i * 1e-3), cohort)], now=_NOW)
            raise RuntimeError("the budget should have no room")

    def last_30(_: int) -> None:
        newest = ledger.newest_first()
        for _entry in range(30):
            next(newest)

    timed: dict[str, Callable[[int], object]] = {
        "reserve": reserve,
        "settle": lambda i: ledger.settle(
            reservations[i], {"schema": 0}, delivered=[cost(small / 2)], now=_NOW
        ),
        "spent": lambda _: ledger.spent(now=_NOW),
        "refusal, and when it fits": refuse,
        "the latest 30 entries": last_30,
        "whose turn it is": lambda _: ledger.rotation().last_asked(names),
    }
    for name, run in timed.items():
        table.add_row(what, name, *(f"{value:.0f}" for value in milliseconds(run)))


def rows(repeats: int = 5, *, quick: bool = False) -> Iterator[Row]:
    """Reserve and settle a check where more and more checks are in the window, or clients in it."""
    for number in (10, 20) if quick else (100, 1_000, 10_000):
        timed = reserving(number, 400)
        yield measured("ledger", "checks in the window", timed, repeats=repeats, size=number)
    for clients in (20, 40) if quick else (400, 4_000, 40_000):
        timed = reserving(100, clients)
        yield measured("ledger", "clients of a check", timed, repeats=repeats, size=clients)


def reserving(number: int, clients: int) -> Timed:
    """Write a ledger of so many checks, and return what reserves and settles one more."""
    folder = tempfile.TemporaryDirectory()
    ledger = Ledger(f"sqlite:///{Path(folder.name) / 'bench.db'}")
    ledger.set_budget(Budget(1.0, 1e-6, _DAYS), now=0)
    release = cost(0.5 / 5.4 / number**0.5)
    fill(ledger, [np.arange(clients)] * number, release, clients)
    charges = [Charge(release, Clients(f"client {i}" for i in range(clients)))]

    def a_check(_: object = folder) -> None:  # the folder lasts as long as this
        kept = ledger.reserve(secrets.token_hex(8), charges, now=_NOW)
        ledger.settle(kept, {"schema": 0}, delivered=[release], now=_NOW)

    a_check()  # the first composition imports what it needs
    return cpu(a_check)


def main() -> None:
    """Write the ledgers, and print what each call takes."""
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--checks", type=int, default=100_000)
    options.add_argument("--clients", type=int, default=400)
    chosen = options.parse_args()
    number, size = chosen.checks, chosen.clients
    fleet = 100 * size
    same = np.arange(size)
    shapes = {
        "the same clients": ([same] * number, size),
        "a fleet in rotation": (
            [np.sort((i * size + same) % fleet) for i in range(number)],
            fleet,
        ),
    }
    table = Table(title=f"{number:,} checks of {size} clients in the window: milliseconds")
    for name in ("checks ask", "call"):
        table.add_column(name)
    for name in ("median", "most", "processor"):
        table.add_column(name, justify="right")
    with tempfile.TemporaryDirectory() as folder:
        for what, (cohorts, clients) in shapes.items():
            began = time.perf_counter()
            most = number * size // clients  # releases that a client was asked for
            for composition in ("sum", "pld"):
                path = Path(folder) / f"{clients} {composition}.db"
                ledger = Ledger(f"sqlite:///{path}")
                # Half of the budget is spent: by adding up, or by distributions alone.
                small = 0.5 / most if composition == "sum" else 0.5 / 5.4 / most**0.5
                ledger.set_budget(Budget(1.0, 1e-6, _DAYS, composition=composition), now=0)
                fill(ledger, cohorts, cost(small), clients)
                names = [f"client {i}" for i in range(size)]
                measure(ledger, names, small, table, f"{what}, {composition}")
            seconds = time.perf_counter() - began
            table.caption = f"{table.caption or ''} {what}: {seconds:.0f} s in all."
    Console().print(table)


if __name__ == "__main__":
    main()
