"""The most-charged person's spend, against a recomputation person by person."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ledger.books import pure

from examples import examples
from flwr_kld.common.errors import LedgerUnavailable
from flwr_kld.kernel import Guarantee
from flwr_kld.ledger import Budget, Cost
from flwr_kld.ledger.budget import UNBOUNDED
from flwr_kld.ledger.composition import Spend, composed_epsilon, worst
from flwr_kld.ledger.rows import pack, unpack
from flwr_kld.trust.calibration import calibrated_gaussian, calibrated_laplace

SUM = Budget(1.0, 1e-6, 30, composition="sum")
PLD = Budget(1.0, 1e-6, 30)
KINDS = [pure(0.25), pure(0.5), pure(0.125, delta=3e-7), pure(0.0625, delta=5e-7)]
CLIENTS = range(5)


def spend(cost, members=(0,)):
    return Spend(cost, np.array(sorted(members)))


def asked_of(client, spends):
    return [s for s in spends if client in s.members]


def added(spends, budget):
    epsilon, delta = sum(s.cost.epsilon for s in spends), sum(s.cost.delta for s in spends)
    return epsilon if delta <= budget.exact_delta else UNBOUNDED


@st.composite
def spends_in_window(draw, least=0, most=8):
    found = []
    for _ in range(draw(st.integers(least, most))):
        members = draw(st.sets(st.sampled_from(CLIENTS), min_size=1))
        found.append(spend(draw(st.sampled_from(KINDS)), members))
    return found


@settings(max_examples=examples(100))
@given(spends=spends_in_window())
def test_the_sum_is_that_of_the_most_charged_person(spends):
    truth = max(added(asked_of(person, spends), SUM) for person in CLIENTS)
    assert worst(spends, SUM).epsilon == truth


@settings(max_examples=examples(100))
@given(spends=spends_in_window(), new=spends_in_window(least=1, most=3))
def test_only_the_touched_count_for_a_check(spends, new):
    together = [*spends, *new]
    touched = [p for p in CLIENTS if asked_of(p, new)]
    truth = max(added(asked_of(p, together), SUM) for p in touched)
    assert worst(together, SUM, touched=np.array(touched)).epsilon == truth


@settings(max_examples=examples(100))
@given(spends=spends_in_window())
def test_with_distributions_it_is_the_tighter_bound_of_the_worst_person(spends):
    def needed(person):
        own = asked_of(person, spends)
        if not own:
            return 0.0
        counts = {cost: sum(s.cost is cost for s in own) for cost in KINDS}
        several = tuple((cost, n) for cost, n in counts.items() if n)
        sum_ = float(added(own, PLD))
        return min(sum_, composed_epsilon(several, 1e-6))

    truth = max(map(needed, CLIENTS))
    found = worst(spends, PLD)
    assert float(found.epsilon) == pytest.approx(truth, rel=1e-9, abs=2e-9)
    assert found.epsilon >= truth - 1e-15


def test_whoever_needs_no_more_than_enough_is_not_composed(monkeypatch):
    monkeypatch.setattr(
        "flwr_kld.ledger.composition.composed_epsilon", lambda *_: pytest.fail("composed")
    )
    spends = [spend(pure(0.25))] * 4
    assert worst(spends, PLD, at_least=Fraction(1)).epsilon == 1


def test_distributions_let_more_checks_in_than_sums():
    cost = Cost.of(calibrated_laplace(Guarantee(0.05)))
    spends = [spend(cost)] * 45
    assert worst(spends, SUM).epsilon == Fraction(9, 4)
    found = worst(spends, PLD)
    assert found.composition == "pld"
    assert found.epsilon < 1
    assert found.delta == PLD.exact_delta


def test_gaussian_releases_share_the_budgets_delta():
    cost = Cost.of(calibrated_gaussian(Guarantee(0.2, 1e-6)))
    assert worst([spend(cost)] * 2, SUM).epsilon == UNBOUNDED
    assert worst([spend(cost)] * 10, PLD).epsilon < 1


def test_a_pure_budget_adds_up_only():
    pure_budget = Budget(1.0, 0.0, 30)
    assert worst([spend(pure(0.25))] * 3, pure_budget).epsilon == Fraction(3, 4)
    assert worst([spend(pure(0.25, delta=1e-12))], pure_budget).epsilon == UNBOUNDED


def test_many_kinds_are_composed_by_their_guarantee_alone():
    """Thirty tables that differ and promise the same: one kind of thirty bare releases."""
    costs = [Cost.claimed(f"m{i}", Guarantee(0.05)) for i in range(30)]
    found = worst([spend(cost) for cost in costs], PLD)
    expected = composed_epsilon(((costs[0].bare(), 30),), 1e-6)
    assert float(found.epsilon) == pytest.approx(expected, abs=2e-9)
    many = [spend(pure(0.01 + i * 1e-4)) for i in range(30)]
    assert worst(many, PLD).composition == "sum"


@given(st.sets(st.integers(0, 2**32 - 1), min_size=1, max_size=50))
def test_members_survive_packing(members):
    assert unpack(pack(np.array(sorted(members), dtype=np.int64))).tolist() == sorted(members)


@pytest.mark.parametrize("damage", [b"", b"x", pack(np.arange(9))[:-2]])
def test_damaged_members_are_noticed(damage):
    with pytest.raises(LedgerUnavailable):
        unpack(damage)
