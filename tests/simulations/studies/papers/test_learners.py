"""Algorithms 1 and 2: faithful weights from integer sums of noised scores."""

import math

import numpy as np
import pytest
from predictors.candidates import random_laws
from scripted import ScriptedBits

from flwr_kld.kernel.law import TOTAL, SeededBits, SystemBits
from flwr_kld.simulations.studies.papers.learners import (
    LocallyPrivateWMA,
    PureLocalEXP3,
    uniform_below,
)

LAWS = random_laws(3, 8)
HORIZON = 500


def wma(epsilon=2.0, **more):
    return LocallyPrivateWMA(LAWS, epsilon, horizon=HORIZON, **more)


def exp3(epsilon=2.0):
    return PureLocalEXP3(LAWS, epsilon, horizon=HORIZON)


def scores(predictor, query, count):
    """What clients with random labels answer to a query."""
    labels = np.random.default_rng(query).integers(8, size=count)
    return predictor.query(query).answers(labels, SeededBits(query))


def losses(predictor, drawn):
    """Ỹ of eq. (8) and (12) for every score, with the corrected width, from the definitions."""
    width = math.log((3 + 1) * HORIZON)
    offset = width / predictor._each * (math.log(HORIZON) + math.log(3) + math.log(HORIZON))
    return -(width / 16 * drawn - offset) / (width + 2 * offset)


def test_algorithm_1_is_exponential_weights_at_the_rate_of_lemma_1():
    predictor = wma()
    drawn = scores(predictor, 0, 40)
    assert drawn.shape == (40, 3)
    predictor.update(0, drawn)
    total = losses(predictor, drawn).sum(axis=0)
    weights = np.exp(-math.sqrt(2 * math.log(3) / HORIZON) * total)
    np.testing.assert_allclose(predictor.weights, weights / weights.sum(), rtol=1e-9)


def test_algorithm_2_adds_the_loss_of_the_arm_that_was_asked():
    predictor, total = exp3(), np.zeros(3)
    for arm in (0, 1, 2, 1):
        drawn = scores(predictor, arm, 20)
        assert drawn.shape == (20, 1)
        predictor.update(arm, drawn)
        total[arm] += losses(predictor, drawn).sum()
    weights = np.exp(-math.sqrt(2 * 3 * math.log(3) / HORIZON) * total)
    np.testing.assert_allclose(predictor.weights, weights / weights.sum(), rtol=1e-9)


@pytest.mark.parametrize("make", [wma, exp3])
def test_predictions_mix_in_the_cells_by_lines_5_and_6(make):
    predictor = make()
    cells = np.ceil(8 * LAWS.probabilities.max(axis=0))
    uniform = cells / cells.sum()
    expected = (1 - 1 / HORIZON) * LAWS.probabilities.mean(axis=0) + uniform / HORIZON
    np.testing.assert_allclose(predictor.predict(), expected)


@pytest.mark.rate(1e-6)
def test_scores_are_unbiased_on_the_grid():
    predictor = exp3(epsilon=4.0)
    query, clipping = predictor.query(1), predictor._clipping
    draws = 200_000
    grid = math.log(4 * HORIZON) / 16
    noise = query.noises[0]
    for label in (0, 5):
        drawn = noise.draw(np.full(draws, label), SystemBits())
        error = grid * drawn.mean() - clipping.scores[1, label]
        deviation = grid * math.sqrt((noise.table.variance + 0.25) / draws)
        assert abs(error) < 5.5 * deviation  # P < 4e-8 each if unbiased
        assert 20 * deviation < 0.1 * clipping.ranges[1]  # and a bias would show


def test_bad_arguments_are_refused():
    with pytest.raises(ValueError, match="delta"):
        wma(delta=0.0)
    with pytest.raises(ValueError, match="horizon"):
        PureLocalEXP3(LAWS, 1.0, horizon=1)
    for make in (wma, exp3):
        with pytest.raises(ValueError, match="epsilon"):
            make(epsilon=-1.0)


def test_uniform_integers_favour_nobody():
    bound = 3 * (TOTAL // 5)  # 2 bounds do not fit: numbers past the first are drawn again
    assert uniform_below(bound, ScriptedBits.of(bound - 1)) == bound - 1
    assert uniform_below(bound, ScriptedBits.of(bound, TOTAL - 1, 7)) == 7
    assert uniform_below(TOTAL, ScriptedBits.of(TOTAL - 1)) == TOTAL - 1
    complete = TOTAL - TOTAL % 10
    assert uniform_below(10, ScriptedBits.of(complete - 1)) == 9
    assert uniform_below(10, ScriptedBits.of(complete, 123)) == 3
