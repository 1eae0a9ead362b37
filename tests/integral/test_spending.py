"""Draws in the ledger: reserved before the first, once, in full; and mistakes spend nothing."""

import numpy as np
import pytest
from integral.laws import finite_base

from flwr_kld.integral import Mollifier, Sampler, mbde, mollify
from flwr_kld.kernel import Guarantee
from flwr_kld.kernel.law import SeededBits
from flwr_kld.ledger import (
    Budget,
    BudgetExhausted,
    Charge,
    Cost,
    Kind,
    Ledger,
)

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


def reserve(ledger: Ledger, sampler: Sampler, key: str = KEY, clients=("a",)):
    cost = sampler.event.cost(ledger.budget())
    return ledger.reserve(key, Charge(cost, clients), kind=Kind.DRAWS)


@pytest.mark.parametrize("protects", ["record", "client"])
@pytest.mark.parametrize("law", [mollify(RECORDS, BASE, BOX), mbde(RECORDS, BASE, 0.5)])
def test_draws_cost_every_budget_their_own_epsilon(open_ledger, law, protects):
    """No refusal for a client: they hide any change at all."""
    ledger = open_ledger(protects=protects)
    sampler = Sampler(law, 3)
    reservation = reserve(ledger, sampler)
    assert ledger.check(KEY).state == "reserved"
    drawn = sampler.draw(3)
    ledger.settle(reservation, {"schema": "draws 1", "draws": drawn.tolist()})
    (entry,) = ledger.history()
    assert (entry.kind, entry.state) == (Kind.DRAWS, "settled")
    assert entry.report["draws"] == drawn.tolist()
    assert entry.release.asked.mechanism == "integral box"
    assert ledger.spent().epsilon == pytest.approx(sampler.event.epsilon, abs=1e-9)
    assert ledger.spent().epsilon >= sampler.event.epsilon


def test_a_budget_without_room_refuses_before_anything_is_drawn(open_ledger):
    ledger, sampler = open_ledger(1.4), Sampler(mollify(RECORDS, BASE, BOX), 3)
    with pytest.raises(BudgetExhausted):
        reserve(ledger, sampler)
    assert (sampler.left, ledger.spent().epsilon, list(ledger.history())) == (3, 0, [])


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
    ledger.reserve("check", Charge(check, ["a", "b"]))
    reserve(ledger, Sampler(law, 4), "draws of c", ["c"])
    assert ledger.spent().epsilon == 2.0  # of c alone
    reserve(ledger, Sampler(law, 3), "draws of all", ["a", "b", "c"])
    assert ledger.spent().epsilon == 3.5


def test_seeded_draws_are_not_booked_as_private(open_ledger):
    ledger = open_ledger()
    sampler = Sampler(mollify(RECORDS, BASE, BOX), 3, bits=SeededBits(1))
    with pytest.raises(ValueError, match="nobody"):
        reserve(ledger, sampler)
