"""What a column holds, from noised counts: intervals that hold, and nothing that noise makes up."""

import math

import numpy as np
import pytest
from chance import hold
from infer.figures.columns import GAUSSIAN, LAPLACE, SILENT, release

from flwr_kld import Binned, Labels, Table
from flwr_kld.ask.plan import each_symbol
from flwr_kld.infer.estimators.design_effect import DesignEffects
from flwr_kld.infer.figures.groups import counts_by
from flwr_kld.infer.figures.statistics import DECILES, column_statistics
from flwr_kld.kernel.promise import WholeClients
from flwr_kld.table.rounded_table import rounded
from flwr_kld.trust.noise_laws import discrete_laplace

RUNS = 60
RNG = np.random.default_rng(5)
SKEWED = RNG.gamma(0.7, 40, 6000).round()
BINS = Binned.quantiles(RNG.gamma(0.7, 40, 3000).round(), 20)
LAWS = [LAPLACE, GAUSSIAN]


def told(domain, counts, noise, effect=0.0, runs=RUNS, **options):
    plan = each_symbol(domain)
    for seed in range(1000, 1000 + runs):
        noisy = release(plan, counts, noise, seed=seed, **options)
        yield column_statistics(noisy, DesignEffects(effect))


def counted(domain, records):
    return np.bincount(domain.encode(records), minlength=domain.size)


def told_at_grid_points(domain, records, noise, effect=0.0, **options):
    """Count them anew in each run: coins are of the records, too."""
    grid = rounded(domain)
    plan = each_symbol(grid)
    for seed in range(RUNS):
        noisy = release(plan, counted(grid, records), noise, seed=seed, **options)
        yield column_statistics(noisy, DesignEffects(effect))


def held(figure, truth):
    return figure.low - 1e-9 <= truth <= figure.high + 1e-9


@pytest.mark.rate(1e-4)
@pytest.mark.parametrize("noise", LAWS, ids=["laplace", "gaussian"])
def test_intervals_of_the_counted_records_hold(noise):
    """At 95 %, in 60 runs: the exact values of records that are not resampled."""
    records = np.append(SKEWED, np.full(500, np.nan))
    present = np.sort(SKEWED)
    outer = np.array(BINS.means)[[0, -1]]
    inside = np.clip(present, BINS.edges[0], None)
    inside = np.where(present < BINS.edges[0], outer[0], inside)
    inside = np.where(present >= BINS.edges[-1], outer[1], inside)
    symbols = counted(BINS, records)
    hits = {"count": [], "missing": [], "mean": [], "deviation": [], "deciles": [], "histogram": []}
    for found in told(BINS, symbols, noise):
        numbers = found.numbers
        hits["count"].append(held(found.count, len(SKEWED)))
        hits["missing"].append(held(found.unlisted[0], 500 / len(records)))
        hits["mean"].append(held(numbers.mean, inside.mean()))
        hits["deviation"].append(held(numbers.deviation, inside.std()))
        hits["deciles"].append(
            [held(q, present[int(q.level * len(present))]) for q in numbers.quantiles]
        )
        shares = zip(found.histogram, symbols[:-1] / len(records), strict=True)
        hits["histogram"].append(all(held(one, share) for one, share in shares))
    for name, of_runs in hits.items():
        assert hold(of_runs), name


@pytest.mark.rate(1e-4)
def test_estimates_are_near_the_exact_ones():
    records, sd = SKEWED, SKEWED.std()
    found = list(told(BINS, counted(BINS, records), LAPLACE, runs=20))
    rank = np.sort(records).searchsorted
    for one in found:
        assert one.numbers.mean.value == pytest.approx(records.mean(), abs=0.1 * sd)
        for q in one.numbers.quantiles:  # values lie unevenly in bins of 5 % or a little more each
            low, high = rank(q.value, "left") / 6000, rank(q.value, "right") / 6000
            assert low - 0.06 <= q.level <= high + 0.06


