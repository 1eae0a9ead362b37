"""The study of nights: its noise is the mechanism's, and no alarm is overlooked."""

from __future__ import annotations

import math

import numpy as np
import pytest
from session_nights import a_night

from flwr_kld.kernel.continual import Continual
from flwr_kld.kernel.law import SeededBits, sample, to_counts
from flwr_kld.report import Outcome
from flwr_kld.report.decider import bounds_of
from flwr_kld.simulations.studies import nights
from flwr_kld.simulations.studies.nights import Year
from flwr_kld.trust.standing import Standing
from flwr_kld.trust.trusted import Trusted

TASK = {"study": "nights", "version": 0, "scheme": "standing", "turnover": 0.1, "block": 0}


def test_the_noise_is_the_mechanisms():
    table, stream = nights.released().table, Continual(nights.NIGHTS)
    z = sample(table, nights.NIGHTS * 2, SeededBits(7)).reshape(-1, 2)
    noise = nights.drawn("standing", 7, 2)
    for night in (1, 2, 100, nights.NIGHTS):
        own = to_counts(stream.noise(list(z[:night])), nights.allotted().counts[0])
        assert np.array_equal(noise[night - 1], own)
    session = Standing(Trusted(1.0, nights.DELTA)).over(1)
    for night in (1, 200):
        law = session.on(a_night("00", night, nights.NIGHTS, 2)).event(1).noise
        deviation = law.variance**0.5 / nights.allotted().counts[0]
        assert deviation == pytest.approx(nights.deviations("standing")[night - 1], 1e-3)


def test_a_year_of_nights_is_as_exact_as_promised():
    assert nights.deviations("standing").max() <= 23.1
    assert nights.of_a_change("standing", 1) <= 14
    assert nights.epsilon_for("standing", 2, math.sqrt(2) * nights.per_norm()) <= 4.5
    assert nights.deviations("independent")[0] == pytest.approx(114.1, rel=0.01)


def test_nodes_of_the_tree_add_up_to_every_nights_changes_and_a_record_moves_them_so_far():
    tree, used = nights.tree().astype(int), nights.prefixes().astype(int)
    assert np.array_equal(used @ tree, np.tril(np.ones((nights.NIGHTS, nights.NIGHTS), dtype=int)))
    stays = [tree[:, 0] - tree[:, night] for night in range(1, nights.NIGHTS)]
    lasting = max(int(tree[:, night].sum()) for night in range(nights.NIGHTS))
    assert nights.tree_norm() ** 2 >= max(*(int(v @ v) for v in stays), lasting)
    assert nights.tree_norm() ** 2 <= 2 * lasting
    noise = nights.drawn("tree", 1, 400)
    assert noise.std(axis=1) == pytest.approx(nights.deviations("tree"), rel=0.2)


@pytest.mark.parametrize("scheme", ["standing", "independent"])
def test_nights_that_are_not_read_are_no_alarms(scheme):
    year, rng = Year(scheme, nights.uniform()), np.random.default_rng(3)
    deviation, unread = nights.deviations(scheme)[200], 0
    for _ in range(30):
        law = rng.dirichlet(np.full(nights.SYMBOLS, rng.choice([3_000, 30_000])))
        shown = np.rint(rng.normal(0, deviation, year.plan.cells))
        shown[~year.plan.outside] += rng.multinomial(nights.ROWS, law)
        if not year.suspect(200, shown, nights.ROWS):
            unread += 1
            measured = year.measured(200, shown, nights.ROWS)
            decider = year.decider()
            (found,) = bounds_of([decider], [measured.published])
            said, _ = decider.decide(measured, found, None, None, "nights")
            assert said.outcome is not Outcome.DRIFT
    assert unread > 0


def test_drifts_are_found_after_they_begin_and_quiet_years_are_quiet():
    drifted = nights.lived({**TASK, "tilt": 0.6, "years": 1})
    quiet = nights.lived({**TASK, "tilt": 0.0, "block": 1, "years": 1})
    assert (drifted["found"] >= nights.DRIFT_FROM).all()
    assert (drifted["found"] < nights.DRIFT_FROM + 10).all()
    assert (quiet["found"] == -1).all()
    rows = nights.summary([
        ({**TASK, "tilt": 0.6}, drifted), *[({**TASK, "tilt": 0.0}, quiet)] * 2
    ])  # fmt: skip
    assert rows[0]["delay"] == np.median(drifted["found"]) - nights.DRIFT_FROM
    assert rows[1]["false_at_most"] == pytest.approx(1 - math.sqrt(0.05))


@pytest.mark.parametrize("scheme", nights.SCHEMES[1:4])
def test_peers_find_large_drifts_too(scheme):
    found = nights.lived({**TASK, "scheme": scheme, "tilt": 0.6, "years": 1})
    assert (found["found"] >= nights.DRIFT_FROM).all()


def test_years_that_find_nothing_count_as_late_ones():
    assert nights.delay(np.array([110, -1, -1])) == math.inf
    assert nights.delay(np.array([110, 120, -1])) == 20


def test_flights_are_found_earlier_than_by_the_month():
    pytest.importorskip("pandas")
    task = {"study": "flights", "version": 0, "columns": 1, "run": 0}
    each = [int(nights.flown({**task, "scheme": s})["after"][0]) for s in ("standing", "monthly")]
    assert each[1] == 31  # the end of May
    assert 0 < each[0] <= 11
