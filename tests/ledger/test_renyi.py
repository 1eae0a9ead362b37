"""The Rényi filter: an adversary that looks before it asks, exactly; and Gaussian releases."""

import math
from collections import defaultdict
from dataclasses import replace
from functools import lru_cache

import numpy as np
import pytest

from flwr_kld.kernel import Guarantee
from flwr_kld.ledger import Budget, Cost
from flwr_kld.ledger.composition import Spend, composed_epsilon, worst
from flwr_kld.trust.trusted import Trusted

UNIT = 0.1
SIZES = (1, 2, 5, 10)
COSTS = {size: Cost.claimed("randomised response", Guarantee(size / 10)) for size in SIZES}
ONE = np.zeros(1, dtype=int)


def needed(budget: Budget, *releases: tuple[Cost, int]) -> float:
    composed = worst([Spend(cost, ONE, times) for cost, times in releases], budget)
    return float(composed.epsilon)


def delta_of_adversary(budget: Budget, choose) -> float:
    """The exact delta at the budget's epsilon of answers by randomised response.

    `choose` names the next sizes by the loss so far, best first; it stops when none fits.
    """

    @lru_cache(None)
    def fits(times):
        asked = [(COSTS[size], n) for size, n in zip(SIZES, times, strict=True) if n]
        return needed(budget, *asked) <= budget.epsilon

    states, delta = {(0, (0,) * len(SIZES)): 1.0}, 0.0
    while states:
        following = defaultdict(float)
        for (loss, times), p in states.items():
            for size in choose(loss):
                more = tuple(n + (size == own) for n, own in zip(times, SIZES, strict=True))
                if fits(more):
                    up = 1 / (1 + math.exp(-size * UNIT))
                    following[loss + size, more] += p * up
                    following[loss - size, more] += p * (1 - up)
                    break
            else:
                delta += p * max(0.0, 1 - math.exp(budget.epsilon - loss * UNIT))
        states = following
    return delta


def hunter(loss: int) -> tuple[int, ...]:
    """Ask gently until the answers point one way, then bluntly."""
    return (10, 5, 2, 1) if loss >= 8 else (2, 1)


def timid(loss: int) -> tuple[int, ...]:
    """Ask bluntly first, and gently once the answers point one way."""
    return (1, 2, 5, 10) if loss > 5 else (10, 5, 2, 1)


@pytest.mark.parametrize("choose", [hunter, timid])
@pytest.mark.parametrize("composition", ["sum", "renyi"])
def test_who_looks_before_asking_gains_nothing(composition, choose):
    budget = Budget(2.0, 1e-2, composition=composition)
    assert delta_of_adversary(budget, choose) <= budget.delta


@pytest.mark.slow
def test_the_attack_works_where_schedules_must_be_fixed_in_advance():
    budget = Budget(2.0, 1e-2, composition="pld")
    assert delta_of_adversary(budget, hunter) > 1.02 * budget.delta


def test_many_small_releases_cost_less_than_their_sum():
    budget = Budget(4.0, 1e-6, composition="renyi")
    small = Cost.claimed("", Guarantee(0.01))
    assert needed(budget, (small, 1000)) < 4 < 1000 * 0.01


def test_each_number_that_a_record_moves_counts():
    """A record that changes its value moves two counts: it costs what two that move one do."""
    budget = Budget(40.0, 1e-6, composition="renyi")
    both = Trusted(0.5).cost()
    one = replace(both, shifts=both.shifts[:1])
    assert len(both.shifts) == 2
    assert needed(budget, (both, 3)) == pytest.approx(needed(budget, (one, 6)), rel=1e-9)


def test_the_order_is_the_budgets_alone():
    """Divergences add up: what two kinds cost together is what each costs beyond the first's."""
    budget = Budget(6.0, 1e-6, composition="renyi")
    first, second = Cost.gaussian(2.0, 1e-9, "record"), COSTS[5]
    both = needed(budget, (first, 3), (second, 4))
    taken = needed(budget, (first, 1)) - (needed(budget, (first, 2)) - needed(budget, (first, 1)))
    alone = needed(budget, (first, 3)) + needed(budget, (second, 4)) - taken
    assert both == pytest.approx(alone, rel=1e-12)


def test_what_is_lost_counts_into_half_of_delta():
    budget = Budget(8.0, 1e-6, composition="renyi")
    lossy = Cost.claimed("", Guarantee(0.1, 4e-7))
    assert needed(budget, (lossy, 1)) < 8 < needed(budget, (lossy, 2))


def test_a_budget_of_any_number_of_kinds_adds_up():
    budget = Budget(40.0, 1e-6, composition="renyi")
    kinds = [Cost.gaussian(5 + i, 1e-9, "record") for i in range(40)]
    some = [(kind, 1) for kind in kinds]
    alone = needed(budget, some[0])
    assert needed(budget, *some) > alone
    steps = [needed(budget, *some[: i + 1]) - needed(budget, *some[:i]) for i in (20, 39)]
    assert steps[0] / steps[1] == pytest.approx((5 + 39) ** 2 / (5 + 20) ** 2, rel=1e-6)


@pytest.mark.parametrize("noise", [0.4, 3.0, 50.0])
def test_gaussian_releases_are_composed_from_above(noise):
    cost = Cost.gaussian(noise, 1e-7, "client")
    for times in (1, 9):
        mu = math.sqrt(times) / noise
        found = composed_epsilon(((cost, times),), 1e-6)

        def delta(epsilon, mu=mu):
            def upper(x):
                return math.erfc(x / math.sqrt(2)) / 2

            return upper(epsilon / mu - mu / 2) - math.exp(epsilon) * upper(epsilon / mu + mu / 2)

        assert delta(found) <= 1e-6
        assert delta(found * (1 - 2e-4)) > 1e-6
    assert cost.epsilon > composed_epsilon(((cost, 1),), 1e-6)


def test_a_renyi_budget_needs_a_delta():
    with pytest.raises(ValueError, match="delta"):
        Budget(1.0, 0.0, composition="renyi")
