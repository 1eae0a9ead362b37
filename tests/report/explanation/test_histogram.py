"""Shares of a column's cells: few bars, whose errors are what they say."""

import numpy as np
import pytest
from chance import most

from flwr_kld import Binned, Labels, Reference
from flwr_kld.ask.noisy import NoisyCounts
from flwr_kld.ask.partition import Partition
from flwr_kld.infer.estimators.design_effect import DesignEffects
from flwr_kld.kernel.promise import Guarantee, WholeClients
from flwr_kld.report.explanation import MOST, histogram
from flwr_kld.trust.calibration import calibrated_laplace

N = 4000
EVENT = calibrated_laplace(Guarantee(1.0))


def noisy(domain, counts):
    """Counts by symbol, as a check of this domain would publish them."""
    reference = Reference.from_counts(domain, np.ones(domain.size, dtype=int).tolist())
    plan = Partition().draw(reference, np.random.default_rng(0))
    values = np.zeros(plan.cells, dtype=np.int64)
    np.add.at(values, plan.cell_of, np.asarray(counts))
    return NoisyCounts(values, float(values.sum()), EVENT, plan, private=True)


def test_bars_stand_in_the_domains_order():
    found = histogram(noisy(Binned([10, 20]), [400, 2000, 1200, 400]))
    assert found.names == ("< 10", "[10, 20)", ">= 20", "missing")
    assert found.reference == pytest.approx([0.25] * 4)
    assert found.clients == pytest.approx([0.1, 0.5, 0.3, 0.1])
    name, reference, clients, low, high = next(found.bars)
    assert (name, reference, clients) == ("< 10", pytest.approx(0.25), pytest.approx(0.1))
    assert low < clients < high


def test_neighbouring_bins_are_one_bar_and_missing_its_own():
    domain = Binned(list(range(99)))
    found = histogram(noisy(domain, np.arange(domain.size)))
    assert len(found.names) == MOST
    assert found.names[0] == "< 0 … [3, 4)"
    assert found.names[-1] == "missing"
    assert sum(found.reference) == pytest.approx(1)
    assert found.clients[0] == pytest.approx((0 + 1 + 2 + 3 + 4) / np.arange(domain.size).sum())
    assert found.clients[-1] == pytest.approx((domain.size - 1) / np.arange(domain.size).sum())


def test_labels_that_moved_least_are_one_bar():
    domain = Labels([f"l{i:02d}" for i in range(60)])
    counts = np.full(domain.size, 100)
    counts[[3, 50]] = 900, 0
    found = histogram(noisy(domain, counts))
    assert len(found.names) == MOST
    assert found.names[-1] == f"{domain.size - MOST + 1} others"
    assert list(found.names[:-1]) == sorted(found.names[:-1])
    assert {"l03", "l50"} < set(found.names)
    assert sum(found.clients) == pytest.approx(1)


@pytest.mark.rate(1e-6)
@pytest.mark.parametrize("protects", ["record", WholeClients(1)])
def test_intervals_of_all_bars_hold_at_once(protects):
    domain = Binned(list(range(40)))
    rng = np.random.default_rng(5)
    event = calibrated_laplace(Guarantee(0.1, protects=protects))
    law = np.full(domain.size, 1 / domain.size)
    plan = Partition().draw(Reference(domain, law), rng)
    support, chance = event.table.support, event.table.probabilities
    missed = 0
    for _ in range(200):
        values = np.zeros(plan.cells, dtype=np.int64)
        np.add.at(values, plan.cell_of, rng.multinomial(N, law))
        values += rng.choice(support, plan.cells, p=chance / chance.sum())
        records = values.sum() if protects != "record" else N
        found = histogram(NoisyCounts(values, float(records), event, plan, private=True))
        missed += any(not low <= part <= high for _, part, _, low, high in found.bars)
    assert missed <= most(200, 0.05, 1e-6)


def test_a_design_effect_widens_and_below_1_is_refused():
    counts = noisy(Binned([10, 20]), [400, 2000, 1200, 400])
    narrow, wide = histogram(counts), histogram(counts, DesignEffects(4.0))
    assert all(w > n for w, n in zip(wide.high, narrow.high, strict=True))
    with pytest.raises(ValueError, match="1"):
        histogram(counts, DesignEffects(0.5))
