"""Algorithm 1 as printed, its guarantees as corrected, and the paper's counter-examples."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from integral.laws import contains, finite_base, kl
from scipy.integrate import quad

from examples import examples
from flwr_kld.integral import GaussianCells, Mollifier
from flwr_kld.integral.boosting import (
    LN_2,
    boost,
    log_odds,
    mbde_steps,
    tilted,
)
from flwr_kld.integral.fit import mbde_boosted
from flwr_kld.simulations.studies.papers.rounds import round_bound, rounds_of, total_bound


def fixed(values):
    """Return a weak learner that always returns the same values on the points."""
    values = np.asarray(values, dtype=float)
    return lambda *_: values


def oracle(features, target, model, records):
    """Return the log odds themselves."""
    return np.log((target + 1e-12) / model)


def boosted(target, base, learner, steps):
    target, base = np.asarray(target, float), np.asarray(base, float)
    features = np.arange(len(base), dtype=float)[:, None]
    return boost(features, target, base, 1000, steps, learner=learner)


def did_of(target, base, learner, steps):
    """What each round of boosting did."""
    return rounds_of(np.asarray(target, float), np.asarray(base, float), learner, steps)


def gamma(edge: float) -> float:
    """The paper's Γ."""
    return math.log(4 / (5 - 3 * edge))


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 10.0])
def test_step_sizes_are_the_papers_and_sum_to_less_than_the_limit(epsilon):
    steps = mbde_steps(epsilon, 50)
    ratio = epsilon / (epsilon + 4 * LN_2)
    assert steps[0] == pytest.approx(ratio)
    assert steps[6] == pytest.approx(ratio**7)
    assert sum(steps) <= epsilon / (4 * LN_2)  # Lemma 10, to float rounding


@settings(max_examples=examples(60))
@given(st.floats(0.05, 10), st.integers(1, 12), st.integers(0, 2**32 - 1))
def test_f_stays_within_a_quarter_and_the_density_in_the_symmetric_box(epsilon, rounds, seed):
    generator = np.random.default_rng(seed)
    base = finite_base(generator.dirichlet(np.ones(6)))
    wild = fixed(generator.normal(0, 1e3, 6))
    target = generator.dirichlet(np.ones(6))
    fitted = boosted(target, base.mass, wild, mbde_steps(epsilon, rounds))
    assert np.abs(fitted).max() <= epsilon / 4 * (1 + 1e-12)
    assert contains(Mollifier.symmetric(epsilon), tilted(base.mass, fitted), base)


def test_classifiers_are_clamped_to_ln_2():
    """The authors' code does not; sup |c| then reached 11.8."""
    fitted = boosted([1, 0], [0.5, 0.5], fixed([11.8, -11.8]), [1.0])
    assert fitted.tolist() == [LN_2, -LN_2]


def test_the_learner_of_a_round_sees_the_model_of_the_round_before():
    seen = []

    def watcher(features, target, model, records):
        seen.append(model.copy())
        return oracle(features, target, model, records)

    target, base = [0.7, 0.2, 0.1], [0.2, 0.3, 0.5]
    boosted(target, base, watcher, [0.3, 0.1])
    first = boosted(target, base, oracle, [0.3])
    assert seen[0] == pytest.approx(base)
    assert seen[1] == pytest.approx(tilted(np.array(base), first))
    assert len(seen) == 2


def test_edges_and_drop_are_what_they_are_defined_to_be():
    target, base = np.array([0.6, 0.3, 0.1]), np.array([0.2, 0.3, 0.5])
    c = np.array([0.5, 0.1, -0.4])
    (did,) = did_of(target, base, fixed(c), [0.3])
    assert (did.step, did.reach) == (0.3, 0.5)
    assert did.target_edge == pytest.approx(target @ c / 0.5)
    assert did.model_edge == pytest.approx(-base @ c / 0.5)
    after = tilted(base, 0.3 * c)
    assert did.drop == pytest.approx(kl(target, base) - kl(target, after))


