"""The study of quiet tables: its worlds are what they claim, and it can tell an alarm."""

import numpy as np
import pytest

from flwr_kld.inference.divergence import skewed_divergence
from flwr_kld.simulations.studies import quiet_tables
from flwr_kld.simulations.studies.drifts import THETA


@pytest.fixture(scope="module")
def january():
    return quiet_tables.January.load()


def test_each_column_is_as_far_away_as_the_world_says(january):
    for reference in january.references:
        moved = quiet_tables._moved(reference, 0.05)
        apart = skewed_divergence(moved.probabilities, reference.probabilities, THETA)
        assert apart == pytest.approx(0.05)
        assert quiet_tables._moved(reference, 0.0).probabilities == pytest.approx(
            reference.probabilities
        )


def test_a_half_holds_whole_aircraft(january):
    symbols, sizes = january.half(np.random.default_rng(0))
    assert len(sizes) == len(january.sizes) // 2
    starts = np.cumsum(january.sizes) - january.sizes
    whole = {
        january.symbols[s : s + n].tobytes() for s, n in zip(starts, january.sizes, strict=True)
    }
    ends = np.cumsum(sizes)[:-1]
    assert {np.ascontiguousarray(own).tobytes() for own in np.split(symbols, ends)} <= whole


def test_columns_that_drift_alarm_in_every_year(monkeypatch):
    """Six times what is tolerated; seeded."""
    monkeypatch.setitem(quiet_tables.WORLDS, "drifted", 0.3)
    alarms = quiet_tables.live(("drifted", 0, 2))
    assert {year for year, _ in alarms} == {0, 1}
    row = quiet_tables.row("drifted", [(("drifted", 0, 2), alarms)])
    assert (row["years"], row["false_alarm"]) == (2, 1.0)
