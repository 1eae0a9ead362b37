"""One check's life in the ledger: reserved, settled or failed, and told by the history."""

import math
from fractions import Fraction

import pytest
from ledger.books import DAY, REPORT, SILENCE, ask, pure, run, spent, tables
from ledger.conftest import NOW

from flwr_kld.ledger import Budget, BudgetExhausted, Charge, Kind, Ledger, LedgerError
from flwr_kld.ledger.entry import AlreadyChecked, Failure, FailureKind, Remembered

SMALL = Failure(FailureKind.COHORT, "3 clients are connected and 5 are needed")


def test_history_tells_what_was_asked_delivered_and_reported(ledger):
    run(ledger, "monday", ask(0.25, "a", "b"), delivered=pure(0.2))
    run(ledger, "tuesday", ask(0.125), NOW + DAY)
    first, second = ledger.history()
    assert (first.number, first.key, first.state, first.report) == (1, "monday", "settled", REPORT)
    release = first.release
    assert (release.asked.epsilon, release.delivered.epsilon) == (Fraction(1, 4), Fraction(1, 5))
    assert release.clients == 2
    assert second.release.delivered is None
    assert list(ledger.history("another")) == []


def test_a_settled_key_gives_its_report_and_spends_once(ledger):
    run(ledger, "monday", ask(0.25))
    for _ in range(3):
        with pytest.raises(AlreadyChecked) as caught:
            ledger.reserve("monday", ask(0.25), now=NOW + DAY)
        assert caught.value.entry.report == REPORT
    assert spent(ledger) == 0.25


@pytest.mark.parametrize("now", [math.inf, -math.inf, math.nan, 1e30, "tomorrow"])
def test_a_time_that_no_clock_shows_is_refused_and_changes_nothing(ledger, now):
    with pytest.raises(ValueError, match="now"):
        ledger.reserve("monday", ask(0.25), now=now)
    assert list(ledger.history()) == []
    run(ledger, "monday", ask(0.25))


def test_a_kind_may_be_its_text_and_no_other(ledger):
    ledger.reserve("monday", ask(0.25), kind="draws", now=NOW)
    ledger.refuse("tuesday", SMALL, kind="round", now=NOW)
    assert [entry.kind for entry in ledger.history()] == [Kind.DRAWS, Kind.ROUND]
    assert ledger.count_before(9, kinds=["draws"]) == 1
    for bogus in (
        lambda: ledger.reserve("wednesday", ask(0.25), kind="checks", now=NOW),
        lambda: ledger.refuse("wednesday", SMALL, kind="checks", now=NOW),
        lambda: ledger.count_before(9, kinds=["checks"]),
        lambda: Failure("checks", "too few"),
    ):
        with pytest.raises(ValueError, match="checks"):
            bogus()
    assert len(list(ledger.history())) == 2


@pytest.mark.parametrize("close", ["settle", "fail"])
def test_a_check_is_closed_once(ledger, close):
    reservation = ledger.reserve("monday", ask(0.25), now=NOW)
    ledger.settle(reservation, REPORT, now=NOW)
    with pytest.raises(LedgerError, match="open"):
        getattr(ledger, close)(reservation, REPORT if close == "settle" else SILENCE, now=NOW)
    assert spent(ledger) == 0.25


def test_what_was_delivered_counts_whether_more_or_less(ledger):
    run(ledger, "less", ask(0.5), delivered=pure(0.375))
    assert spent(ledger) == 0.375
    run(ledger, "more", ask(0.125), delivered=pure(2.0))
    assert spent(ledger) == 2.375
    with pytest.raises(BudgetExhausted):
        ledger.reserve("next", ask(0.001), now=NOW)


def test_a_settlement_is_all_or_nothing(ledger):
    reservation = ledger.reserve("monday", ask(0.5), now=NOW)
    with pytest.raises(TypeError):
        ledger.settle(reservation, {"no": object()}, delivered=pure(0.1), now=NOW)
    with pytest.raises(ValueError, match="client"):
        ledger.settle(reservation, REPORT, delivered=pure(0.1, protects="client"), now=NOW)
    assert (ledger.check("monday").state, spent(ledger)) == ("reserved", 0.5)


