"""Rows × columns that a client encodes and counts per second of CPU time, by kind of frame.

Run ``python simulations/bench/frames.py`` with pandas and polars installed. Eleven columns: five of
real numbers, two of integers, three of text, one of times; 1 % of the integers are missing.
"""

import argparse
import os
import time
from typing import Any

os.environ["POLARS_MAX_THREADS"] = "1"

import numpy as np
import pandas as pd
import polars as pl
from numpy.typing import NDArray

from flwr_kld import Binned, Domain, Labels, Partition, Reference, Table, Times
from flwr_kld.kernel import Guarantee
from flwr_kld.kernel.law import SystemBits
from flwr_kld.kernel.vector import ClientRows

TEXTS = [f"label {i}" for i in range(20)]
REALS = Binned(np.linspace(-2, 2, 19).tolist())
FEATURES: dict[str, Domain] = {
    **{f"real {i}": REALS for i in range(5)},
    "label": Labels(list(range(20))),
    "amount": Binned(list(range(1, 20))),
    **{f"text {i}": Labels(TEXTS) for i in range(3)},
    "at": Times("hour"),
}


def rows(number: int) -> dict[str, NDArray[Any]]:
    """Draw a table."""
    rng = np.random.default_rng(0)
    lost = rng.random(number) < 0.01
    return {
        **{f"real {i}": rng.normal(size=number) for i in range(5)},
        "label": np.ma.masked_array(rng.integers(0, 25, number), mask=lost),
        "amount": np.ma.masked_array(rng.integers(0, 25, number), mask=lost),
        **{f"text {i}": rng.choice(TEXTS, number) for i in range(3)},
        "at": np.datetime64("2024-01-01", "us") + rng.integers(0, 10**13, number),
    }


def main() -> None:
    """Measure every kind of frame."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--rows", type=int, default=200_000, help="rows of the frame")
    parser.add_argument("--repeats", type=int, default=3, help="runs; the best one counts")
    arguments = parser.parse_args()

    mapping = rows(arguments.rows)
    pandas = pd.DataFrame(
        {n: pd.array(c.filled(), dtype="Int64") if np.ma.isMA(c) else c for n, c in mapping.items()}
    )
    for name in ("label", "amount"):
        pandas.loc[np.ma.getmaskarray(mapping[name]), name] = pd.NA
    polars = pl.from_pandas(pandas)
    frames = {"pandas": pandas, "polars": polars, "pyarrow": polars.to_arrow(), "arrays": mapping}
    table = Table(FEATURES)
    flat = Reference.from_counts(table, np.ones(table.size))
    plan = Partition(128).draw(flat, np.random.default_rng(0))
    for kind, frame in frames.items():
        if not np.array_equal(table.encode(frame), table.encode(mapping)):
            raise RuntimeError(f"{kind} is read otherwise")
        best = float("inf")
        for _ in range(arguments.repeats):
            start = time.process_time()
            ClientRows.count(
                [table.encode(frame)], plan.cell_of, plan.layout, Guarantee(1.0), SystemBits()
            )
            best = min(best, time.process_time() - start)
        print(f"{kind:>8} {arguments.rows * len(FEATURES) / best:>14,.0f} rows x columns/s")


if __name__ == "__main__":
    main()
