"""What a reference of few records cannot tell, in worlds made to break it."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from flwr_kld import Categories, Labels, Reference
from flwr_kld.ask.partition import Partition
from flwr_kld.infer.allowance import allowance, fraction_limits, rows_needed, share_apart
from flwr_kld.infer.divergence import skewed_divergence
from flwr_kld.kernel import Guarantee
from flwr_kld.kernel.law import SeededBits, sample
from flwr_kld.report.released_reference import denoised_fractions
from flwr_kld.trust.calibration import calibrated_laplace

THETA, RUNS = 0.01, 150


def zipf(symbols: int) -> np.ndarray:
    p = 1 / np.arange(1, symbols + 1)
    return p / p.sum()


LAWS = {
    "all alike": np.full(20, 1 / 20),
    "more symbols than records": np.full(200, 1 / 200),
    "a long tail": zipf(50),
    "a very long tail": zipf(1000),
    "halves": 0.5 ** np.arange(1, 21) / (1 - 0.5**20),
    "one and many rare": np.r_[0.97, np.full(30, 0.001)],
}


def exceeds(misses: int, rate: float) -> bool:
    """Whether so many of `RUNS` misses are too many for a rate, at a false-alarm rate of 1e-6."""
    return stats.binom.sf(misses - 1, RUNS, rate) < 1e-6


@pytest.mark.rate(1e-5)
@pytest.mark.parametrize("law", LAWS.values(), ids=LAWS)
@pytest.mark.parametrize("records", [60, 2000])
def test_it_covers_clients_who_follow_the_law_and_clients_who_drifted(law, records):
    rng, domain = np.random.default_rng(records), Labels(list(range(len(law))))
    true = np.r_[law, 0, 0]
    misses = np.zeros(6)
    for _ in range(RUNS):
        reference = Reference.from_counts(domain, rng.multinomial(records, law))
        plan = Partition(16).draw(reference, rng)
        low, high = fraction_limits(plan, level=1 - 0.05 / len(true))
        of_cells = np.bincount(plan.cell_of, true, plan.cells)
        found = allowance(reference, theta=THETA, level=0.95)
        drifted = true * np.r_[rng.choice([0.0, 0.3, 3.0, 1.0, 1.0], len(law)), 1, 1]
        drifted = true if not drifted.sum() else drifted / drifted.sum()
        told = skewed_divergence(reference.probabilities, drifted, THETA)
        truth = skewed_divergence(true, drifted, THETA)
        misses += (
            skewed_divergence(reference.probabilities, true, THETA) > found.chance,
            true[reference.probabilities == 0].sum() > found.unseen,
            found.below(told) > truth,
            found.at_most(told) < truth,
            np.abs(reference.probabilities - true).sum() / 2 > share_apart(reference, level=0.95),
            ((of_cells < low - 1e-12) | (of_cells > high + 1e-12)).any(),
        )
    assert not any(exceeds(int(number), 0.05) for number in misses), misses / RUNS


@pytest.mark.rate(1e-5)
def test_without_it_the_worlds_above_are_false():
    rng, law = np.random.default_rng(0), LAWS["a long tail"]
    told = [
        skewed_divergence(rng.multinomial(100, law) / 100, law, THETA) > 0.05 for _ in range(RUNS)
    ]
    assert exceeds(sum(told), 0.8)


@pytest.mark.rate(1e-5)
def test_a_noisy_reference_allows_for_its_noise():
    rng, law, records, noise = np.random.default_rng(0), zipf(30), 2000, 20.0
    misses = np.zeros(3)
    for _ in range(RUNS):
        counts = rng.multinomial(records, law) + np.rint(rng.normal(0, noise, 30))
        p = np.maximum(counts, 0.0)
        reference = Reference(Labels(list(range(30))), p / p.sum(), float(records), noise)
        found, true = allowance(reference, theta=THETA, level=0.95), np.r_[law, 0, 0]
        plan = Partition(1000).draw(reference, rng)
        low, high = fraction_limits(plan, level=1 - 0.05 / len(true))
        of_cells = np.bincount(plan.cell_of, true, plan.cells)
        misses += (
            skewed_divergence(reference.probabilities, true, THETA) > found.chance,
            np.abs(reference.probabilities - true).sum() / 2 > share_apart(reference, level=0.95),
            ((of_cells < low) | (of_cells > high)).any(),
        )
    assert not any(exceeds(int(number), 0.05) for number in misses), misses / RUNS
    assert found.chance > allowance(
        Reference(Labels(list(range(30))), p / p.sum(), float(records)), theta=THETA, level=0.95
    ).chance  # fmt: skip


def test_chance_and_noise_have_half_of_the_error_each():
    """With noise that moves nothing, limits are those of half the error."""
    law, cells = zipf(6), Labels(list(range(6)))
    noisy = Reference(cells, np.r_[law, 0, 0], 500.0, 1e-9)
    exact = Reference(cells, np.r_[law, 0, 0], 500.0)
    plan, other = (Partition(16).draw(one, np.random.default_rng(0)) for one in (noisy, exact))
    found = np.array(fraction_limits(plan, level=0.9))[:, :6]
    assert found == pytest.approx(np.array(fraction_limits(other, level=0.95))[:, :6], rel=1e-6)


NOISE = calibrated_laplace(Guarantee(0.1)).table


@pytest.mark.rate(1e-5)
@pytest.mark.parametrize("level", [0.95, pytest.param(0.995, marks=pytest.mark.slow)])
@pytest.mark.parametrize("law", ["halves", "one and many rare"])
def test_what_noise_alone_may_have_made_is_allowed_for_at_every_level(law, level):
    """Symbols far below the noise, whose counts have its long tail; as clients make references."""
    true, rng, bits = LAWS[law], np.random.default_rng(1), SeededBits(1)
    domain, records, misses = Labels(list(range(len(true)))), 2000, 0
    for _ in range(RUNS):
        values = rng.multinomial(records, true) + sample(NOISE, len(true), bits)
        reference = Reference(
            domain, denoised_fractions(values, NOISE), records, math.sqrt(NOISE.variance)
        )
        told = skewed_divergence(reference.probabilities, np.r_[true, 0, 0], THETA)
        misses += told > allowance(reference, theta=THETA, level=level).chance
    assert not exceeds(misses, 1 - level)


def test_records_that_are_not_listed_may_hide_under_the_noise():
    """What clients' references take for none may be six deviations, of each way and symbol."""
    domain = Categories({"a": [1, 2], "b": [1, 2]})
    p = np.where(domain.unlisted_index() < 0, 0.25, 0.0)
    found = allowance(Reference(domain, p, 4000.0, 10.0), theta=THETA, level=0.95)
    assert found.unseen == pytest.approx(len(domain.unlisted) * 6 * 10 / 4000)


