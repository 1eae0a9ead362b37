"""The scale in the decision: places in order, inside, and at 0 for a bound below it."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from report.samples import REPORT, altered, decided, verdict

from flwr_kld.report import Outcome
from flwr_kld.report.check_series import Gauge

NATS = st.floats(0, 5)


@given(st.none() | NATS, NATS, st.none() | st.floats(-1, 5), st.floats(0, 3))
def test_places_keep_the_order_of_the_numbers(bound, threshold, estimate, error):
    decision = replace(verdict(Outcome.INCONCLUSIVE, 0.0), threshold=threshold, lower_bound=bound)
    report = altered(
        REPORT, verdict=decision, estimate=estimate, sampling=error, privacy=0.0, monte_carlo=0.0
    )
    gauge = Gauge.of_report(report)
    assert gauge is not None
    assert (gauge.bound is None, gauge.estimate is None) == (bound is None, estimate is None)
    marks = [mark for mark in (gauge.bound, gauge.threshold, gauge.estimate) if mark]
    assert all(0 <= mark.at <= 88 for mark in marks)
    for one in marks:
        for other in marks:
            assert one.nats > other.nats or one.at <= other.at
    assert 0 <= gauge.error[0] <= gauge.error[1] <= 88
    if gauge.estimate:
        assert gauge.error[0] <= gauge.estimate.at <= gauge.error[1]


def test_labels_stay_inside():
    gauge = Gauge.of_report(decided(Outcome.DRIFT, 0.0, estimate=1.0))
    assert gauge is not None
    assert gauge.estimate is not None
    assert gauge.bound is not None
    assert (gauge.bound.at, gauge.bound.anchor) == (0, "start")
    assert gauge.estimate.anchor == "middle"
    lone = Gauge.of_report(decided(Outcome.DRIFT, 2.0))
    assert lone is not None
    assert lone.bound is not None
    assert (lone.bound.at, lone.bound.anchor) == (pytest.approx(100 / 1.15), "end")


def test_a_check_that_decides_nothing_has_none():
    assert Gauge.of_report(REPORT) is None