@pytest.mark.parametrize("law", ["low ends", "high ends", "either"])
def test_mean_and_deviation_hold_however_values_lie_in_their_bins(law):
    """The least and the largest value of each bin, and half of each, without any noise."""
    domain = Binned([0.0, 1.0, 5.0, 20.0])
    low, high = np.array([0, 0, 1, 5, 20.0]), np.array([0, 1, 5, 20, 20.0]) - 1e-9
    counts = np.array([10, 400, 300, 200, 90, 0])
    ends = {"low ends": [low], "high ends": [high], "either": [low, high]}[law]
    values = np.concatenate([np.repeat(end, counts[:-1]) for end in ends])
    found = column_statistics(
        release(each_symbol(domain), counts * len(ends) * 1000, LAPLACE), DesignEffects(0.0)
    ).numbers
    assert held(found.mean, values.mean())
    assert found.deviation.low - 1e-3 <= values.std() <= found.deviation.high + 1e-3


def test_the_ends_of_a_deviation_are_reached():
    """Two bins of equal mass: all at the shared edge, or as far apart as can be."""
    domain = Binned([0.0, 1.0, 2.0])
    found = column_statistics(
        release(each_symbol(domain), np.array([0, 1, 1, 0, 0]) * 10**7, LAPLACE), DesignEffects(0.0)
    ).numbers
    assert found.deviation.low == pytest.approx(0, abs=1e-2)
    assert found.deviation.high == pytest.approx(1, abs=1e-2)
    assert (found.mean.low, found.mean.high) == pytest.approx((0.5, 1.5), abs=1e-2)


@pytest.mark.rate(1e-4)
def test_a_quantile_below_the_first_edge_is_not_beyond_the_second():
    """At 95 %: half of the values lie below all edges, and none in the bins between.

    Of eight in a bin and noise, one release in 2,000 takes the sixth decile for another.
    """
    domain, covered = Binned([0.0, 1.0, 2.0]), []
    for found in told(domain, np.array([500, 0, 0, 500, 0]), LAPLACE):
        first, last = found.numbers.quantiles[1], found.numbers.quantiles[-2]
        assert (first.value, first.low, first.beyond) == (0.0, 0.0, "below")
        assert (last.value, last.high, last.beyond) == (2.0, 2.0, "above")
        covered.append(held(found.numbers.quantiles[4], 0.0))
    assert hold(covered)
    below = [one.numbers for one in told(domain, np.array([1000, 0, 0, 0, 0]), LAPLACE)]
    ends = [{(q.value, q.low, q.high, q.beyond) for q in one.quantiles} for one in below]
    assert hold([one == {(0, 0, 0, "below")} for one in ends])
    at_ends = Binned([0.0, 1.0, 2.0, 3.0], means=[0.0, 1.0, 1.0, 2.0, 3.0])
    lowest = [
        {q.value for q in found.numbers.quantiles[:6]} == {0.0}
        for found in told(at_ends, np.array([252, 0, 8, 0, 0, 2]), LAPLACE)
    ]
    assert hold(lowest, 0.999)


