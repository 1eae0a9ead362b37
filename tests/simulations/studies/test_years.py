"""Years of drawn cohorts: what the study skips is no drift, and each world has its own name."""

from itertools import islice

import numpy as np
import pytest

from flwr_kld.report import Outcome
from flwr_kld.simulations.studies import checks, years


def test_each_world_is_counted_by_a_name_of_its_own():
    names = [(w.name, w.symbols, w.clients) for w in years.worlds()]
    assert len(set(names)) == len(names)


@pytest.mark.parametrize(
    "name", ["one label each", "ten columns", "'other' of a kind of 0.04 of 50"]
)
def test_a_night_that_the_study_skips_has_no_drift(name):
    world = next(w for w in years.worlds() if w.name == name)
    rng = np.random.default_rng(0)
    year = years.Year(world, world.nats[-1], rng)
    for night in islice(year.nights(rng), 6):
        said = [one.verdict.outcome for one in year.checks.conclude(night).values()]
        if year.passed(night) != "the population":
            assert Outcome.DRIFT not in said


def test_a_kind_that_is_drawn_too_often_is_no_drift():
    name = "frequent kind 0.01 of 500 beside 50"
    world = next(w for w in years.worlds() if w.name == name and w.clients > 200)
    rng = np.random.default_rng(0)
    year = years.Year(world, world.nats[-1], rng)
    assert {year.passed(night) for night in islice(year.nights(rng), 60)} <= {
        "nothing",
        "no missed kind",
    }


def test_a_kind_that_is_drawn_too_rarely_is_no_drift():
    """22 of 400 clients, where 40 are expected: fewer are drawn on one night in a thousand."""
    name = "seldom kind 0.1 of 50 beside 50"
    world = next(w for w in years.worlds() if w.name == name)
    rng = np.random.default_rng(0)
    year = years.Year(world, world.nats[-1], rng)
    kind = year.counts[:, year.plan.cell_of[world.symbols // 2]] == 50
    who = np.concatenate([np.flatnonzero(kind)[:22], np.flatnonzero(~kind)[:378]])
    night = checks.measured(
        year.plan, year.checks.event(400), year.counts[who].sum(axis=0),
        year.alike[who].sum(axis=0), year.sizes[who], checks.bits_of(rng), drawn=True,
    )  # fmt: skip
    assert year.passed(night) == "no missed kind"
