"""The study of quiet worlds: they are what they claim, and words beside estimates are seen."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from flwr_kld.reference import Reference
from flwr_kld.report import Outcome
from flwr_kld.simulations.studies import quiet_worlds
from flwr_kld.simulations.studies.quiet_worlds import World
from flwr_kld.table.table import Table

SMALL = World(columns=2, clients=50, records=50, drawn=True, design_effect=4.0)


@pytest.mark.rate(1e-5)
def test_a_worlds_clients_differ_as_it_says():
    law, rng = np.full(20, 0.05), np.random.default_rng(0)
    drawn = [np.bincount(SMALL._drawn(law, rng).astype(int), minlength=20) for _ in range(2000)]
    assert np.var(drawn, axis=0).mean() / (50 * 0.05 * 0.95) == pytest.approx(4, rel=0.1)
    alike = replace(SMALL, design_effect=1.0)
    drawn = [np.bincount(alike._drawn(law, rng).astype(int), minlength=20) for _ in range(2000)]
    assert np.var(drawn, axis=0).mean() / (50 * 0.05 * 0.95) == pytest.approx(1, rel=0.1)


def test_worlds_are_of_every_kind_and_not_too_large():
    few, all_of_them = quiet_worlds.worlds(100_000), quiet_worlds.worlds(10**9)
    assert len(all_of_them) == len(set(all_of_them)) == 54
    assert set(few) < set(all_of_them)
    assert all(world.columns * world.clients * world.records <= 100_000 for world in few)


def test_checks_of_a_quiet_world_are_counted():
    told = quiet_worlds.row((replace(SMALL, records=500, design_effect=1.0), 1))
    assert told["no alarm"] + told["drift"] <= 1
    assert quiet_worlds.summary([told])["no alarm"] == told["no alarm"]


def test_columns_that_move_are_seen_to_move():
    world = replace(SMALL, clients=400, records=50, drawn=False, design_effect=1.0)
    moved = world.check(0, {"column 1": 0.5}).columns
    words = {name: column.verdict.outcome for name, column in moved.items()}
    assert words == {"column 0": Outcome.NO_DRIFT, "column 1": Outcome.DRIFT}
    assert quiet_worlds._moved(world, 0, world.check(0)) == []  # no drift, whatever its shape


def test_writers_who_drift_are_told_from_those_who_do_not():
    still = [quiet_worlds.written(("digits", 60, 0.0, split)) for split in range(2)]
    moved = [quiet_worlds.written(("digits", 60, 0.6, split)) for split in range(2)]
    quiet, drifted = quiet_worlds.of_writers(still + moved)
    assert (quiet["checks"], quiet["no drift"] + quiet["no alarm"]) == (2, 1)
    assert (drifted["checks"], drifted["drift"]) == (2, 1)
    assert abs(drifted["estimate"] - drifted["D"]) < 0.1


def test_writers_replace_their_digits_by_their_own_1s_and_7s():
    rng = np.random.default_rng(0)
    digits = np.repeat([0, 1, 7, 9], 20)
    assert set(quiet_worlds._drifted(digits, 1.0, rng)) == {1, 7}
    assert len(quiet_worlds._drifted(digits, 0.0, rng)) == 50
    assert set(quiet_worlds._drifted(np.repeat([3, 4], 5), 1.0, rng)) == {3, 4}


def test_a_quiet_word_beside_an_estimate_above_the_threshold_is_seen():
    report = replace(SMALL, records=500, design_effect=1.0).check(0)
    name = report.column
    first = report.columns[name]
    above = replace(first, reading=replace(first.reading, population_estimate=0.2))
    assert quiet_worlds._beside(replace(report, columns={**report.columns, name: above}))
    if report.outcome in (Outcome.NO_DRIFT, Outcome.NO_ALARM):
        assert not quiet_worlds._beside(report)


def test_clients_of_a_natural_key_are_checked_and_a_large_one_is_named(monkeypatch):
    rng = np.random.default_rng(0)
    rows = pd.DataFrame(
        {"state": rng.choice(["NY", "CA", "RI"], 4000, p=[0.6, 0.38, 0.02]),
         "age": rng.normal(40, 9, 4000).round()}
    )  # fmt: skip
    reference = Reference.from_frame(Table.from_frame(rows), rows)
    own = [one for _, one in rows.groupby("state")]
    monkeypatch.setattr(quiet_worlds, "_rows_of", lambda name: (reference, rows, own))
    found = quiet_worlds.keyed(("people", 0))
    assert (found["clients"], found["records"], found["columns"]) == (3, 4000, 2)
    assert found["untrue"] == 0
    assert found["named"] == found["by_one"] > 0
    total = quiet_worlds.of_keys([found, {**found, "table": "others"}])[-1]
    assert (total["table"], total["checks"], total["columns"]) == ("all", 2, 4)
