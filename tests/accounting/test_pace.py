"""Checks in a window times epsilon, against the ledger that refuses what does not fit."""

import itertools
import re

import pytest

from flwr_kld.accounting import Budget, Charge, Clients, Cost, Ledger
from flwr_kld.accounting.pace import Pace, Turns
from flwr_kld.errors import BudgetExhausted
from flwr_kld.kernel import Guarantee

MONTH = Budget(epsilon=1.0, delta=1e-6, window_days=30)


@pytest.mark.parametrize(
    ("clients", "found"),
    [(4, Turns(buckets=31)), (50, Turns(buckets=31)), (10_000, Turns(clients=322))],
)
def test_recipe_budgets_hold_for_hospitals_and_for_phones(clients, found):
    rotation = Turns.among(clients, checks=31)
    assert rotation == found
    pace = Pace(31, 1.0, rotation.length(clients), MONTH)
    assert pace.fits
    assert pace.times == 1


def test_one_check_a_window_needs_no_rotation():
    assert Turns.among(4, checks=1) == Turns()


@pytest.mark.parametrize(("clients", "size"), [(10, 3), (9, 3), (10, 10), (4, 7)])
def test_a_rotation_asks_nobody_twice_for_as_long_as_is_said(ledger_at, tmp_path, clients, size):
    ledger = Ledger(ledger_at(tmp_path / "drift.db"))
    ledger.set_budget(MONTH)
    cost = Cost.claimed("discrete-laplace", Guarantee(1.0))
    turn = itertools.cycle(map(str, range(clients)))
    for done in itertools.count():
        cohort = Clients(sorted(itertools.islice(turn, min(size, clients))))
        try:
            ledger.reserve(str(done), [Charge(cost, cohort)], now=1e9 + done)
        except BudgetExhausted:
            break
    assert Turns(clients=size).length(clients) == done


@pytest.mark.parametrize(("epsilon", "checks"), [(1.0, 31), (0.3, 31), (0.05, 31), (0.01, 400)])
def test_what_is_affordable_is_what_the_ledger_lets_in(ledger_at, tmp_path, epsilon, checks):
    pace = Pace(checks, epsilon, 1, MONTH)
    ledger = Ledger(ledger_at(tmp_path / "drift.db"))
    ledger.set_budget(MONTH)
    cost = Cost.claimed("discrete-laplace", Guarantee(epsilon))
    done = 0
    try:
        for done in range(checks):
            ledger.reserve(str(done), [Charge(cost, Clients(["a"]))], now=1e9 + done)
        done = checks
    except BudgetExhausted:
        pass
    assert pace.affordable == done
    assert pace.fits == (done == checks)


def test_it_says_the_arithmetic_and_what_would_fit():
    pace = Pace(31, 1.0, 1, MONTH)
    assert str(pace) == (
        "31 checks in any 30 days, each person charged for 31 of them × ε 1 = 31; the budget has 1"
    )
    assert "room for 1 check in a window" in pace.advice
    assert "ε = 0.032 a check" in pace.advice
    assert Pace(31, 0.032, 1, MONTH).fits


@pytest.mark.parametrize("checks", [3, 6, 7, 35, 41, 97])
def test_what_it_advises_fits(checks):
    advice = Pace(checks, 1.0, 1, MONTH).advice
    epsilon, budget = (
        float(re.search(rf"{words} (\S+?)(?: |$)", advice)[1])
        for words in ("take ε =", "raise the budget to")
    )
    assert Pace(checks, epsilon, 1, MONTH).fits
    assert Pace(checks, 1.0, 1, Budget(budget, 1e-6, 30)).fits
