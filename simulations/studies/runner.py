"""What all studies of verdicts have in common: options, processes, tables and files."""

from __future__ import annotations

import argparse
import csv
import json
import zlib
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from rich.box import SIMPLE
from rich.console import Console
from rich.progress import track
from rich.table import Table
from threadpoolctl import threadpool_limits

Row = dict[str, Any]
Item = TypeVar("Item")
Result = TypeVar("Result")


def options(doc: str | None, *, runs: int, what: str, out: str) -> argparse.Namespace:
    """Read a study's command line, and make its folder."""
    parser = argparse.ArgumentParser(description=(doc or "").splitlines()[0])
    parser.add_argument("--runs", type=int, default=runs, help=what)
    parser.add_argument("--workers", type=int, default=2, help="processes")
    parser.add_argument("--out", type=Path, default=Path("out") / out, help="folder to write")
    found = parser.parse_args()
    found.out.mkdir(parents=True, exist_ok=True)
    return found


def in_processes(
    work: Callable[[Item], Result], items: Sequence[Item], workers: int, what: str
) -> Iterator[Result]:
    """Do the work for each item, in so many processes, and yield the results in order."""
    threads = {"initializer": threadpool_limits, "initargs": (1,)}  # processes share the cores
    with ProcessPoolExecutor(workers, get_context("spawn"), **threads) as pool:
        jobs = [pool.submit(work, item) for item in items]
        for job in track(jobs, description=what):
            yield job.result()


def generator(name: str, *more: int) -> np.random.Generator:
    """Return simulation randomness, the same for a name in every run of a study."""
    return np.random.default_rng([zlib.crc32(name.encode()), *more])


def show(title: str, rows: Sequence[Row], console: Console) -> None:
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
    with (out / f"{name}.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, fieldnames=list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    found = {"summary": summary or {}, "rows": list(rows)}
    (out / f"{name}.json").write_text(json.dumps(found, indent=2))
