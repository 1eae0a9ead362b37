"""Monte-Carlo error of the two query plans at the same number of cells, without any noise.

    python simulations/bench/query_plans.py

65,536 symbols, Π is Zipf. ln(P / Π) is either independent from symbol to symbol (idiosyncratic) or
a smooth function of rank. Printed: standard deviation of Σ w ln(P / Π) over the plan's draws.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.progress import track
from rich.table import Table

from flwr_kld.domain.block_patterns import BlockPatterns
from flwr_kld.papers.estimators import MonteCarlo
from flwr_kld.query.partition import Partition
from flwr_kld.query.plan import Plan
from flwr_kld.reference import Reference

_DRAWS = 100


def spread(plan: Plan, reference: Reference, log_ratio: NDArray[np.float64]) -> float:
    """Measure the s.d. of the weighted sum over `_DRAWS` draws of the plan, in nats."""
    sums = []
    for seed in range(_DRAWS):
        drawn = plan.draw(reference, np.random.default_rng(seed))
        by_cell = np.zeros(drawn.cells)
        by_cell[drawn.cell_of] = log_ratio  # a scored cell holds one symbol
        sums.append(drawn.weight @ by_cell)
    return float(np.std(sums))


def main() -> None:
    """Print the comparison."""
    domain = BlockPatterns()
    rank = np.arange(1, domain.size + 1)
    reference = Reference.from_counts(domain, 1.0 / rank)
    laws = {
        "idiosyncratic": np.random.default_rng(0).normal(0, 1, domain.size),
        "smooth in rank": -0.3 * np.log(rank),
    }
    table = Table(title=f"s.d. over {_DRAWS} draws of the plan, nats")
    for name in ("ln(P / Π)", "draws T", "cells", "MonteCarlo", "Partition", "variance ratio"):
        table.add_column(name, justify="right")
    cases = [(name, draws) for name in laws for draws in (100, 1000, 10_000)]
    for name, draws in track(cases, description="plans", transient=True):
        iid = MonteCarlo(draws)
        cells = iid.draw(reference, np.random.default_rng(0)).cells
        ours = Partition(cells)
        by_iid, by_partition = (spread(p, reference, laws[name]) for p in (iid, ours))
        table.add_row(
            name, f"{draws:,}", f"{cells:,}", f"{by_iid:.4f}", f"{by_partition:.5f}",
            f"{(by_iid / by_partition) ** 2:,.1f}",
        )  # fmt: skip
    Console().print(table)


if __name__ == "__main__":
    main()
