"""Text files to symbols and to references: CPU seconds, and memory beside the file's size.

    python simulations/bench/text_files.py               # 10^6 rows of 30 columns, 49,157 of 34
    python simulations/bench/text_files.py --rows 100000

Columns in turn: real numbers, texts of twenty labels, whole numbers, dates, times to the second,
and numbers of which one in twenty is 'NA'. Each figure is of a process of its own. The peer reads
the same file with pyarrow, which guesses types, into numbers and texts without any symbol.
"""

from __future__ import annotations

import argparse
import multiprocessing
import resource
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv

from flwr_kld import Reference, Table
from flwr_kld.domain.frame import TextFile

_SOME, _STEP = 2_000, 100_000


def write(file: Path, rows: int, columns: int) -> None:
    """Write random rows, some at a time."""
    generator = np.random.default_rng(0)
    names = [f"column {i}" for i in range(columns)]
    with file.open("wb") as out:
        for first in range(0, rows, _STEP):
            size = min(_STEP, rows - first)
            table = pa.table({name: _column(i, size, generator) for i, name in enumerate(names)})
            options = pyarrow.csv.WriteOptions(include_header=first == 0, quoting_style="needed")
            pyarrow.csv.write_csv(table, out, options)


def _column(number: int, rows: int, generator: np.random.Generator) -> pa.Array:
    kind = number % 6
    if kind in (0, 5):
        values = pa.array(generator.normal(50, 20, rows).round(4))
        if kind == 0:
            return values
        lost = pa.array(generator.random(rows) < 0.05)
        return pa.compute.if_else(lost, "NA", values.cast(pa.string()))
    if kind == 1:
        return pa.array(generator.choice([f"label {i}" for i in range(20)], rows))
    if kind == 2:
        return pa.array(generator.integers(0, 1000, rows))
    if kind == 3:
        return pa.array(np.datetime64("2020-01-01") + generator.integers(0, 2000, rows))
    times = np.datetime64("2024-01-01T00:00:00") + generator.integers(0, 10**8, rows)
    return pa.array(times)


def encode(file: str, table: Table) -> int:
    """Read a file to symbols."""
    return len(table.encode(TextFile(file)))


def build(file: str) -> int:
    """Recognise a file, choose the columns' domains and count its rows."""
    return len(Reference.from_csv(file).columns)


def peer(file: str) -> int:
    """Read the file as pyarrow does."""
    return int(pyarrow.csv.read_csv(file, pyarrow.csv.ReadOptions(use_threads=False)).num_rows)


def measured(run: Callable[..., int], *arguments: object) -> tuple[int, float, float]:
    """Return what it gives, its CPU seconds, and the most memory of its process in MB."""
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
        return pool.submit(_measured, run, *arguments).result()


def _measured(run: Callable[..., int], *arguments: object) -> tuple[int, float, float]:
    began = time.process_time()
    given = run(*arguments)
    seconds = time.process_time() - began
    return given, seconds, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def main() -> None:
    """Write files, read them, and print a line for each figure."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--columns", type=int, default=30)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        large, small = Path(folder) / "large.csv", Path(folder) / "small.csv"
        write(large, arguments.rows, arguments.columns)
        write(small, _SOME, arguments.columns)
        table = Reference.from_csv(small).domain
        megabytes = large.stat().st_size / 1e6
        for what, run in (
            ("to symbols", (encode, str(large), table)),
            ("pyarrow, typed", (peer, str(large))),
        ):
            rows, seconds, memory = measured(*run)
            print(
                f"{what:>15}: {rows:,} rows x {arguments.columns} columns, {megabytes:,.0f} MB: "
                f"{seconds:.2f} s, {memory:,.0f} MB = {memory / megabytes:.2f} x the file"
            )
        write(small, 49_157, 34)
        _, seconds, memory = measured(build, str(small))
        print(f"{'reference':>15}: 49,157 rows x 34 columns: {seconds:.2f} s, {memory:,.0f} MB")
        write(small, _SOME, 38)
        rows = TextFile(small)
        table = Reference.from_csv(small).domain
        row = [{name: column[0] for name, column in rows.items()}]
        table.encode(row)
        began = time.process_time()
        for _ in range(100):
            table.encode(row)
        each = 10 * (time.process_time() - began)
        print(f"{'one row':>15}: of 38 columns: {each:.3f} ms")


if __name__ == "__main__":
    main()
