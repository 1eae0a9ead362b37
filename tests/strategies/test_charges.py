"""What a check is charged, in a ledger."""

import pytest
from ledger.books import pure

from flwr_kld.ask.cohort import AskedClients, Participant, RotatingCohort, UniformCohort
from flwr_kld.ledger import Budget, Ledger
from flwr_kld.strategies import Distributed
from flwr_kld.strategies.charges import charge_of, warn_of_pace

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


@pytest.mark.parametrize(
    ("cohort", "horizon", "fits"),
    [
        (UniformCohort(), 365, False), (UniformCohort(), 12, True), (UniformCohort(), 1, True),
        (RotatingCohort(40), 365, False),
        (RotatingCohort(3), 365, True),
    ],
)  # fmt: skip
def test_a_year_of_checks_that_does_not_fit_is_warned_of(caplog, cohort, horizon, fits):
    budget = Budget(epsilon=1.0, delta=1e-6, window_days=30)
    warn_of_pace(budget, cohort, 100, pure(1.0), horizon)
    assert bool(caplog.messages) is not fits
    assert fits or "the budget has room for" in caplog.text