def test_a_stale_reservation_closes_nobody_elses_check(ledger):
    stale = ledger.reserve("night", ask(0.125), now=NOW)
    ledger.fail(stale, SILENCE, now=NOW)
    open_since = ledger.reserve("day", ask(0.125), now=NOW)
    with pytest.raises(LedgerError, match="open"):
        ledger.fail(stale, SILENCE, now=NOW)
    with pytest.raises(LedgerError, match="open"):
        ledger.settle(stale, REPORT, delivered=pure(0.01), now=NOW)
    assert ledger.check("day").state == "reserved"
    ledger.settle(open_since, REPORT, now=NOW)
    assert ledger.reserve("last", ask(0.125), now=NOW).number > open_since.number > stale.number


NAN = float("nan")


@pytest.mark.parametrize("number", [NAN, float("inf"), -float("inf")])
def test_what_json_does_not_hold_is_not_stored(ledger, number):
    """A report was paid for, and is kept without it; a state that somebody computes with is not."""
    reservation = ledger.reserve("monday", ask(0.25), now=NOW)
    with pytest.raises(ValueError, match="NaN"):
        ledger.settle(reservation, REPORT, states=[Remembered("a", number)], now=NOW)
    with pytest.raises(ValueError, match="'a'"):
        ledger.store_state(Remembered("a", {"sum": number}), now=NOW)
    assert (ledger.check("monday").state, ledger.state("a"), spent(ledger)) == (
        "reserved", None, 0.25,
    )  # fmt: skip
    ledger.settle(reservation, {"estimate": [0.1, number]}, now=NOW)
    with tables(ledger).reading() as connection:
        text = connection.exec_driver_sql("SELECT report FROM checks").scalar()
    assert text == '{"estimate": [0.1, null]}'
    assert ledger.check("monday").report == {"estimate": [0.1, None]}


@pytest.mark.parametrize("parts", [3, 7, 11, 31])
def test_a_budget_has_room_for_as_many_equal_parts_as_it_was_cut_into(ledger, parts):
    """Rounded up one by one, three thirds were more than one."""
    ledger.set_budget(Budget(1.0, 1e-6, 30, composition="sum"), now=NOW)
    for part in range(parts):
        charge = Charge(pure(1 / parts, delta=1e-6 / parts), ["a"])
        ledger.settle(ledger.reserve(f"{part}", charge, now=NOW), REPORT, now=NOW)
    told = ledger.spent(now=NOW)
    assert (told.epsilon, told.delta, told.left) == (1.0, 1e-6, 0.0)
    with pytest.raises(BudgetExhausted):
        ledger.reserve("more", ask(1e-9, "a"), now=NOW)


@pytest.mark.parametrize(("budget", "of_each"), [(1.0, 1 / 3), (1 / 3, 1 / 9), (0.3, 0.1)])
@pytest.mark.parametrize("composition", ["sum", "pld"])
def test_three_thirds_of_a_budget_fit_and_not_a_hair_more(url, budget, of_each, composition):
    """Each time in a ledger that is opened anew, from what the file has of budget and spends."""
    Ledger(url).set_budget(Budget(budget, 0.0, 30, composition=composition), now=NOW)
    for night in range(3):
        assert Ledger(url).budget() == Budget(budget, 0.0, 30, composition=composition)
        held = Ledger(url).reserve(f"{night}", ask(of_each, "a"), now=NOW)
        Ledger(url).settle(held, REPORT, now=NOW)
    spent = Ledger(url).spent(now=NOW)
    assert (spent.epsilon, spent.left) == (budget, 0.0)
    with pytest.raises(BudgetExhausted):
        Ledger(url).reserve("more", ask(1e-15, "a"), now=NOW)
