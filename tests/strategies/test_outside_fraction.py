"""Records that the reference rules out: a second thing that a check decides on."""

import json
import math
import re
from dataclasses import replace

import numpy as np
import pytest
from federation import FRUIT, REFERENCE, app_of, grid_of

from flwr_kld import Categories, Labels, Reference
from flwr_kld.clients import FirstUse, answer_drift_queries
from flwr_kld.infer.allowance import SHARE
from flwr_kld.infer.decision import held_against_estimates
from flwr_kld.infer.outside import OutsideCell, OutsideFraction
from flwr_kld.report import Outcome
from flwr_kld.report.decider import Decider
from flwr_kld.report.report import Report
from flwr_kld.simulations.in_process_grid import InProcessGrid
from flwr_kld.strategies import (
    Alarm,
    Distributed,
    KLDrift,
    PlainSum,
    SecureSum,
    Trusted,
    UniformCohort,
)

SAME = tuple(REFERENCE.probabilities[: len(FRUIT.names)])


def meeting(clients, share, what="e-scooter", nodes=400, each=100):
    """So many of the clients hold this in so many of their records, all others the reference."""

    def records(context):
        rng = np.random.default_rng(context.node_id)
        held = rng.choice(FRUIT.names, each, p=SAME).tolist()
        if context.node_config["partition-id"] < clients * nodes:
            odd = int(share * each)
            held[:odd] = [what] * odd
        return held

    return grid_of(app_of(records, secure_sum=FirstUse()), nodes)


@pytest.mark.parametrize(
    ("trust", "aggregation", "nodes", "clients", "what"),
    [
        (Trusted(1.0), PlainSum, 400, 0.9, "e-scooter"),
        (Trusted(1.0), PlainSum, 400, 0.9, None),
        (Distributed(2.0, min_clients=20), SecureSum, 80, 1.0, "e-scooter"),
    ],
)
def test_a_new_category_is_found_at_the_first_check_and_nobody_is_left_out(
    trust, aggregation, nodes, clients, what
):
    monitor = KLDrift(
        REFERENCE, trust, aggregation=aggregation(), threshold=0.1, alarm=Alarm(horizon=1)
    )
    report = monitor.check(meeting(clients, 0.9, what, nodes))
    assert report.outcome is Outcome.DRIFT, report.verdict.reason
    assert (report.cohort.asked, report.cohort.survivors, report.cohort.dropouts) == (
        nodes,
        nodes,
        {},
    )
    assert report.reading.outside.share == pytest.approx(0.9 * clients, abs=0.1)
    assert report.reading.outside.kinds[0].name == ("missing" if what is None else "other")
    assert 0.1 < report.verdict.outside.lower < 0.95


@pytest.mark.parametrize("outside", [0.02, 0.3])
def test_the_fraction_that_is_tolerated_decides_by_itself(outside):
    """Of 6 % outside, D is at most .062: below the threshold."""
    monitor = KLDrift(REFERENCE, Trusted(1.0), threshold=0.1, alarm=Alarm(outside=outside))
    report = monitor.check(meeting(1.0, 0.06))
    assert report.verdict.outside.tolerated == outside
    assert report.lower_bound < 0.1
    assert (report.outcome is Outcome.DRIFT) == (outside < 0.06)


def test_nothing_outside_is_no_alarm_and_no_obstacle():
    report = KLDrift(REFERENCE, Trusted(1.0), threshold=0.1).check(meeting(0.0, 0.0))
    assert report.outcome is not Outcome.DRIFT, report.verdict.reason
    assert report.reading.outside.share < 0.01
    assert report.verdict.outside.tolerated == pytest.approx(1 - math.exp(-0.1))


def test_without_a_threshold_the_share_is_estimated():
    monitor = KLDrift(REFERENCE, Trusted(10.0), cohort=UniformCohort(100))
    report = monitor.check(meeting(0.5, 0.2, nodes=400))
    assert report.verdict is None
    assert report.reading.outside.share == pytest.approx(0.1, abs=0.05)
    # Half of the clients have a fifth of theirs outside: 100 drawn ones vary by .01 in that. At
    # ε = 10 their design effect of 2.9 is told within .15; at 1 it was within 1.3.
    assert 0.008 < report.reading.outside.deviation < 0.0135
    again = Report.from_dict(json.loads(report.to_json()))
    assert again.reading.outside == report.reading.outside


def test_the_column_that_does_not_fit_is_named():
    table = Categories({"job": Labels(["nurse", "cook"]), "ward": [1, 2]})
    reference = Reference.from_counts(table, [4, 3, 2, 1])

    def app():
        from flwr.clientapp import ClientApp

        made = ClientApp()

        def rows(context):
            rng = np.random.default_rng(context.node_id)
            symbol = rng.choice(4, 100, p=[0.4, 0.3, 0.2, 0.1])
            jobs = np.array(["nurse", "cook"], dtype=object)[symbol // 2]
            jobs[:27] = "pilot"
            return {"job": jobs, "ward": [*(symbol % 2 + 1).tolist()]}

        answer_drift_queries(made, rows, table)
        return made

    report = KLDrift(reference, Trusted(1.0), threshold=0.1).check(InProcessGrid(app(), 400))
    assert report.verdict.outside.lower > 0.2
    said = " ".join(str(report).split())
    assert re.search(r"outside the reference: 2[67]\.\d % \([^)]*\), 'other' in job", said)


def rate_of_evidence(decider) -> float:
    """Of false alarms, what evidence over checks may use up."""
    return decider._detector.rate if decider.adds_up else 0.0


def test_the_rate_of_false_alarms_is_shared_out():
    for horizon in (1, 2, 365):
        alarm = Alarm(rate=0.05, horizon=horizon)
        for adds_up in (False, True):
            decider = Decider(0.1, 0.0, alarm, REFERENCE, "fruit", adds_up=adds_up)
            spent = (
                2 * horizon * decider.level
                + rate_of_evidence(decider)
                + SHARE * 0.05 * decider.sampled
            )
            assert spent <= 0.05 * (1 + 1e-12)


def test_what_cannot_be_tolerated():
    for bad in (-0.1, 1.0, float("nan"), "x"):
        with pytest.raises(ValueError, match="outside"):
            Alarm(outside=bad)
        with pytest.raises(ValueError, match="outside"):
            Alarm(outside={"fruit": bad})
    with pytest.raises(ValueError, match="outside"):
        KLDrift(REFERENCE, Trusted(1.0), threshold=0.1, alarm=Alarm(outside={"job": 0.1}))


def test_no_drift_is_taken_back_beside_a_share_above_what_is_tolerated():
    verdict = KLDrift(REFERENCE, Trusted(1.0), threshold=0.1).check(meeting(0.0, 0.0)).verdict
    verdict = replace(verdict, outcome=Outcome.NO_DRIFT)
    for share, deviation, kept in ((0.09, 0.01, True), (0.1, 0.01, False), (0.1, 0.06, True)):
        outside = OutsideFraction(share, deviation, (OutsideCell("other", share, deviation),))
        held = held_against_estimates(verdict, 0.0, 0.2, outside)
        assert (held is verdict) == kept
        if not kept:
            assert held.outcome is Outcome.INCONCLUSIVE
            assert "10 % ± 1 %, other" in held.reason