def test_a_law_that_is_known_exactly_needs_none():
    known = Reference.from_probabilities(Labels(["a", "b"]), [0.5, 0.5])
    found = allowance(known, theta=THETA, level=0.95)
    assert (found.chance, found.unseen, found.above(0.1)) == (0.0, 0.0, 0.1)
    assert found.below(0.1) == pytest.approx(0.1)
    assert found.at_most(0.1) == pytest.approx(0.1)
    assert rows_needed(known, 0.05, 0.1, theta=THETA, level=0.95) is None
    plan = Partition(1000).draw(known, np.random.default_rng(0))
    low, high = fraction_limits(plan, level=0.95)
    assert low.tolist() == high.tolist() == plan.mass.tolist()
    assert not share_apart(known, level=0.95)


@pytest.mark.parametrize("nats", [0.0, 0.01, 0.3, 2.0])
def test_both_ways_are_inverse(nats):
    reference = Reference.from_counts(Labels(["a", "b", "c"]), [50, 30, 20])
    found = allowance(reference, theta=THETA, level=0.95)
    assert found.below(found.above(nats)) == pytest.approx(nats, abs=1e-12)
    assert found.at_most(nats - math.sqrt(found.by_drift * nats)) >= nats - 1e-12


def test_as_many_rows_as_are_proposed_are_enough():
    few = Reference.from_counts(Labels(list(range(20))), np.full(20, 5))
    rows = rows_needed(few, 0.05, 0.1, theta=THETA, level=0.99)
    assert rows is not None
    assert 100 < rows < 10_000
    for times, enough in ((1, True), (0.8, False), (50, True)):
        more = replace(few, records=times * rows)
        needed = rows_needed(more, 0.05, 0.1, theta=THETA, level=0.99)
        assert (needed <= more.records) is enough
        assert needed == pytest.approx(rows, rel=0.11)


@pytest.mark.parametrize("noise", [0.0, 30.0])
@pytest.mark.parametrize("theta", [0.0, THETA])
@pytest.mark.parametrize("records", [1, 7, 10**6])
def test_what_is_needed_is_a_whole_number_whatever_there_is(records, theta, noise):
    reference = Reference(Labels(["a", "b"]), [0.3, 0.7], records, noise)
    needed = rows_needed(reference, 0.05, 0.1, theta=theta, level=0.95)
    assert 1 <= needed < 10**5
    assert (needed <= records) is (records == 10**6)


@pytest.mark.parametrize("records", [1, 1000])
@pytest.mark.parametrize("threshold", [0.0, 0.05])
def test_plain_kl_has_a_finite_allowance(records, threshold):
    reference = Reference.from_counts(Labels(["a", "b"]), [records, records])
    found = allowance(reference, theta=0.0, level=0.95)
    assert threshold < found.above(threshold) < math.inf
    assert found.below(found.above(threshold)) == pytest.approx(threshold, abs=1e-12)
