"""Predicted bytes against those that checks report, through Flower's own messages."""

from functools import partial

import numpy as np
import pytest
from federation import REFERENCE, app_of, grid_of
from flwr.clientapp import ClientApp
from sealed_federation import federation, monitor

from flwr_kld import Labels, Partition, Reference, Table
from flwr_kld.clients import FirstUse, answer_drift_queries
from flwr_kld.kernel.count import Scores
from flwr_kld.kernel.promise import Allotment
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


@pytest.mark.parametrize("trust", [Trusted(3.0), Distributed(3.0, min_clients=16)])
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
    assert slow > 3 * fast
    listed, _ = told(aggregation="secure-sum", population=1000)
    assert 80 < (listed.down - secure.down) / 900 < 120  # the list of clients, name and key


TABLE = Table(
    {"fruit": ["apple", "banana"], "hand": Labels(["left", "right"])},
    interactions=[("fruit", "hand")],
)
LAW = Reference.from_samples(TABLE, {"fruit": ["apple", "banana"], "hand": ["left", "right"]})
QUERY = Partition(16).draw(LAW, np.random.default_rng(0)).allotted(Allotment((17, 17, 17), 1))


def table_app(**options):
    app = ClientApp()
    rows = {"fruit": 50 * ["apple", "banana"], "hand": 100 * ["left"]}
    answer_drift_queries(app, lambda context: rows, TABLE, **options)
    return app


@pytest.mark.parametrize("trust", [Trusted(3.0), Distributed(3.0, min_clients=16)])
def test_a_table(trust, monkeypatch):
    monkeypatch.setattr("flwr_kld.trust.traffic._NAME", len("1000:0"))
    report = KLDrift(LAW, trust, aggregation=SecureSum(), plan=Partition(16)).check(
        grid_of(table_app(secure_sum=FirstUse()))
    )
    setting = Setting(
        clients=20,
        records=100,
        trust=trust.over(QUERY.allotment),
        threshold=None,
        aggregation="secure-sum",
    )
    told = traffic_of(setting, QUERY)
    assert told.down == pytest.approx(report.cost.bytes_down, abs=8)
    assert told.up == pytest.approx(report.cost.bytes_up, abs=8)


@pytest.mark.parametrize("trust", [Trusted(3.0), Distributed(3.0, min_clients=16)])
def test_the_deciding_half_answers_with_five_numbers_a_column(trust, monkeypatch):
    monkeypatch.setattr("flwr_kld.trust.traffic._NAME", len("1000:0"))
    monitor = KLDrift(LAW, trust, aggregation=SecureSum(), plan=Partition(16), threshold=0.1,
                      about="the population")  # fmt: skip
    report = monitor.check(grid_of(table_app(secure_sum=FirstUse()), 40))
    setting = Setting(
        clients=40,
        records=100,
        trust=trust.over(QUERY.allotment),
        aggregation="secure-sum",
        population=41,
    )
    sums = QUERY.scored(
        tuple(
            Scores((0,) * plan.cells, (0,) * plan.cells, 9, 100) for plan in QUERY.columns.values()
        )
    )
    first, second = traffic_of(setting, QUERY), traffic_of(setting, sums)
    counted = int(not isinstance(trust, Trusted))  # the number of records, with the counts only
    assert first.up - second.up == 4 * (QUERY.length + counted - 15)
    assert (first.up + second.up) / 2 == pytest.approx(report.cost.bytes_up, abs=16)
