"""Predicted bytes against those that checks report, through Flower's own messages."""

from functools import partial

import numpy as np
import pytest
from federation import REFERENCE, app_of, grid_of
from sealed_federation import federation, monitor

from flwr_kld import Partition
from flwr_kld.clients import FirstUse
from flwr_kld.planner import Setting
from flwr_kld.planner.forecast import seconds_of, traffic_of
from flwr_kld.strategies import Distributed, KLDrift, SecureSum, Trusted


def predicted(trust, **options):
    setting = Setting(clients=20, records=100, trust=trust, threshold=None, **options)
    return traffic_of(setting, Partition().draw(REFERENCE, np.random.default_rng(0)))


def test_plain_sum():
    report = KLDrift(REFERENCE, Trusted(3.0)).check(grid_of())
    told = predicted(Trusted(3.0))
    assert told.down == pytest.approx(report.cost.bytes_down, abs=8)
    assert told.up == pytest.approx(report.cost.bytes_up, abs=8)


@pytest.mark.parametrize("trust", [Trusted(3.0), Distributed(3.0, min_survivors=16)])
def test_secure_sum(trust, monkeypatch):
    monkeypatch.setattr("flwr_kld.trust.traffic._NAME", len("1000:0"))
    app = partial(app_of, secure_sum=FirstUse())()
    report = KLDrift(REFERENCE, trust, aggregation=SecureSum()).check(grid_of(app))
    told = predicted(trust, aggregation="secure-sum")
    assert told.down == pytest.approx(report.cost.bytes_down, abs=8)
    assert told.up == pytest.approx(report.cost.bytes_up, abs=8)


def test_sealed_sum():
    asking = monitor()
    report = asking.check(federation())
    told = predicted(asking.trust)
    assert told.down == pytest.approx(report.cost.bytes_down, abs=8)
    assert told.up == pytest.approx(report.cost.bytes_up, abs=8)


def test_what_makes_it_more():
    def told(**options):
        setting = Setting(**{"clients": 100, "records": 100, "trust": Trusted(3.0), **options})
        plan = Partition().draw(REFERENCE, np.random.default_rng(0))
        return traffic_of(setting, plan), seconds_of(setting)

    (plain, fast), (secure, slow) = told(), told(aggregation="secure-sum")
    assert secure.up - plain.up > 3000  # 24 neighbours' boxes and shares
    assert slow > 4 * fast
    listed, _ = told(aggregation="secure-sum", population=1000)
    assert 80 < (listed.down - secure.down) / 900 < 120  # the list of clients, name and key
