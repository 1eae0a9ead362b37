"""What all studies have in common: a command line, work in processes or tasks, tables and files."""

from __future__ import annotations

import argparse
import csv
import json
import os
import sys
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from rich.box import SIMPLE
from rich.console import Console
from rich.progress import track
from rich.table import Table
from scipy.stats import beta

from flwr_kld.simulations.studies.resumable import (
    Arrays,
    Configuration,
    Kept,
    Work,
    complete,
    processes,
)

Row = dict[str, Any]
Item = TypeVar("Item")
Result = TypeVar("Result")
_WIDE = 160
"""Characters of a line of a file or a pipe, of which nobody says how wide it is."""
console = Console(width=None if sys.stdout.isatty() else _WIDE)


def plain_parser(
    doc: str | None, *, out: str, **numbers: tuple[int, str]
) -> argparse.ArgumentParser:
    """Return a parser of a study's folder, and of numbers with a default and a help."""
    parser = argparse.ArgumentParser(description=(doc or "").splitlines()[0])
    for name, (default, what) in numbers.items():
        parser.add_argument(f"--{name}", type=int, default=default, help=what)
    parser.add_argument("--out", type=Path, default=Path("out") / out, help="folder to write")
    return parser


def parser_of(doc: str | None, *, out: str, **numbers: tuple[int, str]) -> argparse.ArgumentParser:
    """Return a parser for a study in processes."""
    workers = (os.cpu_count() or 1, "processes")
    return plain_parser(doc, out=out, workers=workers, **numbers)


def in_processes(
    work: Callable[[Item], Result], items: Sequence[Item], workers: int, what: str
) -> Iterator[Result]:
    """Do the work for each item, in so many processes, and yield the results in order."""
    with processes(workers) as pool:
        jobs = [pool.submit(work, item) for item in items]
        for job in track(jobs, description=what):
            yield job.result()


def computed(
    work: Work, shared: Any, tasks: Sequence[Configuration], chosen: argparse.Namespace
) -> list[tuple[Configuration, Arrays]]:
    """Do what is missing of a study's tasks; return those with a result, and the results."""
    try:
        kept = Kept(chosen.out / "results")
        with kept.held():
            complete(work, shared, tasks, kept, workers=chosen.workers)
    except ValueError as error:
        sys.exit(str(error))
    except KeyboardInterrupt:
        console.print("stopped; the same command goes on from here")
        sys.exit(130)
    return [(task, found) for task in tasks if (found := kept.load(task)) is not None]


def grouped(
    found: Sequence[tuple[Configuration, Arrays]], *names: str
) -> dict[tuple[Any, ...], list[Arrays]]:
    """Group results by some values of their tasks."""
    groups: dict[tuple[Any, ...], list[Arrays]] = {}
    for task, result in found:
        groups.setdefault(tuple(task[name] for name in names), []).append(result)
    return groups


def generator(name: str, *more: int) -> np.random.Generator:
    """Return simulation randomness, the same for a name in every run of a study."""
    return np.random.default_rng([zlib.crc32(name.encode()), *more])


def at_most(times: int, runs: int) -> float:
    """Limit a probability from above, at 95 % (Clopper and Pearson)."""
    return float(beta.ppf(0.95, times + 1, runs - times)) if times < runs else 1.0


def significant(number: Any, digits: int = 4) -> float:
    """Round to so many digits: the order in which a sum was taken does not show."""
    return float(f"{float(number):.{digits}g}")


def show(title: str, rows: Sequence[Mapping[str, Any]]) -> None:
    """Print a table; the first column is a name."""
    table = Table(title=title, box=SIMPLE)
    for i, name in enumerate(rows[0]):
        justify = "left" if i == 0 else "right"
        table.add_column(name.replace("_", " "), justify=justify, no_wrap=i == 0)  # type: ignore[arg-type]
    for row in rows:
        table.add_row(*[f"{v:.3g}" if isinstance(v, float) else str(v) for v in row.values()])
    console.print(table)


def save(rows: Sequence[Row], out: Path, name: str, summary: Row | None = None) -> None:
    """Write rows as CSV, and with the summary as JSON."""
    out.mkdir(parents=True, exist_ok=True)
    with (out / f"{name}.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, fieldnames=list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    found = {"summary": summary or {}, "rows": list(rows)}
    (out / f"{name}.json").write_text(json.dumps(found, indent=2))
    console.print(f"written to {out}")
