"""What noised histograms say of the hypotheses: exact where it can be, and safe where it is not."""

import json
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from predictors.candidates import named, random_laws
from scipy.stats import binom, poisson

from examples import examples
from flwr_kld.calibration.central import calibrated_gaussian, calibrated_laplace
from flwr_kld.kernel import Guarantee
from flwr_kld.kernel.law import noise_sum
from flwr_kld.predictors.counts_mixture import (
    CountsMixture,
    distances,
    log_likelihood,
    noise_bound,
)
from flwr_kld.predictors.laws import Laws
from flwr_kld.query.noisy import NoisyCounts
from flwr_kld.query.plan import each_symbol

LAWS = random_laws(4, 6)
TABLE = LAWS.probabilities
HYPOTHESES = named(TABLE)
PLAN = each_symbol(HYPOTHESES.domain)
EVENT = calibrated_laplace(Guarantee(1.0))
NOISES = {
    "laplace": EVENT.noise,
    "of two": noise_sum(EVENT.noise, 2),
    "gaussian": calibrated_gaussian(Guarantee(1.0, 1e-6)).noise,
}


def tv(first, second):
    return float(np.abs(np.asarray(first) - second).sum() / 2)


def drawn(rng, law, labels, noise):
    odds = noise.probabilities / noise.probabilities.sum()
    return rng.multinomial(labels, law) + rng.choice(noise.support, len(law), p=odds)


def counted(rng, law, labels):
    return NoisyCounts(drawn(rng, law, labels, EVENT.noise), float(labels), EVENT, PLAN, False)


def learnt(law, rounds=3, labels=400, share=0.01, seed=0):
    mixture, rng = CountsMixture(HYPOTHESES, share=share), np.random.default_rng(seed)
    for number in range(1, rounds + 1):
        mixture.update(number, counted(rng, law, labels), held=True)
    return mixture


@pytest.mark.parametrize("noise", NOISES.values(), ids=NOISES)
def test_the_likelihood_is_that_of_poisson_counts_and_the_noise(noise):
    counts = [20, -3, 17, 0, 25, 9]
    found = log_likelihood(LAWS, counts, 60, noise)
    for law, one in zip(TABLE, found, strict=True):
        by_hand = sum(
            math.log(
                math.fsum(
                    float(p) * poisson.pmf(count - z, 60 * own)
                    for z, p in zip(noise.support.tolist(), noise.probabilities, strict=True)
                )
            )
            for count, own in zip(counts, law, strict=True)
        )
        assert one == pytest.approx(by_hand, rel=1e-9)


@settings(max_examples=examples(30))
@given(
    st.lists(st.integers(-40, 400), min_size=6, max_size=6),
    st.integers(0, 5),
    st.integers(0, 5),
)
def test_a_label_replaced_moves_log_odds_by_the_swing_at_most(counts, one, other):
    mixture = learnt(TABLE[0], rounds=1)
    moved = list(counts)
    moved[one] += 1
    moved[other] -= 1
    before, after = (log_likelihood(LAWS, own, 200, EVENT.noise) for own in (counts, moved))
    odds = (after - before)[:, None] - (after - before)
    assert np.abs(odds).max() <= mixture.leader.swing + 1e-9
    assert mixture.leader.swing == pytest.approx(2.0, rel=0.01)  # as that of a local report at ε


def test_who_may_count_more_than_one_label_outlasts_nobody():
    mixture = CountsMixture(HYPOTHESES, share=0.0)
    mixture.update(1, counted(np.random.default_rng(0), TABLE[0], 4000), held=False)
    assert mixture.leader.log_odds > 50
    assert mixture.leader.outlasts == 0
    again = CountsMixture(HYPOTHESES, share=0.0)
    again.restore(json.loads(json.dumps(mixture.state(), allow_nan=False)))
    assert again.leader == mixture.leader


@pytest.mark.parametrize("noise", NOISES.values(), ids=NOISES)
def test_the_bound_on_the_noise_holds_within_its_reach(noise):
    spread, reach = noise_bound(noise)
    width = noise.reach + 1000
    law = np.array([float(noise.probability(k)) for k in range(-width, width + 1)])
    for at in np.linspace(0.01, 1, 20) * reach:
        exact = math.log(math.fsum(law * np.exp(at * np.arange(-width, width + 1))))
        assert exact <= at**2 * spread / 2 * (1 + 1e-9)
    assert spread <= 1.5 * noise.variance  # and is worth having


