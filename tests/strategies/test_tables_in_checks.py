"""A table is checked as a whole, whoever adds the noise: one event, one charge, right readings."""

import math

import numpy as np
import pytest
from federation import FAR, FRUIT, app_of, grid_of
from guard.files import guard_file, protecting
from sealed_federation import KEY, federation
from tables import FRUITS, REFERENCE, TABLE, rows, table_app

from flwr_kld import Reference, Table
from flwr_kld.common.errors import CheckFailed
from flwr_kld.kernel.promise import WholeClients
from flwr_kld.ledger import Budget, Ledger
from flwr_kld.strategies import (
    Distributed,
    KLDrift,
    RotatingCohort,
    SecureSum,
    Trusted,
    TrustedAggregator,
)

EPSILON, NODES = 8.0, 12
SHARES = {"min_clients": 6, "delta": 1e-6}


def sealed(**options):
    return TrustedAggregator(EPSILON, aggregator=KEY.public, **options)


TRUSTS = {
    "Laplace": Trusted(EPSILON),
    "Gaussian": Trusted(EPSILON, 0.01),
    "clients": Trusted(EPSILON, protects=WholeClients(50)),
    "aggregator": sealed(),
    "aggregator, clients": sealed(protects=WholeClients(50)),
    "shares": Distributed(EPSILON, **SHARES),
    "shares, Gaussian": Distributed(EPSILON, **SHARES | {"delta": 0.01}),
    "shares, clients": Distributed(EPSILON, protects=WholeClients(50), **SHARES),
}
CASES = [(name, "sum" if name.startswith("shares") else "plain") for name in TRUSTS]
CASES += [("Laplace", "sum"), ("clients", "sum")]


def grid_for(name, **options):
    app = table_app(aggregator=KEY.public, record_ids=lambda context: np.arange(100), **options)
    return federation(app) if name.startswith("aggregator") else grid_of(app, NODES)


@pytest.mark.parametrize(("name", "way"), CASES)
def test_a_table_is_one_release_of_all_its_columns(name, way, tmp_path):
    trust, grid = TRUSTS[name], grid_for(name)
    nodes = 20 if name.startswith("aggregator") else NODES
    ledger = Ledger(f"sqlite:///{tmp_path}/drift.db")
    budget = Budget(2.1 * EPSILON, 0.05, window_days=30, protects=trust.guarantee.protected)
    ledger.set_budget(budget)
    monitor = KLDrift(
        REFERENCE, trust, aggregation=SecureSum() if way == "sum" else None, ledger=ledger
    )
    report = monitor.check(grid, "monday")
    assert report.guarantee == trust.guarantee
    spread = FAR * math.sqrt(TABLE.size * monitor.trust.event(nodes).table.variance)
    each = 50 if "clients" in name else 100
    assert abs(report.reading.records - nodes * each) <= spread
    assert set(report.columns) == set(TABLE.columns)
    assert {c.reading.records for c in report.columns.values()} == {report.reading.records}
    assert ledger.check("monday").release is not None
    once = ledger.spent().epsilon
    assert once <= EPSILON * (1 + 1e-6)
    monitor.check(grid, "tuesday")
    assert once < ledger.spent().epsilon <= 2 * EPSILON * (1 + 1e-6)


@pytest.mark.parametrize("protects", ["record", "client"])
def test_a_guard_sees_one_check_of_one_epsilon(protects, tmp_path, environment):
    """Three columns, two checks of ε: a third one of them would be beyond the budget."""
    changes = [
        ("max_epsilon = 1.0", "max_epsilon = 8.0"),
        ("max_epsilon = 3.0", "max_epsilon = 17.0"),
        protecting(protects),
    ]
    environment["FLWR_KLD_GUARD"] = str(guard_file(tmp_path, *changes))
    monitor = KLDrift(REFERENCE, TRUSTS["clients" if protects == "client" else "Laplace"])
    grid = grid_of(table_app(), 5)
    for _ in range(2):
        assert monitor.check(grid).cohort.survivors == 5
    with pytest.raises(CheckFailed, match="client"):
        monitor.check(grid)


def test_tables_rotate():
    monitor = KLDrift(REFERENCE, TRUSTS["Laplace"], cohort=RotatingCohort(NODES // 2))
    grid = grid_of(table_app(), NODES)
    records = [monitor.check(grid).reading.records for _ in range(2)]
    assert sum(records) == 100 * NODES
    assert min(records) > 0


def seeded(monitor):
    monitor._seeded(1)
    return monitor


@pytest.mark.parametrize("trust", ["Laplace", "Gaussian", "clients"])
def test_a_table_of_one_column_is_that_column(trust):
    """The same counts of the same seed: of noise, of the plan and of the readings."""
    table = Table({"fruit": FRUIT})
    alone = Reference.from_probabilities(FRUIT, FRUITS)
    one = Reference.from_counts(table, {"fruit": [*FRUITS, 0, 0]})
    columns = seeded(KLDrift(one, TRUSTS[trust])).check(grid_of(table_app(table=table), 5))

    def fruit(context):
        return rows(context)["fruit"]

    only = seeded(KLDrift(alone, TRUSTS[trust])).check(grid_of(app_of(fruit), 5))
    assert columns.protection.noise == only.protection.noise
    if trust != "clients":  # a client's sample is its own
        assert columns.columns["fruit"].reading.estimate == pytest.approx(only.reading.estimate)
