"""What both halves of a check are charged, in a ledger."""

import numpy as np
import pytest
from accounting.books import pure

from flwr_kld.accounting import Budget, Ledger
from flwr_kld.cohort.charges import charges, delivered, warn_of_pace
from flwr_kld.cohort.cohort import Participant, RotatingCohort, UniformCohort
from flwr_kld.cohort.halves import Part, halves
from flwr_kld.strategies import Distributed

TRUST = Distributed(1.0, min_clients=16)


@pytest.fixture
def ledger(tmp_path):
    made = Ledger(f"sqlite:///{tmp_path}/drift.db")
    made.set_budget(Budget(3.0, 1e-6, window_days=30))
    return made


def settled(ledger, clients, about, survivors):
    """Releases of a check whose halves had so many survivors; None for one that failed."""
    people = [Participant(i) for i in range(clients)]
    parts = [Part(people, "record")]
    if about == "the population":
        parts = halves(people, 16, np.random.default_rng(0))
    reservation = ledger.reserve("k", charges(TRUST, parts))
    ledger.settle(reservation, {}, delivered=delivered(TRUST, survivors))
    return ledger.check("k").releases


def test_counts_of_the_whole_cohort_are_one_charge_of_what_they_cost(ledger):
    (release,) = settled(ledger, 39, "these clients", (20,))
    booked = release.delivered or release.asked
    assert (booked.epsilon, booked.delta) == (TRUST.cost(20).epsilon, TRUST.cost(20).delta)


def test_halves_of_clients_are_charged_apart(ledger):
    assert len(settled(ledger, 400, "the population", (200, 200))) == 2
    assert ledger.spent().epsilon <= 1.0


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
