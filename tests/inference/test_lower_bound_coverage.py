"""The lower bound holds, is not vacuous, and is rounded the safe way."""

import math
from fractions import Fraction

import numpy as np
import pytest
from numbered import Numbered
from scipy.stats import binom

from flwr_kld import Reference
from flwr_kld.counts.noisy_counts import NoisyCounts
from flwr_kld.inference.divergence import skewed_divergence
from flwr_kld.inference.lower_bound import lower_confidence_bound
from flwr_kld.inference.witness import GROUPS, Witness
from flwr_kld.privacy import Guarantee
from flwr_kld.privacy.calibrate import calibrated_laplace
from flwr_kld.query.partition import Partition
from flwr_kld.query.selection import Selection

CELLS, RECORDS, THETA = 60, 6000, 0.01
RNG = np.random.default_rng(7)
PI = RNG.dirichlet(np.full(CELLS, 1.0))
REFERENCE = Reference.from_probabilities(Numbered(CELLS), PI)
PLAN = Partition(CELLS).draw(REFERENCE, RNG)
EVENT = calibrated_laplace(Guarantee(1.0))
GROUPED = Selection(groups=GROUPS)


def noised(counts, plan, rng):
    noise = rng.geometric(1 - math.exp(-0.5), (2, counts.size))
    values = counts.reshape(-1) + noise[0] - noise[1]  # discrete Laplace, as the table's
    return NoisyCounts(values, float(counts.sum()), EVENT, plan, private=False)


def check(p, rng, alike=0.0):
    """One check of a population with law p over the cells; groups of like records if asked."""
    law = np.bincount(PLAN.cell_of, p, PLAN.cells)
    first = noised(rng.multinomial(RECORDS, law), PLAN, rng)
    witness = Witness.from_counts(first, theta=THETA)
    plan = witness.query_plan().over(GROUPED)
    levels = len(witness.values)
    own = np.bincount(witness.level_of, law, levels)
    laws = rng.dirichlet(own / alike, GROUPS) if alike else np.tile(own, (GROUPS, 1))
    counts = np.stack([rng.multinomial(RECORDS // GROUPS, x) for x in laws], axis=1)
    second = noised(counts, plan, rng)
    return witness, lower_confidence_bound(witness, second, theta=THETA)


def drifted(nats):
    """A law at about this divergence from Π."""
    spread = math.sqrt(2 * nats)
    p = PI * np.exp(spread * np.random.default_rng(3).standard_normal(CELLS))
    return p / p.sum()


@pytest.mark.parametrize("alike", [0.0, 0.003])
@pytest.mark.parametrize("nats", [0.0, 0.05, 0.5])
@pytest.mark.parametrize("runs", [60, pytest.param(600, marks=pytest.mark.slow)])
def test_it_is_below_the_truth(nats, alike, runs):
    """Misses of all runs at 5 % each; more than the 1e-6 quantile of that is a finding."""
    p, rng = drifted(nats), np.random.default_rng(11)
    truth = skewed_divergence(PI, p, THETA)
    bounds = np.array([check(p, rng, alike)[1].lower for _ in range(runs)])
    assert (bounds > truth).sum() <= binom.isf(1e-6, runs, 0.05)
    if nats == 0.5:
        assert np.median(bounds) > truth / 3  # not vacuous


def test_values_are_rounded_upwards_and_in_range():
    witness, _ = check(drifted(0.5), np.random.default_rng(0))
    assert all(
        isinstance(value, Fraction) and value.denominator <= 2**16 for value in witness.values
    )
    assert 1 / 20 <= min(witness.values) <= max(witness.values) <= 20 + Fraction(1, 2**16)


def test_public_means_are_rounded_the_safe_way():
    witness, _ = check(drifted(0.5), np.random.default_rng(1))
    p = [Fraction(x) for x in REFERENCE.probabilities.tolist()]
    level = witness.level_of[PLAN.cell_of]
    mean = sum(x * witness.values[k] for x, k in zip(p, level, strict=True)) / sum(p)
    assert witness.reference_mean >= mean
    exact = math.fsum(
        float(x) * math.log(witness.values[k]) for x, k in zip(p, level, strict=True)
    ) / float(sum(p))
    assert witness.log_mean <= exact
    assert exact - witness.log_mean < 1e-9


def test_a_higher_level_says_less():
    witness, _ = check(drifted(0.5), np.random.default_rng(2))
    rng = np.random.default_rng(5)
    own = np.bincount(witness.level_of, np.bincount(PLAN.cell_of, drifted(0.5), PLAN.cells))
    counts = np.stack([rng.multinomial(600, own / own.sum()) for _ in range(GROUPS)], axis=1)
    second = noised(counts, witness.query_plan().over(GROUPED), rng)
    lower = [
        lower_confidence_bound(witness, second, theta=THETA, level=x).lower
        for x in (0.5, 0.95, 0.999)
    ]
    assert lower == sorted(lower, reverse=True)


def test_counts_of_another_query_are_refused():
    witness, _ = check(drifted(0.5), np.random.default_rng(2))
    other = noised(np.ones(len(witness.values) * 1, dtype=np.int64), witness.query_plan(), RNG)
    with pytest.raises(ValueError, match="at least two groups"):
        lower_confidence_bound(witness, other, theta=THETA)
    with pytest.raises(ValueError, match="theta"):
        lower_confidence_bound(witness, other, theta=1.0)
