"""What a check is charged, in a ledger."""

import pytest

from flwr_kld.ask.cohort import AskedClients, Participant
from flwr_kld.ledger import Budget, Ledger
from flwr_kld.strategies import Distributed
from flwr_kld.strategies.count_strategy import charge_of

TRUST = Distributed(1.0, min_clients=16)


@pytest.fixture
def ledger(tmp_path):
    made = Ledger(f"sqlite:///{tmp_path}/drift.db")
    made.set_budget(Budget(3.0, 1e-6, window_days=30))
    return made


def test_a_check_is_charged_what_its_survivors_deliver(ledger):
    asked = AskedClients([Participant(i) for i in range(39)])
    reservation = ledger.reserve("k", charge_of(TRUST, asked))
    ledger.settle(reservation, {}, delivered=TRUST.cost(20))
    release = ledger.check("k").release
    booked = release.delivered or release.asked
    assert (booked.epsilon, booked.delta) == (TRUST.cost(20).epsilon, TRUST.cost(20).delta)
