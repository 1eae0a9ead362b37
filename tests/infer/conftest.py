import numpy as np
import pytest
from numbered import Numbered
from unproven import unproven

from flwr_kld.ask.noisy import NoisyCounts
from flwr_kld.ask.partition import Partition
from flwr_kld.kernel import Guarantee
from flwr_kld.kernel.law import NoiseTable, SeededBits, sample
from flwr_kld.reference import Reference
from flwr_kld.trust.calibration import calibrated_laplace

SILENT = unproven(NoiseTable((1 << 128,)))


@pytest.fixture(scope="session")
def plan_for():
    """Give each symbol of a law its own cell."""

    def make(p, cells=None, seed=0):
        reference = Reference(Numbered(len(p)), np.asarray(p, dtype=float))
        recipe = Partition(cells or max(len(p), 16))
        return recipe.draw(reference, np.random.default_rng(seed))

    return make


@pytest.fixture(scope="session")
def publish():
    """Noise cell counts, shape [cells]; epsilon=inf adds nothing."""

    def make(plan, counts, epsilon=np.inf, seed=0):
        clear = np.asarray(counts, dtype=np.int64)
        event = SILENT
        if epsilon < np.inf:
            event = calibrated_laplace(Guarantee(epsilon))
            noise = sample(event.table, len(clear), SeededBits(seed))
        else:
            noise = 0
        return NoisyCounts(clear + noise, max(float(clear.sum()), 1.0), event, plan, False)

    return make


@pytest.fixture(scope="session")
def in_cells():
    """Law over a plan's cells from one over symbols."""
    return lambda plan, law: np.bincount(plan.cell_of, law, plan.cells)


@pytest.fixture(scope="session")
def spread():
    """A law whose ln ratio to p is about normal with this deviation."""

    def make(p, amount, seed=0):
        q = np.asarray(p) * np.exp(amount * np.random.default_rng(seed).standard_normal(len(p)))
        return q / q.sum()

    return make


@pytest.fixture(scope="session")
def zipf():
    def law(size, slope=0.9):
        p = np.arange(1, size + 1) ** -float(slope)
        return p / p.sum()

    return law