@pytest.mark.rate(1e-4)
@pytest.mark.parametrize("records", [300, 1000])
def test_a_deviation_holds_where_noise_drowns_the_counts(records):
    """At 95 %, in 60 runs: noise of 95 records in each of 42 counts."""
    edges, values = np.linspace(0, 20, 40), np.repeat([0.5, 1.0], records // 2)
    domain, noise = Binned(edges.tolist()), discrete_laplace(67.0)
    found = [one.numbers for one in told(domain, counted(domain, values), noise)]
    assert hold([held(one.deviation, values.std()) for one in found])
    assert hold([held(one.mean, values.mean()) for one in found])


@pytest.mark.rate(1e-4)
@pytest.mark.parametrize("side", ["below", "above"])
def test_an_interval_that_reaches_an_outer_bin_has_no_end_there(side):
    """At 95 %, in 60 runs: 51 % of the values lie beyond the edge, and noise hides it."""
    domain = Binned([1.0, 2.0, 3.0])
    counts = np.array([510, 490, 0, 0, 0])
    covered = []
    for found in told(domain, counts if side == "below" else counts[[2, 3, 1, 0, 4]], LAPLACE):
        median = found.numbers.quantiles[4]
        covered.append(side in (median.low_beyond, median.high_beyond))
        assert ("< 1 to" in median.interval) is (median.low_beyond == "below")
    assert hold(covered)


@pytest.mark.rate(1e-4)
@pytest.mark.parametrize(("records", "scale"), [(100, 3.3), (100, 20.0), (1000, 20.0)])
def test_intervals_hold_where_noise_hides_how_many_records_there_are(records, scale):
    """At 95 %, in 60 runs: noise of 5 or 28 in each of 52 counts."""
    values = np.sort(np.random.default_rng(3).exponential(1.0, records))
    domain, noise = Binned(np.linspace(0, 100, 51).tolist()), discrete_laplace(scale)
    hidden = {"protects": WholeClients(1)}
    found = [one.numbers for one in told(domain, counted(domain, values), noise, **hidden)]
    assert hold([held(one.mean, values.mean()) for one in found])
    assert hold([held(one.deviation, values.std()) for one in found])
    covered = [[held(q, values[int(q.level * records)]) for q in one.quantiles] for one in found]
    assert hold(covered)


@pytest.mark.rate(1e-4)
@pytest.mark.parametrize("records", [20, 400])
def test_quantiles_of_a_population_hold_of_few_records(records):
    """At 95 %, in 60 cohorts: whose records are drawn from the public law."""
    domain = Binned(np.linspace(0, 1, 101).tolist())
    covered = []
    for seed in range(RUNS):
        drawn = np.random.default_rng(seed).random(records)
        noisy = release(each_symbol(domain), counted(domain, drawn))
        quantiles = column_statistics(noisy, DesignEffects(1.0)).numbers.quantiles
        covered.append([held(q, q.level) for q in quantiles])
    assert hold(covered)


@pytest.mark.rate(1e-4)
@pytest.mark.parametrize("value", [-9.0, 9.0])
def test_values_that_all_lie_beyond_one_edge_are_told_as_that_edge(value):
    domain = Binned([0.0, 1.0, 2.0, 3.0, 4.0])
    for found in told(domain, counted(domain, np.full(3000, value)), LAPLACE, runs=20):
        assert not found.drowned(found.numbers.mean)
        assert not found.drowned(found.numbers.deviation)
        assert found.numbers.mean.value == pytest.approx(np.clip(value, 0, 4), abs=0.1)


def test_no_deviation_is_larger_than_half_of_the_range():
    domain = Binned([1.0, 2.0, 3.0])
    for one in told(domain, np.array([0, 0, 0, 0, 1000]), LAPLACE, runs=20):  # no values at all
        assert one.numbers.deviation.high <= 1.0
        assert one.numbers.deviation.value <= 1.0


@pytest.mark.parametrize("most", [1e75, np.finfo(float).max])
def test_the_largest_number_for_none_leaves_figures_that_are_numbers(most):
    """As some programs write: what is not a number cannot be stored, and a paid report is lost."""
    public = np.append(np.arange(100.0), [most] * 20)
    domain = Binned.quantiles(public, 10)
    with np.errstate(all="raise", under="ignore"):
        for effects in (DesignEffects(0.0), DesignEffects(2.0, 10.0)):
            noisy = release(each_symbol(domain), counted(domain, public) * 10, LAPLACE)
            numbers = column_statistics(noisy, effects).numbers
            told = [numbers.mean, numbers.deviation, *numbers.quantiles]
            assert np.isfinite([[one.value, one.low, one.high] for one in told]).all()


def test_a_value_of_its_own_in_each_bin_is_known_exactly():
    domain = Binned.quantiles([0, 0, 1, 2, 3], 9)
    found = column_statistics(
        release(each_symbol(domain), np.array([4, 3, 2, 1, 0]) * 10**6, LAPLACE), DesignEffects(0.0)
    ).numbers
    assert found.mean.value == pytest.approx(1, abs=1e-3)
    assert found.deviation.value == pytest.approx(1, abs=0.15)


def test_a_population_adds_sampling_and_alike_records():
    counts = counted(BINS, SKEWED)
    own, drawn, alike = (
        next(told(BINS, counts, LAPLACE, effect, runs=1)) for effect in (0.0, 1.0, 9.0)
    )
    for part in ("deviation", "mean"):
        widths = [
            getattr(one.numbers, part).high - getattr(one.numbers, part).low
            for one in (own, drawn, alike)
        ]
        assert widths == sorted(widths)
    shares = [one.histogram[3].high - one.histogram[3].low for one in (own, drawn, alike)]
    assert shares[0] < shares[1] < shares[2]


@pytest.mark.rate(1e-4)
def test_where_presence_is_hidden_the_number_of_records_is_estimated():
    """At 95 %, in 60 runs: with noise of which few counts are the sum."""
    domain, counts = Labels(["a", "b"]), np.array([300, 100, 0, 50])
    hidden = {"protects": WholeClients(1)}
    found = list(told(domain, counts, LAPLACE, **hidden))
    assert hold([held(one.count, 400) for one in found])
    assert hold([held(one.histogram[0], 300 / 450) for one in found])
    assert hold([held(one.unlisted[1], 50 / 450) for one in found])


@pytest.mark.rate(1e-4)
def test_groups_are_told_apart_and_their_sizes_are_not_known_exactly():
    """At 95 %, in 60 runs: a group's records are the sum of its noised counts."""
    table = Table({"site": ["n", "s"], "age": Binned([20, 40, 60])}, by="site")
    pair = table.columns["site × age"]
    rows = {
        "site": ["n"] * 400 + ["s"] * 100 + [None] * 30,
        "age": [10] * 100 + [50] * 300 + [30] * 100 + [30] * 30,
    }
    plan, symbols = each_symbol(pair), np.bincount(pair.encode(rows), minlength=pair.size)
    covered = []
    for seed in range(RUNS):
        noisy = release(plan, symbols, LAPLACE, seed=seed)
        parts = counts_by(noisy, "site")
        groups = {name: column_statistics(own, DesignEffects(0.0)) for name, own in parts}
        assert groups.keys() == {"n", "s", "other", "missing"}
        covered.append(
            [
                held(groups["n"].count, 400),
                held(groups["s"].count, 100),
                held(groups["n"].histogram[0], 0.25),
                held(groups["s"].histogram[1], 1.0),
                held(groups["n"].numbers.mean, 40.0),
            ]
        )
    assert hold(covered)


def test_a_group_that_nobody_is_in_says_nothing_certain():
    table = Table({"site": ["n", "s"], "age": Binned([20, 40, 60])}, by="site")
    plan = each_symbol(table.columns["site × age"])
    noisy = release(plan, np.eye(plan.cells)[0] * 1000, LAPLACE)
    empty = dict(counts_by(noisy, "site"))["s"]
    found = column_statistics(empty, DesignEffects(0.0))
    assert found.count.low == 0
    assert all(one.low < 0.1 for one in found.histogram)
    assert all(np.isfinite([one.value, one.low, one.high]).all() for one in found.histogram)


def test_the_most_frequent_come_first():
    domain = Labels(["a", "b", "c"])
    found = next(told(domain, np.array([100, 5000, 900, 0, 0]), LAPLACE, runs=1))
    assert [one.name for one in found.most_frequent(2)] == ["b", "c"]


@pytest.mark.rate(1e-4)
@pytest.mark.parametrize("ordered", [True, False])
def test_clients_that_are_alike_in_the_mean_only_are_allowed_for(ordered):
    """At 95 %, in 60 runs: Each of 40 clients has low, or high, values only.

    Or two thirds of its records are of one bin, whichever: then the average says it all.
    """
    domain, rng, clients, each = Binned(list(range(1, 20))), np.random.default_rng(3), 40, 50
    plan, covered = each_symbol(domain), {False: [], True: []}
    for run in range(RUNS):
        side = rng.integers(0, 2, clients)
        of_client = rng.integers(0, 20, clients)
        bins = rng.integers(0, 10, (clients, each)) + 10 * side[:, None]
        if not ordered:
            own = rng.random((clients, each)) < 2 / 3
            bins = np.where(own, of_client[:, None], rng.integers(0, 20, (clients, each)))
        counts = np.bincount(bins.ravel(), minlength=21)
        average = 1 + (each - 1) * (0.05 if ordered else 4 / 9) / 0.95
        noisy = release(plan, counts, LAPLACE, seed=run)
        for bound in (False, True):
            numbers = column_statistics(
                noisy, DesignEffects(average, each if bound else 1.0)
            ).numbers
            # E clamp: the outer bins count as their edges, 1 and 19
            error = 1.96 * numbers.mean.deviation
            covered[bound].append(abs(numbers.mean.value - 10) <= error)
    assert hold(covered[True])
    if ordered:
        assert not hold(covered[False])


@pytest.mark.rate(1e-4)
def test_a_rare_kind_of_clients_far_from_the_rest_is_allowed_for():
    """At 95 %, in 60 runs: one client of 50 is of it; nothing lies in the bins between."""
    points, each, rng = np.array([0.0, 2.0, 9.94]), 50, np.random.default_rng(6)
    law = np.array([0.49, 0.49, 0.02])
    domain = Binned(np.add.outer(points, [0.0, 0.01]).ravel().tolist())
    covered = []
    for run in range(RUNS):
        far = rng.binomial(400, 0.02)
        near = rng.binomial((400 - far) * each, 0.5)
        counts = np.zeros(8)
        counts[[1, 3, 5]] = near, (400 - far) * each - near, far * each
        part = far / 400
        share = 1.5 * part * (1 - part) / (1 - 0.5 * (1 - part) ** 2 - part**2)
        effects = DesignEffects(1 + (each - 1) * share, each)
        noisy = release(each_symbol(domain), counts, LAPLACE, seed=run)
        numbers, middle = column_statistics(noisy, effects).numbers, points + 0.005
        mean = law @ middle
        sd = np.sqrt(law @ (middle - mean) ** 2)
        covered.append([held(numbers.mean, mean), held(numbers.deviation, sd)])
    assert hold(covered)


@pytest.mark.rate(1e-4)
@pytest.mark.parametrize("bound", [True, False])
def test_a_group_whose_records_are_alike_is_told_as_such(bound):
    """Records of a client are alike in the group b only, a tenth of all."""
    domain, rng, clients = Binned(list(range(1, 10))), np.random.default_rng(4), 30
    plan, average = each_symbol(domain), 1 + 0.1 * 49  # 50 of b, and 450 of a at random
    effects = DesignEffects(average, 500.0)
    covered = []
    for run in range(RUNS):
        bins = np.repeat(9 * rng.integers(0, 2, clients), 50)
        noisy = release(plan, np.bincount(bins, minlength=11), LAPLACE, seed=run)
        found = column_statistics(noisy, effects.of_part(0.1) if bound else effects)
        covered.append(held(found.numbers.deviation, 4.0) and held(found.numbers.mean, 5.0))
    assert hold(covered) is bound


AGES = Binned([30.0, 45.0, 60.0, 75.0])
COUNTED = {
    "ages": (AGES, RNG.normal(54, 15, 3000)),
    "a constant": (AGES, np.full(3000, 54.3)),
    "halfway": (AGES, 45 + 15 / 7 * (0.5 + RNG.integers(0, 7, 3000))),
    "far modes in a bin": (Binned([0, 100, 200.0]), np.repeat([3.1, 96.7], 1500)),
    "whole numbers": (Binned([1, 2, 3, 5]), RNG.poisson(2.2, 3000).astype(float)),
    "heavy tails": (Binned([0, 20, 60, 200, 1000]), RNG.lognormal(3, 1.5, 3000)),
    "beyond the edges": (Binned([-0.5, 0, 0.5, 1]), RNG.normal(0, 1, 3000)),
    "few records": (AGES, RNG.normal(54, 15, 40)),
}
FEW_OR_MANY = ("ages", "few records")


@pytest.mark.rate(1e-4)
@pytest.mark.noise(1)
@pytest.mark.parametrize(
    ("world", "protects"),
    [*((world, "record") for world in COUNTED), *((w, WholeClients(1)) for w in FEW_OR_MANY)],
)
def test_intervals_of_numbers_at_grid_points_hold(world, protects):
    """At 95 %, in 60 runs; a histogram is of the bins, and their fractions all hold at once."""
    domain, records = COUNTED[world]
    inside, ordered = np.clip(records, domain.edges[0], domain.edges[-1]), np.sort(records)
    shares = counted(domain, records)[:-1] / len(records)
    ranks = {q: ordered[math.ceil(q * len(records)) - 1] for q in DECILES}
    hits = {"mean": [], "deviation": [], "deciles": [], "histogram": []}
    for found in told_at_grid_points(domain, records, LAPLACE, protects=protects):
        numbers = found.numbers
        hits["mean"].append(held(numbers.mean, inside.mean()))
        hits["deviation"].append(held(numbers.deviation, inside.std()))
        hits["deciles"].append([reaches(q, ranks[q.level]) for q in numbers.quantiles])
        pairs = zip(found.histogram, shares, strict=True)
        hits["histogram"].append(all(held(one, share) for one, share in pairs))
        assert [one.name for one in found.histogram] == [
            domain.name_of(n) for n in range(len(shares))
        ]
    for name, of_runs in hits.items():
        assert hold(of_runs), name


def reaches(quantile, value):
    """Whether its interval holds a value, where an end may lie beyond the edge."""
    low = quantile.low_beyond == "below" or quantile.low <= value
    return low and (quantile.high_beyond == "above" or value <= quantile.high)


@pytest.mark.rate(1e-4)
@pytest.mark.noise(3)
def test_coins_are_allowed_for_where_there_is_no_noise():
    """At 95 %, in 60 runs: all values lie halfway between two grid points."""
    domain = Binned(list(range(0, 210, 10)))
    records, covered = np.full(400, 5.0), []
    for found in told_at_grid_points(domain, records, SILENT):
        covered.append(held(found.numbers.mean, 5.0))
        assert found.numbers.mean.high - found.numbers.mean.low == pytest.approx(
            2 * 1.96 * 5 / 20, rel=0.05
        )
        assert held(found.numbers.deviation, 0.0)
    assert hold(covered)


@pytest.mark.rate(1e-4)
@pytest.mark.noise(2)
def test_the_mean_of_a_population_holds_at_grid_points():
    """At 95 %, in 60 cohorts of 400 records: coins are a part of what is sampled."""
    grid, covered = rounded(AGES), []
    plan = each_symbol(grid)
    for seed in range(RUNS):
        drawn = np.random.default_rng(seed).uniform(30, 75, 400)
        noisy = release(plan, counted(grid, drawn), LAPLACE, seed=seed)
        numbers = column_statistics(noisy, DesignEffects(1.0)).numbers
        covered.append([held(numbers.mean, 52.5), held(numbers.deviation, 45 / 12**0.5)])
    assert hold(covered)
