"""Draws in the ledger: reserved before the first, once, in full; and mistakes spend nothing."""

import numpy as np
import pytest
from integral.laws import finite_base

from flwr_kld.accounting import (
    Budget,
    BudgetExhausted,
    Charge,
    Clients,
    Cost,
    Everyone,
    Kind,
    Ledger,
)
from flwr_kld.accounting.entry import AlreadyChecked, CheckUnfinished
from flwr_kld.integral import FiniteBase, GaussianBase, Mollifier, Sampler, mbde, mollify
from flwr_kld.integral.learners import WeakLearnerError
from flwr_kld.integral.sampler import BudgetSpent
from flwr_kld.kernel import Guarantee, Unit
from flwr_kld.kernel.law import SeededBits
from flwr_kld.kernel.promise import Adjacency

BASE, BOX = finite_base([0.5, 0.3, 0.2]), Mollifier.symmetric(0.5)
RECORDS = np.repeat([0, 1, 2], [20, 20, 160])
KEY = "draws 2026-09"


@pytest.fixture
def open_ledger(tmp_path):
    """A new ledger with a budget of 4 nats."""

    def make(epsilon: float = 4.0, delta: float = 1e-6, **terms) -> Ledger:
        ledger = Ledger(f"sqlite:///{tmp_path}/drift.db")
        ledger.set_budget(Budget(epsilon, delta, 90, composition="sum", **terms))
        return ledger

    return make


def reserve(ledger: Ledger, sampler: Sampler, key: str = KEY, parts=None):
    cost = Cost.of_draws(sampler.event, ledger.budget())
    return ledger.reserve(key, [Charge(cost, parts or Everyone())], kind=Kind.DRAWS)


@pytest.mark.parametrize("adjacency", list(Adjacency))
@pytest.mark.parametrize("unit", list(Unit))
@pytest.mark.parametrize("law", [mollify(RECORDS, BASE, BOX), mbde(RECORDS, BASE, 0.5)])
def test_draws_cost_every_budget_their_own_epsilon(open_ledger, law, adjacency, unit):
    """No doubling for a replacement, no refusal for a client: they hide any change at all."""
    ledger = open_ledger(adjacency=adjacency, unit=unit)
    sampler = Sampler(law, 3)
    reservation = reserve(ledger, sampler)
    assert ledger.check(KEY).state == "reserved"
    drawn = sampler.draw(3)
    ledger.settle(reservation, {"schema": "draws 1", "draws": drawn.tolist()})
    (entry,) = ledger.history()
    assert (entry.kind, entry.state) == (Kind.DRAWS, "settled")
    assert entry.report["draws"] == drawn.tolist()
    assert entry.releases[0].asked.mechanism == f"integral {law.mechanism}"
    assert ledger.spent().epsilon == pytest.approx(sampler.event.epsilon, abs=1e-9)
    assert ledger.spent().epsilon >= sampler.event.epsilon


def test_the_draw_beyond_what_was_paid_for_is_refused(open_ledger):
    ledger, sampler = open_ledger(), Sampler(mollify(RECORDS, BASE, BOX), 3)
    ledger.settle(reserve(ledger, sampler), {"draws": sampler.draw(3).tolist()})
    with pytest.raises(BudgetSpent, match="0 of 3 draws are left"):
        sampler.draw()
    assert ledger.spent().epsilon == 1.5


def test_a_budget_without_room_refuses_before_anything_is_drawn(open_ledger):
    ledger, sampler = open_ledger(1.4), Sampler(mollify(RECORDS, BASE, BOX), 3)
    with pytest.raises(BudgetExhausted, match="it never fits"):
        reserve(ledger, sampler)
    assert (sampler.left, ledger.spent().epsilon, ledger.history()) == (3, 0, [])


def test_a_key_draws_once_even_if_it_was_cut_off(open_ledger):
    ledger, law = open_ledger(), mollify(RECORDS, BASE, BOX)
    first, second = Sampler(law, 1), Sampler(law, 1)
    reservation = reserve(ledger, first)
    with pytest.raises(CheckUnfinished):
        reserve(ledger, second)
    ledger.settle(reservation, {})
    with pytest.raises(AlreadyChecked):
        reserve(ledger, second)
    assert ledger.spent().epsilon == 0.5


