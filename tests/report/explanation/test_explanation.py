"""Which cells moved: names, direction, size, and how rarely chance is taken for movement."""

import json

import numpy as np
import pytest
from numbered import Numbered
from scipy import stats
from unproven import unproven

from flwr_kld import Binned, BlockPatterns, Categories, Labels, Partition, Reference
from flwr_kld.calibration.central import calibrated_laplace
from flwr_kld.inference.divergence import skewed_divergence
from flwr_kld.inference.estimators.registry import estimate
from flwr_kld.inference.estimators.result import assemble
from flwr_kld.inference.estimators.score import score
from flwr_kld.kernel import Guarantee
from flwr_kld.kernel.law import NoiseTable, SeededBits, sample
from flwr_kld.kernel.promise import Adjacency
from flwr_kld.query.noisy import NoisyCounts
from flwr_kld.report.explanation import explain

NONE = unproven(NoiseTable((1, (1 << 128) - 2, 1)))
FRUIT = Labels(["apple", "banana", "cherry", "durian"])
P = np.array([0.4, 0.3, 0.2, 0.1])


def plan_of(domain, p, recipe=None):
    return (recipe or Partition(16)).draw(Reference(domain, p), np.random.default_rng(0))


def release(plan, h, epsilon, seed=0, adjacency=Adjacency.REPLACE_ONE):
    h = np.append(h, np.zeros(len(plan.cell_of) - len(h)))  # nothing other, nothing missing
    clear = np.bincount(plan.cell_of, h, plan.cells).astype(np.int64)
    event = calibrated_laplace(Guarantee(epsilon, 0.0, adjacency)) if epsilon < np.inf else NONE
    noisy = clear + sample(event.table, plan.cells, SeededBits(seed))
    total = clear if adjacency is Adjacency.REPLACE_ONE else noisy
    return NoisyCounts(noisy, max(float(total.sum()), 1.0), event, plan, False)


def as_read(counts, *, theta):
    """Read counts as they are, whatever the noise."""
    plan = counts.plan
    expected = np.where(plan.weight > 0, counts.records * plan.mass, 1.0)
    mean = score(np.maximum(counts.values, 0) / expected, theta)
    return assemble(plan, theta=theta, estimator="as_read", target="cohort", mean=mean,
                    sampling=0.0, privacy=0.0)  # fmt: skip


def moved(counts, **options):
    estimator = options.pop("estimator", "posterior_counts")
    return explain(counts, estimate(counts, estimator=estimator), **options)


def test_the_largest_movements_come_first_with_name_and_direction():
    h = np.array([400, 300, 100, 200]) * 10
    first, second, *others = moved(release(plan_of(FRUIT, P), h, 1.0))
    assert (first.name, first.direction, first.symbol) == ("cherry", "fewer", 2)
    assert (second.name, second.direction) == ("durian", "more")
    assert first.beyond_chance
    assert second.beyond_chance
    assert {m.name for m in others} == {
        "apple", "banana", "other (not in the reference)", "missing (not in the reference)"
    }  # fmt: skip
    assert not any(m.beyond_chance for m in others)
    assert second.share == pytest.approx(0.2, abs=0.02)
    assert str(first).startswith("fewer of cherry: ")
    assert "within chance" in str(others[0])


@pytest.mark.parametrize("theta", [0.01, 0.3])
def test_parts_add_up_to_the_divergence(theta):
    h = np.array([4000, 3000, 1000, 2000])
    counts = release(plan_of(FRUIT, P), h, np.inf)
    told = estimate(counts, estimator=as_read, theta=theta)
    parts = [m.contribution for m in explain(counts, told)]
    assert min(parts) >= 0
    assert sum(parts) == pytest.approx(skewed_divergence(P, h, theta), rel=1e-12)
    assert sum(parts) == pytest.approx(told.value, rel=1e-12)


def test_parts_of_cells_with_many_symbols_and_of_impossible_ones():
    p = np.append(np.arange(1, 400) ** -1.0, np.zeros(3))
    p /= p.sum()
    plan = plan_of(Numbered(402), p, Partition(40))
    q = p.copy()
    q[300:399] *= 30
    q[399:] = 0.01
    h = np.random.default_rng(1).multinomial(3_000_000, q / q.sum())
    counts = release(plan, h, np.inf)
    got = moved(counts, most=plan.cells, estimator=as_read)
    in_cells = np.bincount(plan.cell_of, h, plan.cells)
    assert sum(m.contribution for m in got) == pytest.approx(
        skewed_divergence(plan.mass, in_cells, 0.01), rel=1e-3
    )
    impossible = next(m for m in got if m.reference == 0)
    assert impossible.name == "one of 3 symbols (not in the reference)"
    assert impossible.beyond_chance
    assert impossible.contribution == pytest.approx(0.99 * impossible.share)


def test_what_is_certain_is_less_than_what_is_estimated():
    h = np.array([400, 300, 100, 200]) * 10
    for movement in moved(release(plan_of(FRUIT, P), h, 1.0)):
        assert movement.low <= movement.share < movement.high
        assert movement.at_least <= movement.contribution
        assert (movement.at_least > 0) == movement.beyond_chance