@settings(max_examples=examples(300))
@given(st.integers(0, 2**32 - 1), st.floats(0.05, 10), st.floats(0.01, 1.0))
def test_the_round_bound_holds_and_covers_both_mended_regimes(seed, epsilon, scale):
    generator = np.random.default_rng(seed)
    target, base = generator.dirichlet(np.ones(5)), generator.dirichlet(np.ones(5))
    c = generator.choice([-1.0, 1.0, 0.3], 5) * LN_2 * scale
    (did,) = did_of(target, base, fixed(c), mbde_steps(epsilon, 1))
    assert did.bound <= did.drop + 1e-12
    step, reach, mine, model = did.step, did.reach, did.target_edge, did.model_edge
    low_regime = step * reach * (mine + model - step * reach / 2)
    high_regime = step * (reach * mine - math.log(math.cosh(reach) - model * math.sinh(reach)))
    assert did.bound >= max(low_regime, high_regime) - 1e-12


def test_the_round_bound_is_reached_by_two_valued_classifiers():
    (did,) = did_of([0.75, 0.25], [0.25, 0.75], fixed([9, -9]), [0.4])
    assert did.drop == pytest.approx(did.bound, rel=1e-12)


def test_theorem_6_in_the_low_regime_omits_a_factor():
    step, reach = mbde_steps(1.0, 1)[0], 0.1
    (did,) = did_of([0.6, 0.4], [0.4, 0.6], fixed([reach, -reach]), [step])
    assert did.model_edge == pytest.approx(0.2) and did.model_edge < 1 / 3  # noqa: PT018
    printed = step * (did.target_edge + did.model_edge - reach * step / 2)
    assert did.drop < 0.11 * printed
    mended = step * reach * (did.target_edge + did.model_edge - reach * step / 2)
    assert mended <= did.drop
    assert did.bound >= mended


def test_theorem_6_in_the_high_regime_needs_classifiers_that_reach_ln_2():
    """Lemma 15 divides by ln 2 where the weak learning assumption divides by c*."""
    step, reach = mbde_steps(1.0, 1)[0], 0.1
    target, base = [0.9, 0.1], [0.01, 0.99]
    (did,) = did_of(target, base, fixed([reach, -reach]), [step])
    assert did.model_edge > 1 / 3
    printed = step * (reach * did.target_edge + gamma(did.model_edge))
    assert did.drop < 0.25 * printed
    assert did.bound <= did.drop
    claim = total_bound(1.0, 1, reach, did.target_edge, did.model_edge)
    assert 0 < claim <= did.drop
    (whole,) = did_of(target, base, fixed([LN_2, -LN_2]), [step])
    assert whole.drop >= step * (LN_2 * whole.target_edge + gamma(whole.model_edge))


@pytest.mark.parametrize("epsilon", [0.5, 1.0, 5.0])
def test_theorem_7_equation_10_is_false(epsilon):
    target, base = np.array([0.75, 0.25]), np.array([0.25, 0.75])
    (did,) = did_of(target, base, oracle, mbde_steps(epsilon, 1))
    assert (did.target_edge, did.model_edge) == pytest.approx((0.5, 0.5), rel=1e-6)
    printed = epsilon / 2 * 0.5 * (1 - mbde_steps(epsilon, 1)[0])
    assert did.drop < printed
    corrected = total_bound(epsilon, 1, LN_2, did.target_edge, did.model_edge)
    assert corrected <= did.drop
    assert corrected == pytest.approx(
        epsilon / (4 * LN_2) * (1 - did.step) * (LN_2 * 0.5 + gamma(0.5)), rel=1e-5
    )
    if epsilon == 1.0:
        assert (printed, did.drop) == pytest.approx((0.184, 0.170), abs=1e-3)


def test_the_total_bound_holds_over_many_rounds():
    generator = np.random.default_rng(3)
    target = generator.dirichlet(np.full(40, 0.05))
    base = np.full(40, 1 / 40)
    fitted = boosted(target, base, oracle, mbde_steps(2.0, 8))
    rounds = did_of(target, base, oracle, mbde_steps(2.0, 8))
    brackets = [total_bound(2.0, 8, r.reach, r.target_edge, r.model_edge) for r in rounds]
    drop = kl(target, base) - kl(target, tilted(base, fitted))
    assert 0.3 < min(brackets) <= drop
    assert drop == pytest.approx(sum(r.drop for r in rounds))
    assert drop >= sum(r.bound for r in rounds) >= min(brackets)
    assert drop <= 2.0 / 2  # Theorem 7, upper


