"""The mixture is read when reports refute every hypothesis, and only then."""

import json
from itertools import product
from math import comb

import numpy as np
import pytest
from predictors.candidates import named

from flwr_kld.predictors import BayesMixture
from flwr_kld.predictors import readouts as refutation
from flwr_kld.predictors.readouts import KeptRound, Refutation
from flwr_kld.predictors.tally import LocalReports

BITS = np.array([[0.8, 0.2], [0.3, 0.7]])
"""Chance of each bit under two hypotheses."""
TABLE = np.array([[0.7, 0.1, 0.1, 0.1], [0.1, 0.7, 0.1, 0.1], [0.1, 0.1, 0.1, 0.7]])
HALF = (TABLE[0] + TABLE[1]) / 2


def rounds_of(ones, reports):
    """Rounds of bits, so many of them 1, with the posterior before each."""
    kept, weights = [], np.log(np.full(2, 1 / 2))
    for number, one in enumerate(ones):
        counts = np.array([reports - one, one])
        kept.append(KeptRound(number, weights, counts, BITS.T))
        weights = weights + counts @ np.log(BITS.T)
        weights = weights - np.logaddexp.reduce(weights)
    return kept


def test_what_is_foretold_has_mean_one_against_a_true_hypothesis():
    """Exactly, over every outcome of three rounds: Ville's inequality bounds wrong refutations."""
    reports, mean, wrong = 8, np.zeros(2), np.zeros(2)
    choose = np.array([comb(reports, n) for n in range(reports + 1)])
    for ones in product(range(reports + 1), repeat=3):
        rounds = rounds_of(ones, reports)
        each = [np.exp(kept.counts @ np.log(kept.law)) for kept in rounds]
        chance = np.prod(choose[list(ones)]) * np.prod(each, axis=0)
        foretold, _, alone = Refutation().likelihoods(rounds)
        mean += chance * np.exp(foretold - alone)
        wrong += chance * Refutation().of(rounds)
    assert mean == pytest.approx(1)
    assert (wrong <= refutation.BETA).all()


def follow(predictor, laws, reports=600):
    """Let each round's clients answer as is expected of them, without chance."""
    for number, law in enumerate(laws, 1):
        design, queries, symbols = predictor.design(round=number), [], []
        for place, query, share in zip(
            predictor.numbers(number), design.queries, design.shares, strict=True
        ):
            masses = np.bincount(query.class_of, law, query.channel.classes)
            counts = np.rint(reports * share * query.channel.push(masses)).astype(int)
            symbols.append(np.repeat(np.arange(len(counts)), counts))
            queries.append(np.full(counts.sum(), place))
        together = np.concatenate(symbols)
        predictor.update(LocalReports(number, np.concatenate(queries), together))
    return predictor


def test_predictions_are_the_weights_inside_the_class_and_the_mixtures_outside():
    inside = follow(BayesMixture(named(TABLE), 2.0), [TABLE[1]] * 6)
    assert not inside.refuted
    np.testing.assert_array_equal(inside.predict(), inside.weights @ TABLE)
    outside = follow(BayesMixture(named(TABLE), 2.0), [HALF] * 6)
    assert outside.refuted
    np.testing.assert_array_equal(outside.predict(), outside.mixture @ TABLE)
    np.testing.assert_allclose(outside.predict(), HALF, atol=0.02)


def test_a_change_between_hypotheses_is_left_to_the_posterior():
    changing = ([TABLE[0]] * 8 + [TABLE[1]] * 8) * 2
    predictor = follow(BayesMixture(named(TABLE), 2.0), changing, reports=200)
    foretold, posterior, alone = Refutation().likelihoods(list(predictor._kept()))
    assert posterior > foretold + 100
    assert foretold > alone.max() + 100  # no hypothesis was true all the time
    assert not predictor.refuted
    assert predictor.predict() == pytest.approx(TABLE[1], abs=0.01)


def test_nothing_is_refuted_without_reports_or_once_all_are_settled():
    predictor = BayesMixture(named(TABLE), 2.0)
    assert not predictor.refuted
    follow(predictor, [HALF] * 6).settle(7)
    assert not predictor.refuted


@pytest.mark.parametrize("design", ["ovr", "adaptive"])
def test_what_is_read_depends_on_the_reports_alone(design):
    """Not on what was asked of the predictor before, nor on its process."""
    laws = [TABLE[0]] * 3 + [HALF] * 5
    asked = BayesMixture(named(TABLE), 2.0, design=design)
    for batch in (laws[:1], laws[:4], laws):  # late reports change fits that were made before
        follow(asked, batch).predict()
    fresh = BayesMixture(named(TABLE), 2.0, design=design)
    fresh.restore(json.loads(json.dumps(asked.state())))
    assert fresh.refuted == asked.refuted
    assert fresh.predict().tobytes() == asked.predict().tobytes()
    assert asked._refutation._fits.keys() == fresh._refutation._fits.keys()
    for key, fit in fresh._refutation._fits.items():
        np.testing.assert_array_equal(asked._refutation._fits[key], fit)
