"""Plans for clients as a check found them: how many, of what size, and how alike."""

from __future__ import annotations

from dataclasses import replace

import pytest
from report.samples import REPORT, verdict

from flwr_kld import Labels, Reference, Table
from flwr_kld.planner import Setting, forecast
from flwr_kld.report import Outcome
from flwr_kld.report.column import CellCounts, ColumnReport
from flwr_kld.report.last_check import LastCheck
from flwr_kld.trust.trusted import Trusted

FIRST = REPORT.columns["labels"]
DECIDED = verdict(Outcome.INCONCLUSIVE, 0.05)


def told(draws: str = "client", **effects: float | None) -> LastCheck:
    """A check of two columns of 18 clients, who had 1,800 records."""
    columns = {
        name: ColumnReport(FIRST.reading, DECIDED, counts=CellCounts((5, 6), 2.0, effect, draws))
        for name, effect in effects.items()
    }
    return LastCheck.of(replace(REPORT, columns=columns, key="monday"))


def test_sizes_and_design_effects_are_the_checks_own():
    last = told(a=3.0, b=1.0)
    assert (last.clients, last.records, last.most_records) == (18, 100, 125)
    assert last.effects(200) == {"a": 5.0, "b": 1.0}
    assert last.effects(100) == {"a": 3.0, "b": 1.0}
    assert last.among(18) == 19
    assert "monday" in str(last)
    assert "per record" in str(last)
    assert "design effect 3 in a" in str(last)


def test_all_records_were_counted_where_nothing_was_decided():
    undecided = LastCheck.of(replace(REPORT, columns={"labels": FIRST}))
    assert undecided.records == 100
    assert undecided.effects(100) == {}


def test_checks_about_these_clients_stay_so():
    last = told("record", a=1.2, b=1.0)
    assert last.records == 100  # all of them count in one exchange
    assert last.effects(200) == {}
    assert last.among(18) == 18


def test_what_was_not_told_is_said_to_be_assumed():
    assert "taken for independent" in str(told(a=None))


TABLE = Table({"a": ["x", "y"], "b": ["x", "y"]}, thresholds={"a": 0.02, "b": 0.3})
EVEN = Reference.from_counts(TABLE, {"a": [0.5, 0.5], "b": [0.5, 0.5]})
MANY = Setting(clients=400, records=50, trust=Trusted(1.0), population=4000, threshold=0.02)


@pytest.mark.usefixtures("two_cohorts")
def test_each_column_is_forecast_with_its_own_design_effect_and_threshold():
    alike = replace(EVEN, domain=replace(TABLE, thresholds={}))
    found = forecast(alike, MANY, design_effects={"a": 20.0}).columns
    assert found["a"].setting.design_effect == 20
    assert found["b"].setting.design_effect == 1
    assert found["a"].error > 2 * found["b"].error
    own = forecast(EVEN, MANY).columns
    assert (own["a"].setting.threshold, own["b"].setting.threshold) == (0.02, 0.3)
    assert own["a"].smallest < 0.3 < own["b"].smallest
    estimates = forecast(EVEN, replace(MANY, threshold=None)).columns
    assert estimates["b"].setting.threshold is None


@pytest.mark.usefixtures("two_cohorts")
def test_a_quiet_check_is_promised_where_there_are_clients_enough():
    column = Reference.from_probabilities(Labels(list(range(20))), [0.05] * 20)
    many, few = (
        forecast(column, replace(MANY, clients=clients, trust=Trusted(0.3), threshold=0.05))
        for clients in (2000, 15)
    )
    assert 0.05 < many.seen_from <= 0.15
    assert few.seen_from is None
    assert forecast(column, replace(MANY, threshold=None)).seen_from is None


@pytest.mark.usefixtures("two_cohorts")
def test_a_reference_of_few_records_is_not_promised_what_it_cannot_tell():
    setting = replace(MANY, clients=2000, threshold=0.05)
    law = Reference.from_probabilities(Labels(list(range(20))), [0.05] * 20)
    exact, sample = (forecast(one, setting) for one in (law, replace(law, records=300)))
    assert sample.smallest > exact.smallest
    assert sample.seen_from is None