def test_delta_counts_too(open_ledger):
    """A hundred draws at δ cost less than by adding up, and need a budget with that δ."""
    law = mollify(RECORDS, BASE, Mollifier.symmetric(0.05))
    sampler = Sampler(law, 100, delta=1e-7)
    with pytest.raises(BudgetExhausted):
        reserve(open_ledger(delta=1e-8), sampler)
    ledger = open_ledger()
    reserve(ledger, sampler)
    assert 1 < sampler.event.epsilon <= ledger.spent().epsilon < 0.6 * 100 * 0.05


def test_draws_add_to_what_checks_spend_on_the_same_people(open_ledger):
    ledger, law = open_ledger(), mollify(RECORDS, BASE, BOX)
    check = Cost.claimed("discrete-laplace", Guarantee(1.0))
    ledger.reserve("check", [Charge(check, Clients(["a", "b"]))])
    reserve(ledger, Sampler(law, 4), "draws of c", Clients(["c"]))
    assert ledger.spent().epsilon == 2.0  # of c alone
    reserve(ledger, Sampler(law, 3), "draws of all")
    assert ledger.spent().epsilon == 3.5


def test_seeded_draws_are_not_booked_as_private(open_ledger):
    ledger = open_ledger()
    sampler = Sampler(mollify(RECORDS, BASE, BOX), 3, bits=SeededBits(1))
    with pytest.raises(ValueError, match="protect nobody"):
        reserve(ledger, sampler)


class Raises:
    """A weak learner that would tell what it saw."""

    def fit(self, features, target, model, records):
        raise RuntimeError(f"secret {target}")


def exemplars(ledger: Ledger, fit) -> None:
    """What a holder of data does, from its records to its draws."""
    sampler = Sampler(fit(), 2)
    reservation = reserve(ledger, sampler)
    ledger.settle(reservation, {"draws": sampler.draw(2).tolist()})


PLANE = np.array([[0.25, 7.5], [1.0, 2.0], [3.0, 4.0]])
MISTAKES = {
    "no data": (lambda: mollify([], BASE, BOX), "at least two records"),
    "no data, Algorithm 1": (lambda: mbde([], BASE, 1.0), "at least two records"),
    "no points": (lambda: mbde(PLANE[:0], GaussianBase(2), 1.0), "at least two records"),
    "one record": (lambda: mollify([2], BASE, BOX), "at least two records"),
    "one point": (lambda: mbde(PLANE[:1], GaussianBase(2), 1.0), "at least two records"),
    "a base with zeros": (
        lambda: mollify([0, 1], finite_base([1, 0, 1]), BOX),
        "give every symbol a positive mass",
    ),
    "epsilon of 0": (lambda: mollify([0, 1], BASE, Mollifier.symmetric(0.0)), "epsilon must be"),
    "epsilon below 0": (lambda: mbde([0, 1], BASE, -1.0), "epsilon must be"),
    "features that are not finite": (
        lambda: mollify([0, 1], FiniteBase(BASE.mass, np.array([[0.0], [np.nan], [1.0]])), BOX),
        "features must be finite",
    ),
    "points that are not finite": (
        lambda: mbde(np.where(PLANE > 7, np.inf, PLANE), GaussianBase(2), 1.0),
        "points must be finite",
    ),
    "a learner that raises": (
        lambda: mollify(RECORDS, BASE, BOX, learner=Raises()),
        "the weak learner failed",
    ),
    "a learner that raises, Algorithm 1": (
        lambda: mbde(RECORDS, BASE, 1.0, learner=Raises()),
        "the weak learner failed",
    ),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_explained_shows_no_record_and_spends_nothing(open_ledger, mistake):
    ledger = open_ledger()
    fit, why = MISTAKES[mistake]
    with pytest.raises((ValueError, WeakLearnerError), match=why) as caught:
        exemplars(ledger, fit)
    assert not any(value in str(caught.value) for value in ("secret", "0.25", "7.5"))
    assert (ledger.history(), ledger.spent().epsilon) == ([], 0)


def test_all_mass_on_one_symbol_is_no_mistake(open_ledger):
    ledger = open_ledger()
    exemplars(ledger, lambda: mollify(np.full(50, 1), BASE, BOX))
    assert ledger.spent().epsilon == 1.0
