"""Checks in a window times epsilon, against the ledger that refuses what does not fit."""

import re

import numpy as np
import pytest
from ledger.books import DAY, insert_checks, pure, tables

from flwr_kld.common.errors import BudgetExhausted
from flwr_kld.kernel import Guarantee
from flwr_kld.ledger import Budget, Charge, Cost, Ledger
from flwr_kld.ledger.pace import Pace
from flwr_kld.trust.calibration import calibrated_gaussian

MONTH = Budget(epsilon=1.0, delta=1e-6, window_days=30)


def lets_another_in(ledger, cost, before):
    """Whether a ledger lets in one more check of a client beside so many."""
    ledger.set_budget(MONTH, now=1e9)
    if before:
        with tables(ledger).writing() as connection:
            insert_checks(connection, [np.zeros(1, int)] * before, cost, since=10**9 - DAY)
    try:
        ledger.reserve("another", Charge(cost, ["a"]), now=1e9)
    except BudgetExhausted:
        return False
    return True


def held_against_the_ledger(pace, ledger_at, folder):
    """Whether what is affordable is let in, and one check more is not."""
    last, more = (
        before < 0 or lets_another_in(Ledger(ledger_at(folder / f"{before}.db")), pace.cost, before)
        for before in (pace.affordable - 1, pace.affordable)
    )
    return last and pace.fits == (pace.affordable == pace.checks) and (pace.fits or not more)


@pytest.mark.parametrize(("epsilon", "checks"), [(1.0, 31), (0.3, 31), (0.05, 31), (0.01, 400)])
def test_what_is_affordable_is_what_the_ledger_lets_in(ledger_at, tmp_path, epsilon, checks):
    pace = Pace(checks, pure(epsilon), 1, MONTH)
    assert held_against_the_ledger(pace, ledger_at, tmp_path)


@pytest.mark.parametrize(
    "cost",
    [
        pure(0.1, delta=3e-7),
        Cost.of(calibrated_gaussian(Guarantee(0.1, 1e-6))),
    ],
    ids=["delta alone", "its noise is known"],
)
def test_it_fits_if_the_ledger_lets_all_in_whatever_checks_hide(ledger_at, tmp_path, cost):
    assert held_against_the_ledger(Pace(10, cost, 1, MONTH), ledger_at, tmp_path)


def test_where_delta_is_short_no_epsilon_is_advised():
    advice = Pace(10, pure(0.1, delta=3e-7), 1, MONTH).advice
    assert advice.endswith("raise the budget's delta to 3e-06")
    assert "take ε" not in advice


def test_it_says_the_arithmetic_and_what_would_fit():
    pace = Pace(31, pure(1.0), 1, MONTH)
    assert str(pace) == (
        "31 checks in any 30 days, each person charged for 31 of them × ε 1 = 31; the budget has 1"
    )
    assert "room for 1 check in a window" in pace.advice
    assert "ε = 0.032 a check" in pace.advice
    assert Pace(31, pure(0.032), 1, MONTH).fits


@pytest.mark.parametrize("checks", [3, 6, 7, 35, 41, 97])
def test_what_it_advises_fits(checks):
    advice = Pace(checks, pure(1.0), 1, MONTH).advice
    epsilon, budget = (
        float(re.search(rf"{words} (\S+?)(?: |$)", advice)[1])
        for words in ("take ε =", "raise the budget to")
    )
    assert Pace(checks, pure(epsilon), 1, MONTH).fits
    assert Pace(checks, pure(1.0), 1, Budget(budget, 1e-6, 30)).fits


@pytest.mark.parametrize(("epsilon", "checks"), [(0.032, 31), (1.0, 31), (0.5, 31), (0.3, 2)])
def test_an_equation_that_it_shows_is_one(epsilon, checks):
    """Costs compose to less than their sum where that is needed to fit; then it writes no `=`."""
    said = str(Pace(checks, pure(epsilon), 1, MONTH))
    times, each, total = map(
        float, re.search(r"for (\d+) of them .*?ε (\S+) .*?(\d\S*);", said).groups()
    )
    assert (" = " in said) == (total == float(f"{times * each:.3g}"))