def test_a_number_of_records_that_is_noised_too_is_allowed_for():
    """The noise of 400 cells moves N by 2 %, and the share of a cell with 97 % of them alike."""
    p = np.append(0.97, np.full(399, 0.03 / 399))
    plan, rng = plan_of(Numbered(400), p, Partition(400)), np.random.default_rng(0)
    z, missed = [], 0
    for seed in range(200):
        h = rng.multinomial(5000, p)
        counts = release(plan, h, 0.3, seed=seed, adjacency=Adjacency.ADD_REMOVE)
        first = next(m for m in moved(counts, most=400, estimator=as_read) if m.symbol == 0)
        z.append(first.z)
        missed += first.beyond_chance
    assert missed <= stats.binom.isf(1e-6, 200, 0.05)
    assert 0.55 < np.mean(np.square(z)) < 1.6  # chi-squared of 200: outside with P < 1e-6


def test_what_is_certain_comes_before_what_only_looks_large():
    p = np.arange(1, 301) ** -1.0
    p /= p.sum()
    q = p.copy()
    q[0] *= 0.7
    plan = plan_of(Numbered(300), p, Partition(300))
    h = np.random.default_rng(0).multinomial(3000, q / q.sum())
    got = moved(release(plan, h, 0.5), most=300, estimator=as_read)
    certain = [m.beyond_chance for m in got]
    assert certain[0]
    assert certain == sorted(certain, reverse=True)
    assert max(m.contribution for m in got if not m.beyond_chance) > got[0].at_least
    rest = [m.contribution for m in got if not m.beyond_chance]
    assert rest == sorted(rest, reverse=True)


def test_cells_read_as_they_are_show_nothing_within_a_deviation():
    plan = plan_of(FRUIT, np.array([0.5, 0.3, 0.2, 0.0]))
    counts = release(plan, np.array([500, 300, 200, 0]), 1.0)
    for value, shown in ((2, False), (12, True)):  # the noise's deviation is 2.8
        counts.values[3] = value
        (got,) = (m for m in moved(counts) if m.symbol == 3)
        assert (got.contribution > 0) == shown


def test_a_doubled_rare_cell_is_found():
    p = np.full(50, 0.02)
    q = p.copy()
    q[7] *= 2
    plan = plan_of(Numbered(50), p, Partition(50))
    rng = np.random.default_rng(0)
    for seed in range(20):
        counts = release(plan, rng.multinomial(20_000, q / q.sum()), 1.0, seed=seed)
        first = moved(counts)[0]
        assert (first.name, first.direction, first.beyond_chance) == ("7", "more", True)
        assert first.low < q[7] / q.sum() < first.high


@pytest.mark.parametrize("adjacency", list(Adjacency))
def test_z_has_unit_variance_where_nothing_moved(adjacency):
    """The mean of 600 squares leaves 1 ± 0.32 with probability under 1e-6."""
    plan, rng = plan_of(FRUIT, P), np.random.default_rng(3)
    z = []
    for seed in range(600):
        counts = release(plan, rng.multinomial(500, P), 1.0, seed=seed, adjacency=adjacency)
        got = moved(counts, estimator=as_read)
        z.append([m.z for m in sorted(got, key=lambda m: m.symbol)])
    assert np.mean(np.square(z), axis=0) == pytest.approx(1.0, abs=0.32)


def test_names_in_the_domains_own_words():
    table = Categories({"sex": ["f", "m"], "age": Binned([40])})
    h = np.array([100, 100, 100, 700]) * 10
    first = moved(release(plan_of(table, np.full(4, 0.25)), h, 1.0))[0]
    assert (first.name, first.kind) == ("sex=m, age=>= 40", "categories")
    p = np.arange(1, 1001) ** -1.0
    plan = plan_of(Numbered(1000), p / p.sum(), Partition(40))
    names = {m.name for m in moved(release(plan, np.full(1000, 10), 1.0), most=plan.cells)}
    bins = [name for name in names if "rare symbols, each about 1 in" in name]
    assert len(bins) == 8
    counted = sum(int(name.split()[2].replace(",", "")) for name in bins)
    assert counted + len(names) - len(bins) == 1000


def test_a_symbol_outside_the_reference_keeps_its_name():
    plan = plan_of(FRUIT, np.array([0.5, 0.3, 0.2, 0.0]))
    counts = release(plan, np.array([400, 300, 200, 100]), np.inf)
    assert moved(counts)[0].name == "durian (not in the reference)"


def test_patterns_say_their_kind_and_symbol():
    p = np.zeros(BlockPatterns().size)
    p[[65535, 0]] = 0.5
    counts = release(plan_of(BlockPatterns(), p), 1000 * (p > 0), 1.0)
    kinds = {(m.kind, m.symbol, m.name) for m in moved(counts)}
    assert ("block_patterns", 65535, "..../..../..../....") in kinds


def test_json():
    counts = release(plan_of(FRUIT, P), np.array([400, 300, 100, 200]), 1.0)
    (told,) = moved(counts, most=1)
    read = json.loads(json.dumps(told.to_dict(), allow_nan=False))
    assert read["name"] == told.name
    assert read["direction"] == told.direction
    assert read["beyond_chance"] is told.beyond_chance


def test_theta_zero_has_finite_parts():
    counts = release(plan_of(FRUIT, P), np.array([500, 300, 200, 0]), 1.0)
    told = estimate(counts, estimator="posterior_ratios", theta=0.0)
    assert all(np.isfinite(m.contribution) for m in explain(counts, told))


def test_wrong_arguments():
    counts = release(plan_of(FRUIT, P), np.array([400, 300, 200, 100]), 1.0)
    told = estimate(counts)
    for wrong in ({"level": 1.0}, {"level": 0.0}, {"most": 0}):
        with pytest.raises(ValueError, match=r"must be a (whole )?number"):
            explain(counts, told, **wrong)
