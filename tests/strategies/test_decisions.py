"""Checks that decide, in every trust model, and what the ledger keeps of them."""

import json
from dataclasses import replace
from datetime import date, timedelta
from types import SimpleNamespace

import numpy as np
import pytest
from federation import FRUIT, REFERENCE, app_of, basket, grid_of
from flwr.clientapp import ClientApp

from flwr_kld import Reference, Table
from flwr_kld.clients import FirstUse, answer_drift_queries
from flwr_kld.common.errors import LedgerUnavailable
from flwr_kld.ledger import Budget, Ledger
from flwr_kld.ledger.entry import AlreadyChecked
from flwr_kld.report import Outcome
from flwr_kld.report.decider import Decider
from flwr_kld.report.report import Report
from flwr_kld.strategies import (
    Alarm,
    Distributed,
    KLDrift,
    Period,
    PlainSum,
    RotatingCohort,
    SecureSum,
    SinceLastCheck,
    Statistics,
    Trusted,
)

SAME = tuple(REFERENCE.probabilities[: len(FRUIT.names)])
NODES = 12
ALONE = Alarm(horizon=1)
MANY, EACH = 25, 400
"""Clients, and records of each, whose drift stands far out of the noise of one check."""


def grid(shares=None, nodes=NODES, **options):
    """Clients whose records are as the reference, or in the shares of `federation`."""
    rng = np.random.default_rng(0)

    def drawn(context):
        return rng.choice(FRUIT.names, EACH, p=SAME).tolist()

    def moved(context):
        return basket(context, EACH)

    records = moved if shares is None else drawn
    return grid_of(app_of(records, secure_sum=FirstUse(), **options), nodes)


def named(context):
    """Ids of a client's records."""
    return [f"{context.node_id} {i}" for i in range(EACH)]


@pytest.fixture
def ledger(tmp_path):
    made = Ledger(f"sqlite:///{tmp_path}/drift.db")
    made.set_budget(Budget(3.0, 1e-6, window_days=30))
    return made


@pytest.mark.parametrize(
    ("trust", "aggregation", "nodes"),
    [
        (Trusted(2.0), PlainSum, MANY),
        (Trusted(2.0), SecureSum, NODES),
        (Distributed(2.0, min_clients=20), SecureSum, MANY),
    ],
)
def test_drift_is_found_and_none_is_not_invented(trust, aggregation, nodes):
    def monitor():
        return KLDrift(REFERENCE, trust, aggregation=aggregation(), threshold=0.05, alarm=ALONE)

    drifted = monitor().check(grid(nodes=nodes, record_ids=named))
    assert drifted.outcome is Outcome.DRIFT, drifted.verdict.reason
    assert 0.05 < drifted.lower_bound < 0.5
    assert (drifted.cohort.asked, drifted.cohort.survivors) == (nodes, nodes)
    same = monitor().check(grid(SAME, nodes=nodes, record_ids=named))
    assert same.outcome is not Outcome.DRIFT, same.verdict.reason
    assert same.lower_bound <= 0.05


DAYS = 12
NIGHTLY = Table({"fruit": list(FRUIT.names)})
PUBLIC = Reference.from_counts(NIGHTLY, {"fruit": [40, 30, 20, 10, 0, 0]})


@pytest.fixture
def nightly(ledger):
    """Checks of the records of one day after the other, of all clients, who have drifted."""

    class NextDay(SinceLastCheck):
        def next(self, last, now=None):
            start = date(2024, 1, 1) if last is None else date.fromisoformat(last.end[:10])
            return Period("day", str(start), str(start + timedelta(days=1)))

    def rows(context):
        fruit, days = [], []
        for day in range(DAYS):
            fruit += basket(context)
            days += [f"2024-01-{day + 1:02}T12:00"] * 100
        return {"fruit": fruit, "day": days}

    app = ClientApp()
    answer_drift_queries(app, rows, NIGHTLY)
    grid = grid_of(app, 24)

    def monitor(**options):
        usual = {"threshold": 0.01, "period": NextDay("day"), "ledger": ledger}
        return KLDrift(PUBLIC, Trusted(0.4), **usual | options)

    return monitor, grid


def test_evidence_adds_up_over_checks_of_new_records_and_restarts(ledger, nightly):
    monitor, grid = nightly
    ledger.set_budget(Budget(6.0, 1e-6, window_days=30))
    outcomes, evidence = [], []
    for day in range(DAYS):  # a new process each day
        report = monitor(alarm=Alarm(resolution=9, horizon=10**10)).check(grid, key=f"day {day}")
        outcomes.append(report.outcome)
        evidence.append(report.verdict.detector.evidence)
    assert evidence[0] < evidence[-1]
    assert evidence[-1] > report.verdict.detector.alarm_at
    assert outcomes[-1] is Outcome.DRIFT
    assert "evidence of" in report.verdict.reason or "alone" in report.verdict.reason


@pytest.mark.parametrize("options", [{"period": None}, {"cohort": RotatingCohort(20)}])
def test_no_evidence_adds_up_over_old_records_or_drawn_clients(ledger, nightly, options):
    monitor, grid = nightly
    ledger.set_budget(Budget(6.0, 1e-6, window_days=30))
    for day in range(3):
        report = monitor(**options).check(grid, key=f"day {day}")
        assert report.verdict.detector is None


def remembered_as(alarm=ALONE, **changed):
    """Name under which a ledger keeps the evidence of a monitor."""
    usual = {"threshold": 0.05, "outside": 0.05, "print": "f00d", "column": "labels"}
    values = usual | changed
    reference = SimpleNamespace(fingerprint=values.pop("print"), records=None)
    return Decider(alarm=alarm, reference=reference, **values)._name("default")


