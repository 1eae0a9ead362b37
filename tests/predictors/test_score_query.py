"""The paper's questions on their way to a client, who believes nothing that costs privacy."""

import zlib
from fractions import Fraction

import numpy as np
import pytest
from predictors.candidates import COUNTER_EXAMPLE, named

from flwr_kld.errors import QueryRefused
from flwr_kld.kernel.law import SeededBits
from flwr_kld.predictors import LocallyPrivateWMA, PureLocalEXP3
from flwr_kld.predictors.local_report import LocalReports
from flwr_kld.predictors.score_query import MOST_MOVES, ScoreQuery

EPSILON, DELTA = 2.0, 1e-4
WMA = LocallyPrivateWMA(named(COUNTER_EXAMPLE), EPSILON, delta=DELTA, horizon=50)
EXP3 = PureLocalEXP3(named(COUNTER_EXAMPLE), EPSILON, horizon=50)


@pytest.mark.parametrize("query", [WMA.query(0), EXP3.query(0), EXP3.query(1)])
def test_the_wire_carries_scores_and_the_client_makes_the_same_noise(query):
    read = ScoreQuery.from_config(query.to_config(), 6)
    assert read.labels == 6
    for own, noise in zip(query.noises, read.noises, strict=True):
        assert (noise.low, noise.high, noise.table) == (own.low, own.high, own.table)
    labels = np.arange(6).repeat(50)
    answers = [one.answers(labels, SeededBits(3)).tolist() for one in (query, read)]
    assert answers[0] == answers[1]


def test_a_query_knows_what_it_costs():
    assert EXP3.query(1).delta(EPSILON) == 0
    assert EXP3.query(1).delta(EPSILON * (1 - 1e-9)) > 0
    both = WMA.query(0)
    assert 0 < both.delta(EPSILON) <= Fraction(DELTA)
    assert both.delta(0.9 * EPSILON) > Fraction(DELTA)
    assert both.delta(2 * WMA._each) == 0  # they simply add up


@pytest.mark.parametrize("name", ["horizon", "epsilon", "scores", "cells", "fixed"])
def test_a_query_that_lacks_something_is_refused(name):
    config = EXP3.query(0).to_config()
    del config[name]
    with pytest.raises(QueryRefused):
        ScoreQuery.from_config(config, 6)


def packed(numbers):
    """As a server packs them."""
    return zlib.compress(np.array(numbers, dtype="<i8").tobytes())


@pytest.mark.parametrize(
    "change",
    [
        {"horizon": 1},
        {"horizon": "long"},
        {"epsilon": 0.0},
        {"epsilon": float("nan")},
        {"epsilon": 1e-9},  # noise beyond any table
        {"scores": 0},
        {"scores": 2},
        {"scores": 10**9},
        {"cells": b"nonsense"},
        {"cells": packed([1, 1, 1, 1, 1])},
        {"cells": packed([1, 1, 1, 1, 1, 0])},
        {"cells": packed([1, 1, 1, 1, 1, 1 << 62])},
        {"fixed": packed([0] * 7)},
        {"fixed": packed([0, 0, 0, 0, 0, (MOST_MOVES << 32) + 1])},
    ],
)
def test_what_is_no_query_is_refused_by_the_client(change):
    with pytest.raises(QueryRefused, match="the predictor's query"):
        ScoreQuery.from_config(EXP3.query(0).to_config() | change, 6)


def test_scores_that_move_as_far_as_the_grid_allows_are_answered():
    config = EXP3.query(0).to_config() | {"fixed": packed([0, 0, 0, 0, 0, MOST_MOVES << 32])}
    assert ScoreQuery.from_config(config, 6).noises[0].moves == MOST_MOVES


@pytest.mark.parametrize("labels", [5, 7])
def test_a_query_over_another_domain_is_refused(labels):
    with pytest.raises(QueryRefused):
        ScoreQuery.from_config(WMA.query(0).to_config(), labels)


@pytest.mark.parametrize("make", [LocallyPrivateWMA, PureLocalEXP3])
def test_no_report_moves_log_odds_further_than_the_leader_says(make):
    """Two reports that intake lets pass, as far apart as they can be."""
    after = []
    for ends in (("low", "high"), ("high", "low")):
        predictor = make(named(COUNTER_EXAMPLE), 2.0, horizon=30)
        noises = predictor.query(0).noises  # of one arm, or of both
        symbol = [getattr(n, end) for n, end in zip(noises, ends, strict=False)]
        predictor.update(LocalReports(1, np.array([0]), np.array([symbol])))
        after.append(predictor.log_weights)
    moved = float(np.ptp(after[1] - after[0]))
    assert 0.9 * predictor.leader.swing < moved <= predictor.leader.swing
