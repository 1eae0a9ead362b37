"""Public references out of what has been paid for."""

import numpy as np
import pytest
from integral.laws import kl
from numbered import Numbered
from rows import counted

from flwr_kld import Reference
from flwr_kld.calibration.central import calibrated_gaussian, calibrated_laplace
from flwr_kld.integral import (
    FiniteBase,
    Mollifier,
    Sampler,
    mollify,
    recommend,
    reference_from_draws,
)
from flwr_kld.integral.recommend import _expected_draws
from flwr_kld.integral.references import ColumnCells, denoised_fractions, reference_of_cells
from flwr_kld.kernel import Guarantee
from flwr_kld.kernel.law import SeededBits, sample
from flwr_kld.kernel.vector import ClearSum
from flwr_kld.query.noisy import noisy
from flwr_kld.query.partition import Partition


def zipf(size: int) -> np.ndarray:
    mass = 1 / np.arange(1, size + 1)
    return mass / mass.sum()


def noised(truth, records, epsilon, seed=0, law=calibrated_laplace, delta=0.0):
    table = law(Guarantee(epsilon, delta)).table
    counts = np.random.default_rng(seed).multinomial(records, truth)
    return counts + sample(table, len(truth), SeededBits(seed)), table


def clipped(values, floor):
    kept = np.maximum(values, 0) + 1e-9
    return (1 - floor) * kept / kept.sum() + floor / len(values)


@pytest.mark.parametrize("records", [1000, 100_000])
@pytest.mark.parametrize("epsilon", [0.1, 1.0])
@pytest.mark.parametrize("size", [50, 20_000])
def test_no_floor_does_better_than_the_posterior_even_in_hindsight(size, epsilon, records):
    truth = zipf(size)
    errors, floors = [], []
    for seed in range(4):
        values, table = noised(truth, records, epsilon, seed)
        errors.append(kl(truth, denoised_fractions(values, table)))
        floors.append([kl(truth, clipped(values, f)) for f in (0.01, 0.05, 0.1, 0.2, 0.5, 0.9)])
    best_floor = np.mean(floors, axis=0).min()
    nothing = kl(truth, np.full(size, 1 / size))
    informative = best_floor < 0.5 * nothing
    assert np.mean(errors) < (best_floor * 1.1 if informative else 1.02 * max(nothing, best_floor))
    if informative and size > 1000:
        assert np.mean(errors) < 0.75 * best_floor


@pytest.mark.parametrize("values", [np.zeros(10), np.full(10, -50), np.eye(10)[0] * 1e6])
def test_shares_are_a_positive_law_whatever_the_counts(values):
    table = calibrated_laplace(Guarantee(1.0)).table
    shares = denoised_fractions(values.astype(np.int64), table)
    assert (shares > 0).all()
    assert shares.sum() == pytest.approx(1)
    if values.max() > 0:
        assert shares[0] > 0.999


def test_shares_follow_the_counts_in_order_and_equal_counts_share():
    values, table = noised(zipf(300), 10_000, 1.0)
    shares = denoised_fractions(values, table)
    order = np.argsort(values)
    assert (np.diff(shares[order]) >= -1e-12).all()
    assert len(np.unique(shares)) == len(np.unique(values))


def test_gaussian_noise_and_counts_beyond_its_reach_are_read_too():
    values, table = noised(zipf(200), 50_000, 1.0, law=calibrated_gaussian, delta=1e-6)
    values[0] = -10 * table.reach
    assert np.isfinite(denoised_fractions(values, table)).all()
    assert kl(zipf(200)[1:] / zipf(200)[1:].sum(), denoised_fractions(values[1:], table)) < 0.2


def plan_of(reference, cells=16):
    return Partition(cells).draw(reference, np.random.default_rng(0))


def release(records, plan, epsilon=5.0):
    event = calibrated_laplace(Guarantee(epsilon))
    return noisy(
        ClearSum(plan.layout, counted(plan, np.asarray(records))).release(event, SeededBits(3)),
        plan,
    )


def made_of(counts, effect=1.0):
    cells = ColumnCells(
        counts.plan.reference,
        counts.plan.cell_of,
        counts.values,
        counts.event.mechanism,
        counts.noise.variance**0.5,
        counts.records,
        effect,
    )
    return reference_of_cells(counts.plan.reference.domain, [cells])


def test_a_reference_of_a_federations_counts_is_near_the_truth_and_possible_everywhere():
    domain, truth = Numbered(12), zipf(12)
    plan = plan_of(Reference.from_counts(domain, np.ones(12)))
    records = np.random.default_rng(0).choice(12, 20_000, p=truth)
    reference = made_of(release(records, plan))
    assert reference.domain == domain
    assert reference.records == pytest.approx(20_000)
    alike = made_of(release(records, plan), effect=4.0)
    assert (alike.records, alike.noise) == pytest.approx((5000, reference.noise / 4))
    assert kl(truth, reference.probabilities) < 0.002
    assert (reference.probabilities > 0).all()