def test_evidence_adds_up_only_under_what_it_was_gathered_for():
    other = {"rate": 0.01, "horizon": 2, "level": 0.9, "resolution": 0.2}
    names = [remembered_as(replace(ALONE, **{name: value})) for name, value in other.items()]
    names.append(remembered_as(threshold=0.1))
    names += [remembered_as(print="beef"), *(remembered_as(column=c) for c in ("a", "b", "c"))]
    assert len(set(names)) == 9


def test_a_report_with_a_verdict_survives_json(ledger):
    monitor = KLDrift(REFERENCE, Trusted(1.0), threshold=0.05, alarm=ALONE, ledger=ledger)
    report = monitor.check(grid(), key="2026-11-21")
    again = Report.from_dict(json.loads(json.dumps(ledger.check("2026-11-21").report)))
    assert again == report
    assert report.cost.left == pytest.approx(2.0, rel=1e-4)
    assert report.cost.left == ledger.spent().left
    assert report.cost.room == ledger.room_for(ledger.check("2026-11-21")) == 2
    ledger.set_budget(Budget(9.0, 0.0, 30))
    assert report.cost.budget == pytest.approx(3.0)  # then, whatever is in force now
    assert monitor.check(grid()).cost.budget == 9.0
    assert (report.key, report.cost.population) == ("2026-11-21", "default")


def test_the_same_key_spends_and_asks_once(ledger):
    monitor = KLDrift(REFERENCE, Trusted(1.0), threshold=0.05, ledger=ledger)
    federation = grid()
    monitor.check(federation, key="today")
    spent = ledger.spent().epsilon
    federation.lose = lambda message: pytest.fail("somebody was asked")
    with pytest.raises(AlreadyChecked) as kept:
        monitor.check(federation, key="today")
    assert kept.value.entry.report["key"] == "today"
    assert ledger.spent().epsilon == spent


def test_a_small_rotating_cohort_that_decides_costs_each_client_one_check(ledger):
    for day in range(4):
        monitor = KLDrift(
            REFERENCE, Trusted(1.0), cohort=RotatingCohort(5), threshold=0.05, ledger=ledger
        )
        monitor.check(grid(nodes=20), key=f"day {day}")
    assert ledger.spent().epsilon == pytest.approx(1.0, rel=1e-4)
    assert all(ledger.check(f"day {day}").release for day in range(4))


def test_what_cannot_decide():
    with pytest.raises(ValueError, match="threshold"):
        KLDrift(REFERENCE, Trusted(1.0), alarm=Alarm())
    with pytest.raises(ValueError, match="threshold"):
        KLDrift(REFERENCE, Trusted(1.0), threshold=-1.0)
    table = Table({"job": ["a", "b"]}, thresholds={"job": 0.1})
    own = Reference.from_counts(table, np.arange(1, table.size + 1))
    assert KLDrift(own, Trusted(1.0)).tolerated is not None
    for threshold in (-1.0, 0.2):  # none is read
        with pytest.raises(ValueError, match="effect"):
            KLDrift(own, Trusted(1.0), threshold=threshold)
    assert KLDrift(own, Trusted(1.0), threshold={"job": 0.2}).tolerated["job"][0] == 0.2
    for bad in ({"rate": 0.0}, {"horizon": 0}, {"level": 1.0}, {"resolution": 0.0}):
        with pytest.raises(ValueError, match=next(iter(bad))):
            Alarm(**bad)


def conclusions(monitor):
    """What a monitor concludes with, and remembers of earlier checks."""
    return monitor._conclusions


def deciders(monitor):
    return conclusions(monitor)._deciders


def evidence(decider):
    return decider._detector


def test_of_two_checks_at_once_both_have_reports_and_both_are_evidence(ledger, nightly):
    monitor, _ = nightly

    def other(message):  # from first to last, while the first one's clients are asked
        if ledger.check("second") is None:
            earlier.check(grid_of(grid.app, 16), key="second")

    def concluded(measured, budget):
        answers.append(measured)
        return conclude(measured, budget)

    earlier, later, answers = monitor(), monitor(), []
    grid = grid_of(nightly[1].app, 16, lose=other)
    conclude = conclusions(later).conclude
    conclusions(later).conclude = concluded
    report = later.check(grid, key="first")
    assert {e.key: e.state for e in ledger.history()} == {"first": "settled", "second": "settled"}
    assert Report.from_dict(json.loads(json.dumps(ledger.check("first").report))) == report
    # As if the first one's answers had come after the second check, and once.
    conclusions(earlier).conclude(answers[0], "default")
    assert deciders(earlier) == deciders(later)
    again = monitor()
    conclusions(again).recall(ledger, "default")
    assert deciders(again) == deciders(later)


def test_a_check_that_was_not_settled_is_no_evidence(ledger, full_ledger, nightly):
    made, grid = nightly
    monitor, fresh = made(ledger=full_ledger), made()
    with pytest.raises(LedgerUnavailable):
        monitor.check(grid)
    (decider,), (new,) = (deciders(one).values() for one in (monitor, fresh))
    assert evidence(decider) != evidence(new)
    assert decider.recall(ledger, "default")
    assert evidence(decider) == evidence(new)


@pytest.mark.parametrize(
    "made",
    [
        lambda delta: KLDrift(REFERENCE, Trusted(1.0, delta)),
        lambda delta: Statistics(FRUIT, Trusted(1.0, delta)),
        lambda delta: Budget(1.0, delta),
    ],
)
def test_a_delta_that_is_no_small_probability_is_warned_of(made, caplog):
    made(1e-4)
    assert not caplog.records
    made(0.05)
    (record,) = caplog.records
    assert record.levelname == "WARNING"
    assert record.args[0] == 0.05
