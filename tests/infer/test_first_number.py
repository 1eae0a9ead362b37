"""The first number of a report lies within its ±, though the reference is a sample of its own."""

from functools import cache

import numpy as np
import pytest
from chance import most

from flwr_kld import Labels, Reference
from flwr_kld.ask.partition import Partition
from flwr_kld.infer.divergence import skewed_divergence
from flwr_kld.infer.estimators.posterior_ratios import posterior_ratios
from flwr_kld.infer.power import published
from flwr_kld.kernel.law import SeededBits
from flwr_kld.report.parts import read
from flwr_kld.trust.trusted import Trusted


@cache
def laws(symbols, rows):
    """A law of many rare symbols, clients' law near it, and a reference that is a sample."""
    rng = np.random.default_rng(symbols + rows)
    law = (np.arange(symbols) + 1.0) ** -1.1
    law /= law.sum()
    near = rng.permutation(law * np.exp(0.3 * rng.standard_normal(symbols)))
    near = np.where(rng.random(symbols) < 0.5, law, 0.5 * law + 0.5 * near)
    counts = rng.multinomial(rows, law)
    domain = Labels([str(i) for i in range(symbols)])
    reference = Reference.from_counts(domain, [*counts, 0, 0])
    return reference, np.append(near / near.sum(), [0.0, 0.0])


@cache
def vanished(world=0):
    """A law of rare symbols, of which two in three are gone from another one, by chance."""
    rng, symbols = np.random.default_rng(9 + world), 600
    law = (np.arange(symbols) + 1.0) ** -1.0
    other = rng.permutation(law) * (rng.random(symbols) < 1 / 3)
    other[:20] = law[:20] * np.exp(rng.standard_normal(20))
    reference = Reference.from_probabilities(
        Labels([str(i) for i in range(symbols)]), np.append(law / law.sum(), [0.0, 0.0])
    )
    return reference, np.append(other / other.sum(), [0.0, 0.0])


@pytest.mark.rate(1e-5)
@pytest.mark.parametrize(
    ("symbols", "rows"),
    [pytest.param(20_000, 35_000, marks=pytest.mark.slow), (2_000, 5_000), (20, 1_000)],
)
def test_it_is_within_two_of_its_deviations(symbols, rows):
    reference, law = laws(symbols, rows)
    truth = skewed_divergence(reference.probabilities, law, 0.01)
    rng, runs, missed = np.random.default_rng(1), 40, 0
    events = [Trusted(epsilon).event(1) for epsilon in (0.3, 1.0, 8.0)]
    for seed in range(runs):
        plan = Partition(1000).draw(reference, rng)
        counts = np.bincount(plan.cell_of, rng.multinomial(15_000, law), plan.cells)
        noisy = published(counts.astype(np.int64), plan, events[seed % 3], SeededBits(seed))
        told = read(noisy, posterior_ratios(noisy))
        off = told.population_estimate - truth
        missed += abs(off) > 2 * told.population_deviation
    assert missed <= most(runs, 0.05)


@pytest.mark.rate(1e-5)
def test_the_cohorts_number_holds_where_noise_hides_what_has_vanished():
    """Within two of its deviations in 93 %, in 8 releases at ε = 0.05."""
    reference, law = vanished()
    rng, event, away = np.random.default_rng(2), Trusted(0.05).event(1), []
    plan = Partition(1000).draw(reference, rng)
    for seed in range(8):
        cohort = rng.multinomial(4_000, law)
        counts = np.bincount(plan.cell_of, cohort, plan.cells).astype(np.int64)
        told = posterior_ratios(published(counts, plan, event, SeededBits(seed))).cohort
        exact = skewed_divergence(reference.probabilities, cohort, 0.01)
        away.append(abs(told.value - exact) > 2 * told.error.privacy)
    assert sum(away) <= most(8, 0.07)


@pytest.mark.rate(1e-5)
def test_the_populations_number_holds_where_symbols_have_vanished():
    """Two in three of rare symbols are gone, which counts of a few records cannot tell.

    In 20 worlds: whether it holds is chance of the world, more than of the noise.
    """
    rng, off, away = np.random.default_rng(3), [], 0
    for seed in range(20):
        reference, law = vanished(seed)
        truth = skewed_divergence(reference.probabilities, law, 0.01)
        plan = Partition(1000).draw(reference, rng)
        counts = np.bincount(plan.cell_of, rng.multinomial(2_000, law), plan.cells)
        noisy = published(counts.astype(np.int64), plan, Trusted(3.0).event(1), SeededBits(seed))
        told = posterior_ratios(noisy).population
        off.append(told.value - truth)
        away += abs(off[-1]) > 2 * told.error.total
    assert away <= most(20, 0.07)
    assert abs(np.mean(off)) < 0.1
