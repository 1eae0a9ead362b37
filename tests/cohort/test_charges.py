"""What both halves of a check are charged, in a ledger."""

import numpy as np
import pytest
from accounting.books import pure

from flwr_kld.accounting import Budget, Ledger
from flwr_kld.cohort.charges import charges, delivered, warn_of_pace
from flwr_kld.cohort.cohort import Participant, RotatingCohort, RotatingRecords, UniformCohort
from flwr_kld.cohort.halves import Part, halves
from flwr_kld.query.selection import EVERYTHING, Selection
from flwr_kld.strategies import Distributed

TRUST = Distributed(1.0, min_clients=16)


@pytest.fixture
def ledger(tmp_path):
    made = Ledger(f"sqlite:///{tmp_path}/drift.db")
    made.set_budget(Budget(3.0, 1e-6, window_days=30))
    return made


def settled(ledger, clients, about, selection, survivors):
    """Releases of a check whose halves had so many survivors; None for one that failed."""
    people = [Participant(i) for i in range(clients)]
    parts = [Part(people, selection, "record")]
    if about == "the population":
        parts = halves(people, selection, 16, np.random.default_rng(0))
    reservation = ledger.reserve("k", charges(TRUST, parts))
    ledger.settle(reservation, {}, delivered=delivered(TRUST, parts, survivors))
    return ledger.check("k").releases


def test_counts_of_the_whole_cohort_are_one_charge_of_what_they_cost(ledger):
    (release,) = settled(ledger, 39, "these clients", EVERYTHING, (20,))
    booked = release.delivered or release.asked
    assert (booked.epsilon, booked.delta) == (TRUST.cost(20).epsilon, TRUST.cost(20).delta)


def test_halves_of_clients_are_charged_apart(ledger):
    assert len(settled(ledger, 400, "the population", EVERYTHING, (200, 200))) == 2
    assert ledger.spent().epsilon <= 1.0


def test_the_same_buckets_of_two_halves_of_clients_are_one_charge(ledger):
    assert len(settled(ledger, 400, "the population", Selection("k", 4, (1,)), (200, 200))) == 1
    assert ledger.spent().epsilon <= 1.0


def test_a_bucket_of_the_whole_cohort_is_one_charge(ledger):
    assert len(settled(ledger, 39, "these clients", Selection("k", 4, (1,)), (32,))) == 1
    assert ledger.spent().epsilon <= 1.0


@pytest.mark.parametrize(
    ("cohort", "horizon", "fits"),
    [
        (UniformCohort(), 365, False), (UniformCohort(), 12, True), (UniformCohort(), 1, True),
        (RotatingRecords(31), 365, True), (RotatingCohort(40), 365, False),
        (RotatingCohort(3), 365, True),
    ],
)  # fmt: skip
def test_a_year_of_checks_that_does_not_fit_is_warned_of(caplog, cohort, horizon, fits):
    budget = Budget(epsilon=1.0, delta=1e-6, window_days=30)
    warn_of_pace(budget, cohort, 100, pure(1.0), horizon)
    assert bool(caplog.messages) is not fits
    assert fits or "the budget has room for" in caplog.text
