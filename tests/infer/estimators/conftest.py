import numpy as np
import pytest
from numbered import Numbered
from unproven import unproven

from flwr_kld.ask.noisy import NoisyCounts
from flwr_kld.ask.partition import Partition
from flwr_kld.ask.plan import QueryPlan
from flwr_kld.kernel import Guarantee
from flwr_kld.kernel.law import NoiseTable
from flwr_kld.reference import Reference
from flwr_kld.trust.calibration import calibrated_laplace

_EVENTS = {}


def event(epsilon):
    """Discrete Laplace for a record, or no noise at all for epsilon=inf."""
    if epsilon not in _EVENTS:
        if epsilon == np.inf:
            table = NoiseTable((1 << 128,))
            _EVENTS[epsilon] = unproven(table)
        else:
            _EVENTS[epsilon] = calibrated_laplace(Guarantee(epsilon))
    return _EVENTS[epsilon]


@pytest.fixture(scope="session")
def plan_for():
    def make(p, cells=None, recipe=None, seed=0):
        reference = Reference(Numbered(len(p)), np.asarray(p, dtype=float))
        recipe = recipe or Partition(cells=cells or max(len(p), 16))
        return recipe.draw(reference, np.random.default_rng(seed))

    return make


@pytest.fixture(scope="session")
def release():
    """Noisy counts of symbol counts h; q = exp(-epsilon / 2) is the law of `event`'s table."""

    def make(plan: QueryPlan, h, epsilon, seed=0):
        clear = np.bincount(plan.cell_of, h, plan.cells).astype(np.int64)
        noise = np.zeros(plan.cells, dtype=np.int64)
        if epsilon < np.inf:
            rng = np.random.default_rng(seed)
            q = 1 - np.exp(-epsilon / 2)
            noise = rng.geometric(q, plan.cells) - rng.geometric(q, plan.cells)
        return NoisyCounts(clear + noise, float(np.sum(h)), event(epsilon), plan, False)

    return make


@pytest.fixture(scope="session")
def exact():
    """D_theta of a cohort's symbol counts h."""

    def value(p, h, theta=0.01):
        p, h = np.asarray(p), np.asarray(h)
        on = p > 0
        ratio = h[on] / (h.sum() * p[on])
        return float(-(p[on] * np.log((1 - theta) * ratio + theta)).sum())

    return value


@pytest.fixture(scope="session")
def zipf():
    def law(size, slope=1.0):
        p = np.arange(1, size + 1) ** -slope
        return p / p.sum()

    return law
