"""Columns with noisy counts, for tests of figures and of sentences."""

from functools import cache

import numpy as np
from unproven import unproven

from flwr_kld import Binned, Labels, Reference
from flwr_kld.ask.noisy import NoisyCounts
from flwr_kld.ask.partition import Partition
from flwr_kld.infer.figures.figures import Figures, figures
from flwr_kld.kernel import Guarantee
from flwr_kld.kernel.law import NoiseTable
from flwr_kld.kernel.promise import WholeClients
from flwr_kld.trust.noise_laws import discrete_gaussian, discrete_laplace

SILENT = NoiseTable((1 << 128,))
GAUSSIAN = discrete_gaussian(20.0)
LAPLACE = discrete_laplace(20 / 2**0.5)
DELAYS = Binned([-10, 0, 5, 15, 60, 240])
"""Eight symbols: seven bins and 'missing'."""
BEFORE = np.array([0.10, 0.25, 0.25, 0.18, 0.12, 0.07, 0.01, 0.02])
AFTER = np.array([0.06, 0.19, 0.22, 0.20, 0.17, 0.10, 0.01, 0.05])
PORTS = Labels(["JFK", "LGA", "EWR", "BOS"])


def plan_of(domain, law, cells=1000):
    reference = Reference(domain, np.asarray(law, dtype=float))
    return Partition(cells).draw(reference, np.random.default_rng(0))


def release(plan, counts, noise=SILENT, seed=0, protects="record"):
    """Counts of symbols, as they are published."""
    generator = np.random.default_rng(seed)
    clear = np.bincount(plan.cell_of, counts, plan.cells).astype(np.int64)
    chance = noise.probabilities / noise.probabilities.sum()
    noisy = clear + generator.choice(noise.support, plan.cells, p=chance)
    total = noisy.sum() if protects != "record" else clear.sum()
    event = unproven(noise, (1, -1), Guarantee(1.0, 0.0, protects))
    return NoisyCounts(noisy, max(float(total), 1.0), event, plan, False)


def releases(plan, law, records, runs, noise=GAUSSIAN, **options):
    """Yield noisy counts of cohorts drawn from a law."""
    generator = np.random.default_rng(7)
    for run in range(runs):
        yield release(plan, generator.multinomial(records, law), noise, seed=run, **options)


RUNS = 300


@cache
def read(drifted: bool, hidden: bool = False) -> list[tuple[NoisyCounts, Figures]]:
    """Counts and figures of cohorts that several tests look at.

    They have 2,000 records, or 8,000 that have drifted, under Gaussian noise, or under
    Laplace noise that hides how many records there are.
    """
    law, records = (AFTER, 8000) if drifted else (BEFORE, 2000)
    options = {"noise": LAPLACE, "protects": WholeClients(1)} if hidden else {}
    counts = releases(plan_of(DELAYS, BEFORE), law, records, RUNS, **options)
    return [(one, figures(one)) for one in counts]