def test_symbols_in_a_shared_cell_keep_the_plans_proportions():
    domain = Numbered(64)
    prior = Reference.from_counts(domain, np.r_[np.full(8, 50.0), np.arange(1, 55), np.zeros(2)])
    plan = plan_of(prior)
    records = np.random.default_rng(0).choice(64, 20_000, p=zipf(64))
    reference = made_of(release(records, plan))
    for cell in range(plan.cells):
        inside = plan.cell_of == cell
        weights = prior.probabilities[inside]
        weights = weights if weights.any() else np.ones(len(weights))
        ours = reference.probabilities[inside]
        assert ours / ours.sum() == pytest.approx(weights / weights.sum())
    assert (reference.probabilities[-2:] > 0).all()  # the old reference said impossible


def test_draws_become_a_reference_beside_the_base():
    base = Reference.from_counts(Numbered(4), [1, 1, 1, 1])
    made = reference_from_draws(base, np.array([1, 1, 3]), weight=0.3)
    assert made.probabilities == pytest.approx([0.175, 0.375, 0.175, 0.275])
    law = mollify([1] * 50, FiniteBase.of(base), Mollifier.symmetric(2.0))
    drawn = Sampler(law, 4).draw(4)
    assert reference_from_draws(base, drawn).domain == base.domain


@pytest.mark.parametrize("weight", [1.0, -0.1])
def test_a_weight_of_draws_that_is_no_fraction_is_refused(weight):
    with pytest.raises(ValueError, match="weight must be"):
        reference_from_draws(Reference.from_counts(Numbered(4), [1] * 4), [0], weight=weight)


@pytest.mark.parametrize(
    "draws",
    [[4], [-1], [], [[0]], [0.0, 1.0], [np.nan], [True], ["a"], [10**30], None, 0],
    ids=str,
)
def test_draws_that_are_none_are_refused(draws):
    base = Reference.from_counts(Numbered(4), [1, 1, 1, 1])
    for given in (draws, np.array(draws)):
        with pytest.raises(ValueError, match="draws must be"):
            reference_from_draws(base, given)


def test_the_way_depends_on_records_and_draws():
    size = 16_384
    few = recommend(draws=1, epsilon=1.0, records=60, size=size)
    many = recommend(draws=1, epsilon=1.0, records=1_000_000, size=size)
    long = recommend(draws=100, epsilon=1.0, records=60, size=size)
    assert (few.way, many.way, long.way) == ("draws", "histogram", "neither")
    assert few.base_kl == many.base_kl == pytest.approx(kl(zipf(size), np.full(size, 1 / size)))
    assert many.histogram_kl < 0.05
    assert long.exemplar_kl > 0.98 * long.base_kl  # all draws together carry at most ε nats
    assert few.exemplar_kl < few.histogram_kl
    assert few.draws_kl > 0.95 * few.base_kl  # one exemplar is no reference
    assert str(few).startswith("draw exemplars")
    assert few.box.epsilon == 1.0
    assert long.box.epsilon == pytest.approx(0.01)


def test_the_expected_kl_of_mixed_draws_is_the_mean_over_their_references():
    base = Reference.from_counts(Numbered(6), np.ones(6))
    truth, law = zipf(6), 0.5 * zipf(6) + 0.5 / 6
    expected, weight = _expected_draws(
        truth, base.probabilities, [law], 10, np.random.default_rng(0)
    )
    samples = np.random.default_rng(0).multinomial(10, law, size=8)
    made = [reference_from_draws(base, np.repeat(np.arange(6), s), weight=weight) for s in samples]
    assert 0 < weight < 1
    assert expected == pytest.approx(np.mean([kl(truth, r.probabilities) for r in made]))


def test_expectations_of_a_recommendation_are_met():
    """Histogram and draws of fresh data, against the promise, within three deviations or so."""
    truth = zipf(40)
    promised = recommend(draws=5, epsilon=5.0, records=300, size=40, population=truth, seed=1)
    real = []
    for seed in range(20):
        values, table = noised(truth, 300, 5.0, seed + 100)
        real.append(kl(truth, denoised_fractions(values, table)))
    assert promised.histogram_kl == pytest.approx(np.mean(real), rel=0.35)
    assert promised.exemplar_kl < promised.draws_kl < promised.base_kl


@pytest.mark.parametrize(
    "change",
    [
        {"draws": 0},
        {"draws": 10**400},
        {"draws": 10**12},
        {"records": 10**30},
        {"size": 10**30},
        {"population": ["a"] * 10},
        {"population": [10**400] * 10},
        {"records": 0},
        {"size": 1},
        {"epsilon": 0.0},
        {"epsilon": 1000.0},
        {"population": np.ones(3)},
        {"population": np.zeros(10)},
        {"population": np.r_[np.ones(9), np.nan]},
        {"population": np.r_[np.ones(9), -1]},
    ],
)
def test_impossible_questions_are_refused(change):
    asked = {"draws": 1, "epsilon": 1.0, "records": 10, "size": 10, **change}
    with pytest.raises(ValueError, match=r"must|needs|positive"):
        recommend(**asked)


def test_a_population_is_taken_at_any_scale():
    asked = {"draws": 1, "epsilon": 1.0, "records": 10, "size": 4}
    plain = recommend(**asked, population=np.array([4.0, 2.0, 1.0, 1.0]))
    for scale in (1e-300, 4e307):
        scaled = recommend(**asked, population=np.array([4.0, 2.0, 1.0, 1.0]) * scale)
        assert scaled.base_kl == pytest.approx(plain.base_kl)
