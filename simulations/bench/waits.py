"""What people wait for: a command, a client that starts, a public file, a ledger of ten thousand.

Processes are measured with all that they load, beside one that imports a library alone.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from measuring import Row, Timed, cpu, in_a_process, measured
from sqlalchemy import create_engine, select

from flwr_kld.kernel import Guarantee
from flwr_kld.ledger import Budget, Charge, Cost, Ledger
from flwr_kld.ledger.schema import checks

_CLIENT = "import flwr.clientapp"
_ANSWERER = f"{_CLIENT}\nfrom flwr_kld.clients import answer_drift_queries, node_records"
_COMMAND = "from flwr_kld.cli.app import main; main()"
_REPORT = {"schema": 1, "kind": "made up", "numbers": [i / 7 for i in range(600)]}
"""As long as a report of three columns."""


def rows(repeats: int = 5, *, quick: bool = False) -> Iterator[Row]:
    """Measure each kind of wait; of files and ledgers the small ones where it has to be quick."""
    with TemporaryDirectory() as folder:
        yield from starts(Path(folder), repeats)
    for lines, columns in ((2_000, 10),) if quick else ((200_000, 40), (10_000, 500)):
        yield in_a_process(reading, lines, columns, repeats)
    for entries in (200,) if quick else (100, 1_000, 10_000):
        yield in_a_process(paging, entries, repeats)


def starts(folder: Path, repeats: int) -> Iterator[Row]:
    """Yield a row for each process that people or nodes start often."""
    url = f"sqlite:///{folder / 'drift.db'}"
    write(url, 30)
    long = f"sqlite:///{folder / 'long.db'}"
    write(long, 10_000)
    for what, code, words, peer in (
        ("flwr-kld --help", _COMMAND, ["--help"], "import typer"),
        ("flwr-kld budget", _COMMAND, ["budget", "--ledger", url], "import sqlalchemy, numpy"),
        ("flwr-kld report", _COMMAND, ["report", "--ledger", long], "import sqlalchemy, numpy"),
        ("client that answers", _ANSWERER, [], _CLIENT),
    ):
        yield measured(
            "waits", what, process(code, *words), repeats=repeats, peer=peer, theirs=process(peer)
        )


def process(code: str, *words: str) -> Timed:
    """Time a Python process by the processor."""

    def timed() -> float:
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        command = [sys.executable, "-c", code, *words]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime

    return timed


def reading(lines: int, columns: int, repeats: int) -> Row:
    """Measure a reference of a public file of numbers, labels and dates in turn."""
    import polars as pl  # here alone: what else is measured has no part of their memory

    from flwr_kld import Reference

    rng = np.random.default_rng(0)
    kinds: list[Callable[[], object]] = [
        lambda: rng.normal(size=lines),
        lambda: rng.integers(0, 1_000, lines),
        lambda: rng.choice([f"label {i}" for i in range(12)], lines),
        lambda: (np.datetime64("2024-01-01") + rng.integers(0, 365, lines)).astype(str),
        lambda: rng.gamma(2, 10, lines).round(2),
    ]
    with TemporaryDirectory() as folder:
        file = Path(folder) / "public.csv"
        held = {f"c{place}": kinds[place % len(kinds)]() for place in range(columns)}
        pl.DataFrame(held).write_csv(file)
        del held
        read = partial(Reference.from_csv, file)
        found = measured(
            "waits", f"lines of {columns} columns", cpu(read), repeats=repeats, size=lines,
            peer="polars.read_csv", theirs=cpu(lambda: pl.read_csv(file)),
        )  # fmt: skip
    return replace(found, megabytes=_megabytes())


def paging(entries: int, repeats: int) -> Row:
    """Measure a whole history, entry by entry, beside reading its reports' JSON alone."""
    with TemporaryDirectory() as folder:
        url = f"sqlite:///{Path(folder) / 'drift.db'}"
        in_a_process(write, url, entries)  # writing takes more memory than reading
        ledger, text = Ledger(url), json.dumps(_REPORT)
        found = measured(
            "waits", "entries of a history", cpu(lambda: sum(1 for _ in ledger.history())),
            repeats=repeats, size=entries, peer="json.loads",
            theirs=cpu(lambda: [json.loads(text) and None for _ in range(entries)]),
        )  # fmt: skip
    return replace(found, megabytes=_megabytes())


def write(url: str, entries: int) -> None:
    """Write a ledger of checks of a hundred clients."""
    ledger = Ledger(url)
    ledger.set_budget(Budget(100.0, 1e-6))
    charge = Charge(Cost.claimed("discrete-laplace", Guarantee(0.1)), [f"n{i}" for i in range(100)])
    ledger.settle(ledger.reserve("0", charge), _REPORT)
    with create_engine(url).begin() as connection:
        first = dict(connection.execute(select(checks)).one()._mapping)
        del first["number"]
        copies = [{**first, "key": str(number)} for number in range(1, entries)]
        connection.execute(checks.insert(), copies)


def _megabytes() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