@pytest.mark.parametrize("noise", NOISES.values(), ids=NOISES)
def test_a_bound_on_a_distance_is_wrong_as_seldom_as_it_says(noise):
    """Half of the runs may be wrong: more than 78 of 120 by chance once in a million."""
    rng, laws = np.random.default_rng(1), Laws(TABLE[:2])
    spread, reach = noise_bound(noise)
    wrong = 0
    for _ in range(120):
        truth = rng.dirichlet(np.ones(6))
        counts = drawn(rng, truth, 200, noise)
        bounds = distances(laws, counts, 200, spread, reach, 0.25)
        wrong += any(b > tv(truth, own) for b, own in zip(bounds, laws.probabilities, strict=True))
    assert binom.sf(78, 120, 0.5) < 1e-3
    assert wrong <= 78


def test_many_labels_say_how_far_away_the_truth_is():
    laws, noise = Laws(TABLE[:2]), EVENT.noise
    rng = np.random.default_rng(2)
    bounds = distances(laws, drawn(rng, TABLE[0], 10**6, noise), 10**6, *noise_bound(noise), 1e-6)
    assert bounds[0] == 0
    assert bounds[1] == pytest.approx(tv(TABLE[0], TABLE[1]), abs=0.01)


def test_it_selects_the_truth_and_refutes_what_is_outside():
    inside = learnt(TABLE[2], labels=4000)
    chosen = inside.select()
    assert (chosen.name, inside.leader.index, inside.refuted) == ("f2", 2, False)
    assert chosen.slack == 0
    np.testing.assert_allclose(inside.predict(), TABLE[2], atol=0.05)

    outside = 0.5 * TABLE[0] + 0.5 * TABLE[1]
    told = learnt(outside, labels=20_000)
    assert told.refuted
    assert told.select().distance > 0.01
    np.testing.assert_allclose(told.mixture, [0.5, 0.5, 0, 0], atol=0.1)
    assert tv(told.predict(), outside) < 0.02


def test_two_aggregators_need_fewer_reports_than_a_sixteenth_of_local_ones():
    """Eight laws .2 apart, ε = 1: 150 reports are right in .92 of runs; local ones, 2,297."""
    signs = np.array([[(-1) ** bin(i & j).count("1") for j in range(16)] for i in range(1, 9)])
    laws, noise = Laws((1 + 0.4 * signs) / 16), NOISES["of two"]
    rng, right = np.random.default_rng(3), 0
    for run in range(200):
        counts = drawn(rng, laws.probabilities[run % 8], 150, noise)
        right += int(log_likelihood(laws, counts, 150, noise).argmax()) == run % 8
    assert right >= 170


def test_settled_rounds_weigh_what_they_weighed_and_a_stored_state_goes_on():
    mixture, settled = learnt(TABLE[1], rounds=5, labels=60), learnt(TABLE[1], rounds=5, labels=60)
    settled.settle(4)
    np.testing.assert_allclose(settled.log_weights, mixture.log_weights, rtol=1e-12)
    again = CountsMixture(HYPOTHESES)
    again.restore(json.loads(json.dumps(settled.state())))
    assert again.state() == settled.state()
    assert again.leader == settled.leader
    assert again.select() == settled.select()
    later = counted(np.random.default_rng(9), TABLE[3], 100)
    for one in (again, settled):
        one.update(6, later, held=True)
    assert again.state() == settled.state()


def test_a_state_of_something_else_is_refused():
    state = learnt(TABLE[0]).state()
    others = [
        CountsMixture(HYPOTHESES, share=0.5),
        CountsMixture(named(TABLE[:2])),
        CountsMixture(named(random_laws(4, 5).probabilities)),
    ]
    for other in others:
        with pytest.raises(ValueError, match="stored"):
            other.restore(state)
    changed = CountsMixture(named(TABLE[::-1]))
    with pytest.raises(ValueError, match="have changed"):
        changed.restore(state)
    for broken in (
        {},
        {**state, "contexts": {}},
        {**state, "format": 2},
        {**state, "settled": [3, [0.0]]},
        None,
    ):
        with pytest.raises(ValueError, match="stored"):
            CountsMixture(HYPOTHESES).restore(broken)


def test_nothing_learnt_is_the_prior():
    mixture = CountsMixture(HYPOTHESES)
    np.testing.assert_allclose(mixture.weights, 0.25)
    np.testing.assert_allclose(mixture.mixture, 0.25)
    assert mixture.select().distance == 0
    assert not mixture.refuted


def test_before_any_count_nothing_leads_and_nothing_is_outlasted():
    leader = CountsMixture(HYPOTHESES).leader
    assert (leader.log_odds, leader.outlasts) == (0, 0)
