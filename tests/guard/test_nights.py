"""A standing session costs once what all its nights cost together, and not less."""

from dataclasses import replace
from fractions import Fraction

import pytest
from guard.files import guard_file, period_of, question
from session_nights import a_night

from flwr_kld.common.errors import QueryRefused
from flwr_kld.guard import verify
from flwr_kld.guard.guard import Guard
from flwr_kld.guard.receipts import Claim, Receipts
from flwr_kld.secure_sums import Identity

DAY = 86400
LIMITS = period_of(30 * DAY, epsilon=10, delta=1)


def night(number, session="s", epsilon=6, account="0", until=0):
    about = (f"{session}{number}", account, "r", f"p{number}", "none", "trusted")
    return Claim(
        *about, Fraction(epsilon), Fraction(0), "record", 0, until, session=session, night=number
    )


def check(name, epsilon):
    return replace(night(0, "", epsilon), check=name)


@pytest.fixture
def file(tmp_path):
    return Receipts(tmp_path / "receipts.db", Identity.generate())


def test_all_nights_of_a_session_cost_once(file, tmp_path):
    for number in range(1, 366):
        file.reserve(night(number), number * DAY, LIMITS)
    receipts = verify(tmp_path / "receipts.db").receipts
    assert [r.night for r in receipts] == [*range(1, 366)]
    assert {r.session for r in receipts} == {"s"}


def test_two_sessions_do_not_go_for_the_price_of_one(file):
    file.reserve(night(1), 0.0, LIMITS)
    for session in "tu":
        with pytest.raises(QueryRefused, match="left: 4"):
            file.reserve(night(1, session), DAY, LIMITS)
    file.reserve(night(1, "t", epsilon=4), DAY, LIMITS)
    file.reserve(night(2, "t", epsilon=4), DAY, LIMITS)
    file.reserve(night(2), DAY, LIMITS)


def test_checks_and_a_session_add_up_whichever_comes_first(file):
    file.reserve(check("a", 4), 0.0, LIMITS)
    file.reserve(night(1), 0.0, LIMITS)
    file.reserve(night(2), 0.0, LIMITS)
    with pytest.raises(QueryRefused, match="left: 0"):
        file.reserve(check("b", 1), 0.0, LIMITS)


def test_checks_without_a_session_are_not_one(file):
    file.reserve(check("a", 4), 0.0, LIMITS)
    file.reserve(check("b", 4), 0.0, LIMITS)
    with pytest.raises(QueryRefused, match="left: 2"):
        file.reserve(check("c", 4), 0.0, LIMITS)


def test_a_window_that_holds_any_night_is_charged_for_all(file):
    """The first night is over for long, and the numbers of the last still tell of all."""
    file.reserve(night(1), 0.0, LIMITS)
    file.reserve(night(2), 29 * DAY, LIMITS)
    with pytest.raises(QueryRefused, match="left: 4"):
        file.reserve(check("a", 5), 58 * DAY, LIMITS)
    file.reserve(check("a", 5), 60 * DAY, LIMITS)


def test_what_may_still_be_released_is_charged(file):
    """A session until its end, as its other nights may be released without asking this client."""
    file.reserve(night(1, until=100 * DAY), 0.0, LIMITS)
    with pytest.raises(QueryRefused, match="left: 4"):
        file.reserve(check("a", 5), 130 * DAY, LIMITS)
    file.reserve(replace(check("a", 5), until=140 * DAY), 130 * DAY + 1, LIMITS)
    with pytest.raises(QueryRefused, match="left: 5"):
        file.reserve(check("b", 6), 170 * DAY, LIMITS)
    file.reserve(check("b", 6), 170 * DAY + 1, LIMITS)


def test_a_night_that_comes_after_a_pause_has_to_fit_again(file):
    file.reserve(night(1), 0.0, LIMITS)
    file.reserve(check("a", 5), 40 * DAY, LIMITS)
    with pytest.raises(QueryRefused, match="left: 5"):
        file.reserve(night(2), 41 * DAY, LIMITS)
    file.reserve(night(2), 71 * DAY, LIMITS)


@pytest.mark.parametrize("number", [1, 2, 3])
def test_nights_only_go_on(file, number):
    for one in (2, 3):
        file.reserve(night(one), 0.0, LIMITS)
    for again in (f"s{number}", "another check"):
        with pytest.raises(QueryRefused, match="answered"):
            file.reserve(replace(night(number), check=again), 90.0 * DAY, LIMITS)
    file.reserve(night(5), 0.0, LIMITS)
    file.reserve(night(number, account="1"), 0.0, LIMITS)


def test_to_look_for_the_last_night_spends_nothing(file, tmp_path):
    assert file.last_night(night(1), 0.0, LIMITS) == 0
    file.reserve(night(3), 0.0, LIMITS)
    before = verify(tmp_path / "receipts.db")
    assert file.last_night(night(4), 0.0, LIMITS) == 3
    assert file.last_night(night(4, account="1"), 0.0, LIMITS) == 0
    with pytest.raises(QueryRefused, match="left"):
        file.last_night(night(1, "t"), 0.0, LIMITS)
    assert verify(tmp_path / "receipts.db") == before


# ------------------------------------------------------------------------- by terms


def asked(number, session="s", **changes):
    own = {"epsilon": 1.0, "delta": 1e-6, "night": a_night(session, number, 9, 2), **changes}
    return question(f"{session}-{number}", **own)


@pytest.fixture
def guard(tmp_path):
    file = guard_file(tmp_path, ("max_epsilon = 3.0", "max_epsilon = 1.5"))
    return Guard.from_file(file, clock=lambda: 5000.0)


def test_a_session_is_admitted_by_its_total(guard):
    for number in range(1, 10):
        assert guard.last_night(asked(number), "0") == number - 1
        receipt = guard.admit(replace(asked(number), asked=10 + number), "0")
        assert (receipt.session, receipt.night) == (asked(1).session, number)
        assert receipt.epsilon == 1
    with pytest.raises(QueryRefused, match="limit"):
        guard.last_night(asked(1, "t", epsilon=1.1), "0")


LIES = {
    "another session": {"session": "t"},
    "other cells": {"cells": [5]},
    "another plan": {"plan": "a" * 64},
    "more nights": {"night": a_night("s", 3, 10, 2)},
    "more moves": {"night": a_night("s", 3, 9, 4)},
    "less epsilon": {"epsilon": 0.6},
    "no session": {"night": None},
}


@pytest.mark.parametrize("lie", LIES)
def test_what_is_not_the_session_that_was_paid_for_is_charged(guard, lie):
    guard.admit(asked(1), "0")
    guard.admit(asked(2), "0")
    for ask in (guard.last_night, guard.admit):
        with pytest.raises(QueryRefused, match=r"left: 0\.5"):
            ask(asked(3, **LIES[lie]), "0")
    guard.admit(asked(3), "0")
