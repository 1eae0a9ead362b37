"""A reference made from one period's clients serves the next one's checks."""

import pytest
from federation import FRUIT, SHARES, app_of, grid_of

from flwr_kld.clients import FirstUse
from flwr_kld.divergence import skewed_divergence
from flwr_kld.errors import CheckFailed
from flwr_kld.ledger import AlreadyChecked, Budget, Ledger
from flwr_kld.strategies import (
    Adjacency,
    Distributed,
    KLDrift,
    ReferenceFromClients,
    Scalar,
    SecureSum,
    Trusted,
)


@pytest.mark.parametrize("adjacency", list(Adjacency))
def test_it_is_near_what_the_clients_hold(adjacency):
    trust = Trusted(2.0, adjacency=adjacency)
    reference, report = ReferenceFromClients(FRUIT, trust).build(grid_of())
    assert skewed_divergence(reference.probabilities, SHARES, 0.0) < 0.01
    assert reference.probabilities.min() > 0
    assert (report.reference, report.survivors) == (reference.fingerprint, 20)
    assert "per record" in str(report)


def test_over_a_secure_sum_and_then_checked_against(tmp_path):
    ledger = Ledger(f"sqlite:///{tmp_path}/drift.db")
    ledger.set_budget(Budget(4.0, 1e-6, window_days=30))
    trust = Distributed(1.0, min_survivors=10)
    grid = grid_of(app_of(secure_sum=FirstUse()))
    making = ReferenceFromClients(FRUIT, trust, aggregation=SecureSum(), ledger=ledger)
    reference, _ = making.build(grid, key="june")
    monitor = KLDrift(reference, trust, aggregation=SecureSum(), ledger=ledger)
    assert monitor.check(grid, key="july").estimate < 0.02
    turned = grid_of(app_of(lambda context: FRUIT.names[:2] * 50, secure_sum=FirstUse()))
    monitor = KLDrift(reference, trust, aggregation=SecureSum(), ledger=ledger)
    assert monitor.check(turned, key="august").estimate > 0.5
    kept = ledger.history()
    assert [entry.key for entry in kept] == ["june", "july", "august"]
    assert kept[0].report["reference"] == reference.fingerprint
    assert 2.0 < ledger.spent().epsilon <= 3.0
    with pytest.raises(AlreadyChecked):
        making.build(grid, key="june")


def test_what_fails_is_spent_and_releases_nothing(tmp_path):
    ledger = Ledger(f"sqlite:///{tmp_path}/drift.db")
    ledger.set_budget(Budget(4.0, 0.0, window_days=30))
    making = ReferenceFromClients(FRUIT, Trusted(1.0), ledger=ledger)
    with pytest.raises(CheckFailed, match="no reply"):
        making.build(grid_of(lose=lambda message: True), key="june")
    assert ledger.check("june").state == "failed"
    assert ledger.spent().epsilon == 1.0


def test_one_number_is_no_histogram():
    with pytest.raises(ValueError, match="counts"):
        ReferenceFromClients(FRUIT, Trusted(1.0, release=Scalar()))
