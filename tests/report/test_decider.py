"""The parts of an alarm's rate: no year, no column and no test has more than its own."""

import numpy as np
import pytest

from flwr_kld import Labels, Reference, Table
from flwr_kld.infer.alarm import Alarm
from flwr_kld.infer.allowance import SHARE
from flwr_kld.report.decider import Decider
from flwr_kld.simulations import simulate
from flwr_kld.strategies import KLDrift, Trusted

NAMES = ("a", "b", "c")
FRUIT = Labels(["apple", "pear", "plum"])
ALARM = Alarm(rate=0.04, horizon=52)


@pytest.mark.parametrize("rows", [None, 5000])
def test_the_checks_of_a_year_use_up_a_columns_rate(rows):
    """Two tests a check, of the divergence and of what is outside, and what the reference hides."""
    reference = Reference(FRUIT, np.array([0.5, 0.3, 0.2, 0, 0]), rows)
    decider = Decider(0.05, 0.05, ALARM, reference, "fruit")
    tests = 2 * decider.level * ALARM.horizon
    assert tests + SHARE * ALARM.rate == pytest.approx(ALARM.rate, rel=1e-9)


def test_each_column_of_a_table_has_its_part_of_the_rate():
    table = Table(dict.fromkeys(NAMES, FRUIT))
    rows = dict.fromkeys(NAMES, (["apple"] * 5 + ["pear"] * 3 + ["plum"] * 2) * 20)
    reference = Reference.from_frame(table, rows)
    monitor = KLDrift(reference, Trusted(1.0), alarm=ALARM, threshold=1.0)
    report = simulate(monitor, rows, clients=20)
    rates = [column.verdict.alarm.rate for column in report.columns.values()]
    assert sum(rates) == pytest.approx(ALARM.rate, rel=1e-9)
    assert len(set(rates)) == 1
    assert "in 52 checks without a drift is at most 4 %" in " ".join(str(report).split())
