"""What is read off a predictor: the leader and the lies it outlasts, mixtures, the risk bound."""

import math
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from predictors.candidates import named, random_laws
from scipy.optimize import minimize
from scipy.special import softmax
from scipy.stats import binom

from examples import examples
from flwr_kld.predictors import BayesMixture
from flwr_kld.predictors.designs import DESIGNS, Design
from flwr_kld.predictors.laws import Laws
from flwr_kld.predictors.readouts import Leader, mixture_weights
from flwr_kld.predictors.tally import LocalReports
from flwr_kld.simulations.studies.predictor_learners import affinities, divergences, kl_risk_bound

LAWS = random_laws(3, 6)
EPSILON = 1.0


def weights_after(rounds, share):
    """Log-weights after rounds of rows of `ovr`, each a list."""
    predictor = BayesMixture(named(LAWS.probabilities), EPSILON, design="ovr", share=share)
    for number, rows in enumerate(rounds):
        queries, symbols = np.divmod(np.array(rows, dtype=np.int64), 2)
        predictor.update(LocalReports(number, queries, symbols))
    return predictor.log_weights


def largest_move(a, b):
    """Largest change of any log-odds between two vectors of log-weights."""
    return float(np.ptp(a - b))


ROUNDS = st.lists(st.lists(st.integers(0, 5), min_size=1, max_size=8), min_size=1, max_size=5)


@settings(max_examples=examples(60))
@given(ROUNDS, st.integers(0, 5), st.integers(0, 5), st.sampled_from([0.0, 0.01, 0.3]))
def test_one_report_more_moves_log_odds_by_epsilon_and_one_replaced_by_two(
    rounds, first, second, share
):
    with_first, with_second = ([[*rounds[0], row], *rounds[1:]] for row in (first, second))
    plain = weights_after(rounds, share)
    added = weights_after(with_first, share)
    assert largest_move(plain, added) <= EPSILON + 1e-9
    assert largest_move(added, weights_after(with_second, share)) <= 2 * EPSILON + 1e-9


def test_some_report_does_move_log_odds_by_nearly_epsilon():
    sharp = Laws([[0.998, 0.001, 0.001], [0.001, 0.998, 0.001]])
    assert np.ptp(DESIGNS["mlq"](sharp, EPSILON).log_law, axis=1).max() > 0.99 * EPSILON


def test_the_leader_outlasts_the_lies_it_says_and_no_more():
    for log_odds, lies in ((0.0, 0), (1.99, 0), (2.0, 0), (2.01, 1), (10.0, 4), (10.1, 5)):
        leader = Leader("a", 0, 0.9, log_odds, 2 * EPSILON)
        assert leader.outlasts == lies
        assert lies == 0 or log_odds - leader.swing * lies > 0
        assert log_odds - leader.swing * (lies + 1) <= 0
    read = Leader.of(("a", "b", "c"), np.log([0.2, 0.7, 0.1]), 2 * EPSILON)
    assert (read.name, read.index) == ("b", 1)
    assert read.weight == pytest.approx(0.7)
    assert read.log_odds == pytest.approx(math.log(3.5))


def test_mixture_weights_are_those_of_expected_counts():
    law = DESIGNS["design"](random_laws(4, 30), 4.0).law
    truth = np.array([0.5, 0.3, 0.2, 0.0])
    counts = np.rint(1e7 * law @ truth).astype(np.int64)
    np.testing.assert_allclose(mixture_weights(counts, law), truth, atol=0.01)


def test_no_other_mixture_is_likelier():
    rng = np.random.default_rng(4)
    law = Design(random_laws(4, 12), 1.0, ["labels"]).law
    counts = rng.multinomial(3000, law @ [0.2, 0.3, 0.4, 0.1])

    def loss(logits):
        return -counts @ np.log(law @ softmax(logits))

    best = min(minimize(loss, rng.normal(size=4)).fun for _ in range(5))
    assert -counts @ np.log(law @ mixture_weights(counts, law)) <= best + 0.01


def exact_risk(laws, design, true, horizon):
    """Cumulative KL-risk of hypotheses and one binary query, by enumerating all counts."""
    law, logs = laws.probabilities[true], design.log_law
    some, risk = law > 0, 0.0
    for seen in range(horizon):
        ones = np.arange(seen + 1)
        odds = ones[:, None] * logs[1] + (seen - ones)[:, None] * logs[0]
        predicted = softmax(odds, axis=1) @ laws.probabilities[:, some]
        divergence = (law[some] * np.log(law[some] / predicted)).sum(axis=1)
        risk += float(binom.pmf(ones, seen, design.law[1, true]) @ divergence)
    return risk


@pytest.mark.parametrize(("seed", "epsilon"), list(product(range(4), (0.5, 1.0, 4.0))))
def test_the_exact_risk_stays_below_the_bound_at_any_horizon(seed, epsilon):
    laws = random_laws(2, 8, seed)
    design = Design(laws, epsilon, ["mlq"])
    bound = kl_risk_bound(design)
    for true in (0, 1):
        risk = exact_risk(laws, design, true, 400)
        assert risk <= bound[true]
        assert bound[true] < 30 * risk  # a bound, and not just any large number


def test_divergences_are_infinite_only_where_a_label_is_missed():
    table = divergences(Laws([[0.5, 0.5, 0.0], [0.25, 0.75, 0.0], [0.2, 0.3, 0.5]]))
    assert table[0, 1] == pytest.approx(0.5 * np.log(2) + 0.5 * np.log(2 / 3))
    assert np.isinf(table[2, :2]).all()
    assert np.isfinite(table[:2]).all()
    assert (np.diag(table) == 0).all()


def test_the_bound_holds_where_rivals_are_infinitely_far_by_kl():
    laws = Laws([[0.5, 0.5, 0, 0], [0, 0.1, 0.9, 0], [0, 0.4, 0.3, 0.3]])
    design = Design(laws, 1.0, ["pair/1/0"])
    assert np.isinf(divergences(laws)).any()
    bound = kl_risk_bound(design)
    for true in range(3):
        assert exact_risk(laws, design, true, 400) <= bound[true] < np.inf


def test_the_bound_counts_every_rival():
    design = DESIGNS["ovr"](LAWS, 1.0)
    divergence, apart = divergences(LAWS), 1 - affinities(design)
    assert (divergence > 2).any()
    assert ((divergence > 0) & (divergence < 2)).any()  # both ways of bounding occur
    for j in range(3):
        others = [i for i in range(3) if i != j]
        direct = sum(min(divergence[j, i] / 2, 1) / apart[j, i] for i in others)
        assert kl_risk_bound(design)[j] == pytest.approx(direct)


def test_what_cannot_be_told_apart_has_no_bound():
    table = np.array([[0.5, 0.3, 0.2], [0.5, 0.2, 0.3], [0.2, 0.4, 0.4]])
    design = Design(Laws(table), 1.0, ["pair/0/2"])  # labels 1 and 2 are one class
    bound = kl_risk_bound(design)
    assert np.isinf(bound[:2]).all()
    twins = Design(Laws(np.vstack([table[0], table[0], table[2]])), 1.0, ["mlq"])
    assert np.isfinite(kl_risk_bound(twins)).all()  # of two equal laws either will do
