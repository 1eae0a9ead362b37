"""What changed between two reports: right whatever their noise has in common, refused of others."""

import math
from dataclasses import replace

import numpy as np
import pytest
from chance import most
from federation import FRUIT, REFERENCE, SHARES, app_of, basket, grid_of
from report.samples import STATISTICS
from tables import TABLE, rows, table_app

from flwr_kld import Binned, Reference, Table
from flwr_kld.report.comparison import LEVEL
from flwr_kld.simulations import simulate
from flwr_kld.strategies import KLDrift, Standing, Statistics, Trusted, UniformCohort

RUNS = 24
AGES = Table({"age": Binned([20.0, 40.0, 60.0])})
USUAL = (0.4, 0.3, 0.2, 0.1, 0.0, 0.0)


def checked(shares=USUAL, trust=None, each=100, **options):
    app = app_of(lambda context: basket(context, each, shares))
    return KLDrift(REFERENCE, trust or Trusted(1.0), **options).check(grid_of(app, 8))


def off(comparison, truth):
    """Fractions whose change is not within its limits; `truth` is the change by name."""
    wrong = []
    for one in comparison.changes:
        if one.is_fraction:
            change = truth[one.number.removeprefix("fraction ").partition(" (")[0]]
            if not one.low - 1e-9 <= change <= one.high + 1e-9:
                wrong.append(one)
    return wrong


def change(before, after):
    names = (*FRUIT.names, "other", "missing")
    return dict(zip(names, np.subtract(after, before), strict=True))


def test_a_change_is_found_and_named():
    found = checked(SHARES).compare(checked())
    assert found.summary.startswith("Changed: labels. ")
    assert {one.number for one in found.clear["labels"]} >= {"fraction apple", "fraction durian"}
    assert off(found, change(USUAL, SHARES)) == []
    assert all(0 < one.least <= abs(one.after - one.before) for one in found.clear["labels"])


@pytest.mark.rate(1e-6)
@pytest.mark.parametrize("after", [USUAL, SHARES])
def test_limits_hold_of_the_same_records_under_other_noise(after):
    pairs = [checked(after).compare(checked(each=300)) for _ in range(RUNS)]
    assert sum(bool(off(one, change(USUAL, after))) for one in pairs) <= most(RUNS, 1 - LEVEL, 1e-6)


@pytest.mark.rate(1e-6)
def test_limits_hold_of_nights_whose_noise_is_correlated(tmp_path):
    failed = 0
    for run in range(RUNS // 3):
        trust = Standing(Trusted(1.0, 1e-6), nights=8, book=tmp_path / f"{run}.db")
        app = app_of(record_ids=lambda _: np.arange(100))
        grid = grid_of(app, 8)
        for number, context in enumerate(grid.contexts.values()):
            context.node_config["drift-memory"] = str(tmp_path / f"{run}-{number}.db")
        monitor = KLDrift(REFERENCE, trust)
        first, *_, last = [monitor.check(grid) for _ in range(3)]
        failed += bool(off(last.compare(first), change(SHARES, SHARES)))
    assert failed <= most(RUNS // 3, 1 - LEVEL, 1e-6)


@pytest.mark.rate(1e-6)
def test_limits_of_drawn_clients_hold_for_those_they_were_drawn_from():
    """Every client has its own fruit: records of one are alike, and the population's are even."""
    even = (0.25, 0.25, 0.25, 0.25, 0.0, 0.0)
    app = app_of(lambda context: [FRUIT.names[context.node_id % 4]] * 20)
    monitor = KLDrift(REFERENCE, Trusted(3.0), cohort=UniformCohort(40))
    reports = [monitor.check(grid_of(app, 400)) for _ in range(RUNS)]
    pairs = [
        after.compare(before) for before, after in zip(reports[::2], reports[1::2], strict=True)
    ]
    assert sum(bool(off(one, change(even, even))) for one in pairs) <= most(
        len(pairs), 1 - LEVEL, 1e-6
    )


def test_numbers_change_by_their_mean():
    statistics = Statistics(AGES, Trusted(3.0, 1e-6))

    def ages(mean):
        return simulate(statistics, lambda client: {"age": np.full(500, mean)}, clients=20)

    found = ages(55.0).compare(ages(25.0))
    mean = next(one for one in found.changes if one.number == "mean")
    assert mean.low <= 30 <= mean.high
    assert mean.least > 0
    assert "[40, 60)" in str(found)
    assert found.to_frame().column.unique().tolist() == ["age"]


def test_nothing_is_said_to_have_changed_where_nothing_did():
    found = checked().compare(checked())
    assert found.summary.startswith("No change")
    assert found.clear == {}


def test_tables_are_compared_column_by_column():
    def described(**options):
        grid = grid_of(table_app(lambda context: rows(context, **options)))
        return Statistics(TABLE, Trusted(3.0, 1e-6)).ask(grid)

    found = described().compare(described(fruits=(0.4, 0.3, 0.2, 0.1)))
    assert list(found.columns)[-1] == "juice"
    assert "juice" not in found.clear
    assert "fruit" in found.clear


def test_labels_gathered_in_the_last_bar_are_left_out():
    names = [f"l{n:02d}" for n in range(60)]
    reference = Reference.from_samples(Table({"label": names}), {"label": names * 20})
    monitor = KLDrift(reference, Trusted(3.0, 1e-6))

    def check(most_frequent):
        held = names * 10 + [most_frequent] * 400
        return simulate(monitor, lambda client: {"label": held}, clients=5)

    found = check("l03").compare(check("l50"))
    assert not [one for one in found.changes if one.number.endswith(" others")]
    assert all(one.before <= 0.5 or one.number == "fraction l50" for one in found.changes)


def test_it_costs_nothing_and_says_so():
    assert "no further ε" in str(checked().compare(checked()))


WRONG = {
    "another reference": (
        lambda: checked().compare(
            KLDrift(Reference.from_counts(FRUIT, [1, 1, 1, 1]), Trusted(1.0)).check(grid_of())
        ),
        "same reference",
    ),
    "another table": (
        lambda: STATISTICS.compare(replace(STATISTICS, domain="c" * 64)), "same table",
    ),
    "other cells": (
        lambda: checked().compare(
            replace(one := checked(), compared=replace(one.compared, plan="c" * 64))
        ),
        "cells",
    ),
    "a check with a description": (lambda: checked().compare(STATISTICS), "Report"),
    "a description with a check": (lambda: STATISTICS.compare(checked()), "StatisticsReport"),
}  # fmt: skip


@pytest.mark.parametrize("wrong", WRONG)
def test_others_are_refused(wrong):
    compare, why = WRONG[wrong]
    with pytest.raises(ValueError, match=why):
        compare()


def test_limits_are_finite_numbers():
    found = checked(SHARES).compare(checked())
    for one in found.changes:
        assert all(map(math.isfinite, (one.before, one.after, one.low, one.high)))
        assert one.low <= one.after - one.before <= one.high
