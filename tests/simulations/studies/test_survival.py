"""The study of survival asks about tables of every kind, and holds curves against the times."""

import numpy as np
import pytest

from flwr_kld.simulations.studies import survival as study


def test_a_curve_of_the_times_counts_events_before_those_lost_at_once():
    time, event = np.array([1.0, 1.0, 2.0, 0.5]), np.array([False, True, True, False])
    curve = study.exact(time, event)
    assert curve[:3] == pytest.approx([1.0, 2 / 3, 0.0])  # three are at risk at 1, one at 2


@pytest.mark.parametrize(
    ("name", "tested"),
    [("Weibull", True), ("empty for the living", True), ("times below 0", False)],
)
def test_worlds_are_asked_as_an_operator_asks(name, tested):
    found = study.asked((name, 0))
    assert found["world"] == name
    assert found["tested"] == tested  # curves that lack records are not tested
    assert isinstance(found["old held"], bool)


def test_rows_of_a_file_are_drawn(tmp_path):
    file = tmp_path / "patients.csv"
    file.write_text("days,state\n10,dead\n20,\n40,dead\n,dead\n")
    world = study.of_file(f"{file}:days:state:dead")
    time, codes = world.rows(np.random.default_rng(0), 100)
    assert set(time) == {6.0, 12.0, 24.0}
    assert set(codes) == {"dead", None}
    assert study.asked((f"{file}:days:state:dead", 0))["world"] == "patients.csv"
