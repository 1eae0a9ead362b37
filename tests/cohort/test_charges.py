"""What both halves of a check are charged, in a ledger."""

import numpy as np
import pytest

from flwr_kld.accounting import Budget, Ledger
from flwr_kld.cohort.charges import charges, delivered, warn_of_pace
from flwr_kld.cohort.cohort import Participant, RotatingCohort, RotatingRecords, UniformCohort
from flwr_kld.cohort.halves import halves
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
    parts = halves(people, selection, 16, about, np.random.default_rng(0))
    reservation = ledger.reserve("k", charges(TRUST, parts))
    ledger.settle(reservation, {}, delivered=delivered(TRUST, parts, survivors))
    return ledger.check("k").releases


@pytest.mark.parametrize("survivors", [(32, 20), (20, 32), (None, 32)])
def test_one_charge_for_both_halves_books_the_dearer(ledger, survivors):
    (release,) = settled(ledger, 39, "these clients", EVERYTHING, survivors)
    counts, sums = (16 if n is None else n for n in survivors)
    dearer = TRUST.cost(counts).either(TRUST.sums_cost(sums))
    booked = release.delivered or release.asked
    assert (booked.epsilon, booked.delta) == (dearer.epsilon, dearer.delta)


def test_halves_of_clients_are_charged_apart(ledger):
    assert len(settled(ledger, 400, "the population", EVERYTHING, (200, 200))) == 2
    assert ledger.spent().epsilon <= 1.0


def test_the_same_buckets_of_two_halves_of_clients_are_one_charge(ledger):
    assert len(settled(ledger, 400, "the population", Selection("k", 4, (1,)), (200, 200))) == 1
    assert ledger.spent().epsilon <= 1.0


def test_other_buckets_in_each_half_are_charged_apart(ledger):
    assert len(settled(ledger, 39, "these clients", Selection("k", 4, (1,)), (32, 32))) == 2
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
    warn_of_pace(budget, cohort, 100, 1.0, horizon)
    assert bool(caplog.messages) is not fits
    assert fits or "the budget has room for" in caplog.text
