"""How long the default estimator takes for one estimate, by cells."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from measuring import Row, cpu, measured

from flwr_kld.calibration.central import calibrated_laplace
from flwr_kld.domain.block_patterns import BlockPatterns
from flwr_kld.inference.estimators.registry import estimate
from flwr_kld.kernel import Guarantee
from flwr_kld.kernel.law import SeededBits, sample
from flwr_kld.query.noisy import NoisyCounts
from flwr_kld.query.partition import Partition
from flwr_kld.reference import Reference

_RECORDS = 20_000


def rows(repeats: int = 5, *, quick: bool = False) -> Iterator[Row]:
    """Read noised counts of a law that has drifted from Zipf's over 65,536 symbols."""
    domain, rng = BlockPatterns(), np.random.default_rng(0)
    zipf = 1 / np.arange(1.0, domain.size + 1)
    drifted = zipf * np.exp(rng.standard_normal(domain.size))
    cohort = rng.multinomial(_RECORDS, drifted / drifted.sum())
    event = calibrated_laplace(Guarantee(1.0))
    for cells in (1000,) if quick else (1000, 8000, domain.size):
        plan = Partition(cells).draw(Reference.from_counts(domain, zipf), rng)
        counts = np.bincount(plan.cell_of, cohort, plan.cells).astype(np.int64)
        values = counts + sample(event.table, plan.cells, SeededBits(0))
        published = NoisyCounts(values, float(_RECORDS), event, plan, False)
        once = cpu(lambda p=published: estimate(p, estimator="posterior_counts", theta=0.01))
        yield measured("estimate", "posterior_counts, by cells", once, repeats=repeats, size=cells)
