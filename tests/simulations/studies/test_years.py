"""Years of drawn cohorts: what the study skips is no drift, and each world has its own name."""

import numpy as np
import pytest

from flwr_kld.report import Outcome
from flwr_kld.simulations.studies import years


def test_each_world_is_counted_by_a_name_of_its_own():
    names = [(w.name, w.symbols, w.clients) for w in years.worlds()]
    assert len(set(names)) == len(names)


@pytest.mark.parametrize(
    "name", ["one label each", "ten columns", "'other' of a kind of 0.04 of 50"]
)
def test_a_night_that_the_study_skips_has_no_drift(name, monkeypatch):
    monkeypatch.setattr(years, "DAYS", 12)
    monkeypatch.setattr(years, "CLIENTS", 1000)
    world = next(w for w in years.worlds() if w.name == name)
    rng = np.random.default_rng(0)
    year = years.Year(world, world.nats[-1], rng)
    for night in year.nights(rng):
        said = [one.verdict.outcome for one in year.checks.conclude(night).values()]
        if year.passed(night) != "the population":
            assert Outcome.DRIFT not in said


def test_a_kind_that_is_drawn_too_often_is_no_drift(monkeypatch):
    monkeypatch.setattr(years, "DAYS", 60)
    name = "frequent kind 0.01 of 500 beside 50"
    world = next(w for w in years.worlds() if w.name == name and w.clients > 200)
    rng = np.random.default_rng(0)
    year = years.Year(world, world.nats[-1], rng)
    assert {year.passed(night) for night in year.nights(rng)} <= {"nothing", "no missed kind"}
