"""Intake: a lying client is named, counted, and teaches nothing."""

import numpy as np
import pytest
from predictors.candidates import named, random_laws

from flwr_kld.kernel.law import SystemBits
from flwr_kld.predictors import BayesMixture
from flwr_kld.predictors.bayes_mixture import Intake, Rejection
from flwr_kld.predictors.tally import LocalReports

HYPOTHESES = named(random_laws(4, 11).probabilities)


def honest(predictor, client, label=3, round=1, context=""):
    query = predictor.query_of(round, client, context)
    return query, predictor.query(query, context).answer(label, SystemBits())


@pytest.fixture
def predictor():
    return BayesMixture(HYPOTHESES, 1.0, design="ovr")


def test_honest_reports_are_taken_and_summed_without_their_senders(predictor):
    intake = Intake(predictor, 1)
    reports = {str(c): honest(predictor, str(c)) for c in range(30)}
    for client, report in reports.items():
        assert intake.take(client, *report) is None
    assert len(intake) == 30
    together = intake.reports()
    assert list(zip(together.queries, together.symbols, strict=True)) == list(reports.values())
    predictor.update(together)


def test_lies_that_show_are_refused_by_name_and_counted(predictor):
    intake = Intake(predictor, 1)
    good = honest(predictor, "good")
    intake.take("good", *good)
    for _ in range(3):
        assert intake.take("good", *honest(predictor, "good")) is Rejection.REPEATED
    other = (predictor.query_of(1, "liar") + 1) % 4
    assert intake.take("liar", other, 0) is Rejection.WRONG_QUERY
    assert intake.take("liar", -1, 0) is Rejection.WRONG_QUERY
    asked = predictor.query_of(1, "liar")
    for symbol in (10**9, 2**80, -(10**9), 2, -1):
        assert intake.take("liar", asked, symbol) is Rejection.IMPOSSIBLE
    assert len(intake) == 1
    assert intake.reports().symbols.tolist() == [good[1]]


def test_a_refused_client_may_still_report_properly(predictor):
    intake = Intake(predictor, 1)
    intake.take("late", predictor.query_of(1, "late"), 99)
    assert intake.take("late", *honest(predictor, "late")) is None


def test_each_round_asks_anew(predictor):
    asked = [[predictor.query_of(r, str(c)) for c in range(40)] for r in (1, 2)]
    assert asked[0] != asked[1]
    second = Intake(predictor, 2)
    client = next(str(c) for c in range(40) if asked[0][c] != asked[1][c])
    assert second.take(client, *honest(predictor, client)) is Rejection.WRONG_QUERY


def test_reports_are_of_the_context_that_was_asked_for():
    predictor = BayesMixture(HYPOTHESES, 1.0, design="ovr")
    intake = Intake(predictor, 5, "x")
    for c in range(10):
        assert intake.take(str(c), *honest(predictor, str(c), round=5, context="x")) is None
    reports = intake.reports()
    assert (reports.round, reports.context, len(reports.queries)) == (5, "x", 10)


def test_batches_need_matching_shapes():
    two, three, flat = np.zeros(2, np.int64), np.zeros(3, np.int64), np.zeros((3, 1), np.int64)
    for queries, symbols in ((two, three), (three, flat), (flat, flat)):
        with pytest.raises(ValueError, match="batch"):
            LocalReports(1, queries, symbols)