def test_round_bound_is_nothing_for_a_silent_classifier():
    (did,) = did_of([1, 0], [0.5, 0.5], fixed([0, 0]), [0.3])
    assert (did.reach, did.drop, did.bound) == (0, 0, 0)
    assert round_bound(0.3, 0.0, 0.0, 0.0) == 0


def test_metropolis_hastings_from_a_fixed_start_is_not_private():
    """Two laws of the paper's mollifier; the chain stays where it started with these chances."""

    def stays(f) -> float:
        def moves(y):
            accept = min(1.0, math.exp(-y * y / 2 + f(y) - f(0.0)))
            return accept * math.exp(-y * y / (2 * 0.5**2)) / (0.5 * math.sqrt(2 * math.pi))

        return 1 - quad(moves, -8, 8, points=[-0.5, 0.5], limit=400)[0]

    epsilon, steps = 1.0, 10
    inside = stays(lambda y: epsilon / 4 if abs(y) < 0.5 else -epsilon / 4)
    outside = stays(lambda y: -epsilon / 4 if abs(y) < 0.5 else epsilon / 4)
    assert steps * math.log(inside / outside) == pytest.approx(18.2, abs=0.05)


def test_the_tree_finds_an_axis_parallel_block_and_its_log_odds():
    grid = np.stack(np.meshgrid(np.arange(20.0), np.arange(20.0)), -1).reshape(-1, 2)
    block = (grid[:, 0] >= 5) & (grid[:, 0] < 12) & (grid[:, 1] >= 8)
    target = np.where(block, 9.0, 1.0)
    target /= target.sum()
    model = np.full(400, 1 / 400)
    found = log_odds(grid, target, model, 10_000_000)
    assert found == pytest.approx(np.log(target / model), abs=1e-4)


def test_leaves_are_smoothed_towards_saying_nothing():
    features, target = np.array([[0.0], [1.0]]), np.array([1.0, 0.0])
    model = np.array([0.5, 0.5])
    few, many = (log_odds(features, target, model, m) for m in (100, 10**6))
    assert few == pytest.approx([np.log(1.05 / 0.55), np.log(0.05 / 0.55)])
    assert many[0] == pytest.approx(np.log(2), abs=1e-4)
    assert many[1] < -9


def test_a_tree_on_constant_features_says_nothing():
    assert (log_odds(np.ones((5, 2)), np.full(5, 0.2), np.full(5, 0.2), 10) == 0).all()


def test_many_values_are_kept_apart_by_mass():
    features = np.random.default_rng(0).normal(size=(5000, 1))
    target = np.where(features[:, 0] > 1, 5.0, 1.0)
    target /= target.sum()
    found = log_odds(features, target, np.full(5000, 1 / 5000), 10**6)
    assert (found[features[:, 0] < 0.9] < 0).all()
    assert (found[features[:, 0] > 1.1] > 0.5).all()


@pytest.mark.parametrize("records", [2, 10**9])
def test_log_odds_are_finite(records):
    target, model = np.array([0.0, 1.0, 0.0]), np.array([1.0, 0.0, 0.0])
    with np.errstate(all="raise"):
        assert np.isfinite(log_odds(np.eye(3), target, model, records)).all()


def test_boosting_on_cells_of_the_plane_learns_where_the_data_are():
    grid = GaussianCells(2, 16)
    data = grid.encode(np.random.default_rng(0).normal(1.5, 0.3, size=(2000, 2)))
    fitted = mbde_boosted(data, grid.base, 2.0, rounds=3)
    there, elsewhere = fitted[grid.encode(np.array([[1.5, 1.5], [-1.5, -1.5]]))]
    assert there > 0.3
    assert elsewhere < -0.3
