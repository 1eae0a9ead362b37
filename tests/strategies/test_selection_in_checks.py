"""Buckets of records reach the clients in every trust model."""

import numpy as np
import pytest
from federation import REFERENCE, app_of, basket, grid_of, keep_secrets
from flwr.app import Context

from flwr_kld.clients import AggregatorKey, FirstUse, aggregate_drift_checks
from flwr_kld.cohort.cohort import Participant
from flwr_kld.errors import CheckFailed
from flwr_kld.kernel.law import SystemBits
from flwr_kld.query.partition import Partition
from flwr_kld.query.selection import Selection
from flwr_kld.strategies import (
    Distributed,
    KLDrift,
    PlainSum,
    RotatingRecords,
    SecureSum,
    Trusted,
    TrustedAggregator,
)
from flwr_kld.strategies.publisher import Publisher
from flwr_kld.strategies.sealed_sum import SealedSum

PLAN = Partition(16).draw(REFERENCE, np.random.default_rng(0))
NODES = 12
TOTAL = [120, 240, 360, 480, 0, 0]  # nothing lies outside the reference
KEY = AggregatorKey.generate()
EPSILON = 20.0
BUCKETS = [Selection("k", 2, (i,)) for i in range(2)]


@pytest.fixture
def key_file(tmp_path):
    KEY.save(tmp_path / "key")
    return str(tmp_path / "key")


@pytest.fixture(params=["trusted", "trusted, secure sum", "distributed", "aggregator"])
def ask(request, key_file, tmp_path):
    """Ask for PLAN over a selection; return noised counts, shape [cells]."""
    trust, aggregation = {
        "trusted": (Trusted(EPSILON), PlainSum()),
        "trusted, secure sum": (Trusted(EPSILON), SecureSum()),
        "distributed": (Distributed(EPSILON, min_clients=NODES), SecureSum()),
        "aggregator": (TrustedAggregator(EPSILON, aggregator=KEY.public), SealedSum()),
    }[request.param]
    app = app_of(secure_sum=FirstUse(), aggregator=KEY.public)
    aggregate_drift_checks(app)
    grid = keep_secrets(grid_of(app, NODES + 1), tmp_path)
    grid._contexts[1000 + NODES].node_config |= {
        "drift-role": "aggregator", "drift-key": key_file, "drift-memory": key_file + ".memory"
    }  # fmt: skip
    people = [Participant(1000 + i) for i in range(NODES)]
    aggregation.clients(people, grid, 9.0)  # finds the aggregator

    def ask(selection: Selection, check: str) -> np.ndarray:
        publisher = Publisher(trust, aggregation, NODES, SystemBits())
        published = publisher.publish(
            grid, people, PLAN.over(selection), check=check, group="1", timeout=9.0
        )
        return published.values.values

    return ask


def test_buckets_add_up_to_the_whole(ask):
    first, second = (ask(bucket, f"c{i}") for i, bucket in enumerate(BUCKETS))
    assert abs(first + second - TOTAL).max() <= 6
    assert 0.35 < first.sum() / 1200 < 0.65


def test_a_rotation_reports_each_bucket_once(tmp_path):
    """Also where each check is a run of its own, in which nodes have forgotten the one before."""
    cohort = RotatingRecords(3)
    monitor = KLDrift(REFERENCE, Trusted(EPSILON), cohort=cohort)
    runs = (keep_secrets(grid_of(nodes=3), tmp_path) for _ in range(3))
    found = [monitor.check(grid).reading.records for grid in runs]
    assert sum(found) == 300
    assert max(found) < 300


def test_a_rotation_is_refused_where_a_bucket_does_not_outlast_the_run():
    """Otherwise a record could be in every day's bucket, and the ledger would not know."""
    monitor = KLDrift(REFERENCE, Trusted(EPSILON), cohort=RotatingRecords(3))
    with pytest.raises(CheckFailed, match=r"refused: a rotation .*drift-guard.*drift-salt"):
        monitor.check(grid_of(nodes=3))


def test_record_ids_decide_and_not_the_order(tmp_path):
    """Records come in another order in each check; together the buckets still hold each once."""
    rng = np.random.default_rng(0)
    orders: list[np.ndarray] = []

    def shuffled(context: Context) -> list[str]:
        orders.append(rng.permutation(100))
        records = basket(context)
        return [records[i] for i in orders[-1]]

    app = app_of(shuffled, record_ids=lambda context: orders[-1])
    trust, people = Trusted(EPSILON), [Participant(1000)]
    publisher = Publisher(trust, PlainSum(), 1, SystemBits())
    grid = keep_secrets(grid_of(app, 1), tmp_path)
    total = sum(
        publisher.publish(
            grid, people, PLAN.over(bucket), check=f"c{i}", group="1", timeout=9.0
        ).values.values
        for i, bucket in enumerate(BUCKETS)
    )
    assert abs(total - np.array(TOTAL) / NODES).max() <= 6


@pytest.mark.parametrize("ids", [lambda _: [1, 2], lambda _: 1 / 0])
def test_ids_that_do_not_fit_are_a_refusal_without_data(ids, tmp_path):
    grid = keep_secrets(grid_of(app_of(record_ids=ids), 3), tmp_path)
    with pytest.raises(CheckFailed, match=r"refused: the record ids could not be used"):
        KLDrift(REFERENCE, Trusted(1.0), cohort=RotatingRecords(4)).check(grid)
