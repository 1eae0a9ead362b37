"""A standing session is charged once in every window that holds one of its nights."""

from fractions import Fraction

import pytest
from ledger.books import DAY, REPORT, ask, run, spent
from ledger.conftest import NOW

from flwr_kld.ledger import BudgetExhausted, Kind, LedgerError
from flwr_kld.ledger.entry import Failure, FailureKind
from flwr_kld.ledger.read_only import LedgerView

SESSION = "5e55"


def night(ledger, number, *names, epsilon=0.5, session=SESSION, population="default"):
    """Reserve and settle a night."""
    reserved = ledger.reserve(
        f"{session} {number}",
        ask(epsilon, *names),
        session=session,
        population=population,
        now=NOW + number * DAY,
    )
    ledger.settle(reserved, REPORT, now=NOW + number * DAY)


def test_many_nights_cost_what_one_costs(ledger):
    for number in range(40):
        night(ledger, number, "a", "b")
        assert spent(ledger, NOW + number * DAY) == 0.5


def test_the_charge_lasts_until_the_window_after_the_last_night(ledger):
    window = ledger.budget().window_days
    for number in (0, 25):
        night(ledger, number)
    assert spent(ledger, NOW + 25 * DAY + window * DAY - 1) == 0.5
    assert spent(ledger, NOW + 25 * DAY + window * DAY + 2) == 0


def test_a_clock_that_runs_backwards_charges_nothing_twice_and_forgets_nothing(ledger):
    for number in (9, 0, 3):
        night(ledger, number)
    for number in (0, 9, 9 + ledger.budget().window_days - 1):
        assert spent(ledger, NOW + number * DAY) == 0.5


def test_two_sessions_are_two_charges(ledger):
    night(ledger, 0)
    night(ledger, 0, session="other")
    assert spent(ledger, NOW) == 1.0


def test_whoever_joins_late_is_charged_and_whoever_is_silent_stays_charged(ledger):
    night(ledger, 0, "a", "b")
    night(ledger, 29, "b", "c")
    # All of them are in the window of day 40, by the night of day 29.
    for name in "abc":
        with pytest.raises(BudgetExhausted):
            ledger.reserve(f"{name} alone", ask(0.7, name), now=NOW + 40 * DAY)
    run(ledger, "another", ask(0.7, "d"), NOW + 40 * DAY)


def test_a_session_that_does_not_fit_is_refused_and_changes_nothing(ledger):
    run(ledger, "monday", ask(0.75))
    with pytest.raises(BudgetExhausted):
        night(ledger, 0)
    assert [entry.key for entry in ledger.history()] == ["monday"]
    assert spent(ledger, NOW) == 0.75


def test_a_session_that_began_goes_on_beside_a_full_budget(ledger):
    night(ledger, 0)
    run(ledger, "rest", ask(0.5), NOW + DAY)
    for number in (2, 3, 4):
        night(ledger, number)
    assert spent(ledger, NOW + 4 * DAY) == 1.0


@pytest.mark.parametrize(
    "charge",
    [ask(0.1, "a"), ask(0.75, "a")],
    ids=["cheaper", "dearer"],
)
def test_a_night_at_another_price_takes_nothing_back(ledger, charge):
    """Its charge would stand in place of the first nights', and these would be forgotten."""
    night(ledger, 0, "a", "b")
    with pytest.raises(ValueError, match=SESSION):
        ledger.reserve("next", charge, session=SESSION, now=NOW + DAY)
    with pytest.raises(BudgetExhausted):
        ledger.reserve("b alone", ask(0.7, "b"), now=NOW + DAY)
    night(ledger, 2, "a")
    assert spent(ledger, NOW + 2 * DAY) == 0.5


@pytest.mark.parametrize("settled", [True, False])
def test_a_session_never_takes_the_place_of_what_asked(ledger, settled):
    held = ledger.reserve(SESSION, ask(0.75), now=NOW)
    if settled:
        ledger.settle(held, REPORT, now=NOW)
    with pytest.raises(LedgerError, match=SESSION):
        night(ledger, 0, epsilon=0.1)
    (entry,) = ledger.history()
    assert (entry.kind, entry.report) == (Kind.CHECK, REPORT if settled else None)
    assert spent(ledger, NOW) == 0.75


def test_a_session_takes_a_key_that_was_refused_and_not_that_of_its_night(ledger):
    ledger.refuse(SESSION, Failure(FailureKind.COHORT, "nobody is connected"), now=NOW)
    night(ledger, 0)
    assert spent(ledger, NOW) == 0.5
    with pytest.raises(ValueError, match="key"):
        ledger.reserve("one", ask(0.1), session="one", now=NOW)


def test_history_has_the_nights_and_one_line_for_what_they_cost(ledger):
    for number in range(3):
        night(ledger, number)
    nights = [entry for entry in ledger.history() if entry.kind is Kind.CHECK]
    (session,) = [entry for entry in ledger.history() if entry.kind is Kind.SESSION]
    assert (session.key, session.state, session.report) == (SESSION, "settled", None)
    assert session.release.asked.epsilon == Fraction(1, 2)
    assert [entry.report for entry in nights] == [REPORT] * 3
    assert [entry.release for entry in nights] == [None] * 3


def test_a_night_that_fails_stays_in_the_books_and_costs_nothing_more(ledger):
    night(ledger, 0)
    reserved = ledger.reserve("lost", ask(0.5), session=SESSION, now=NOW + DAY)
    ledger.fail(reserved, Failure(FailureKind.UNANSWERED, "nobody answered"), now=NOW + DAY)
    assert spent(ledger, NOW + DAY) == 0.5
    night(ledger, 2)


def test_a_page_says_when_a_session_leaves_after_more_nights_than_it_lists(ledger, url):
    """Nights cost nothing by themselves, and leave the window before the session does."""
    for number in range(25):
        night(ledger, number)
    ((leaves, entry),) = LedgerView(url).leaving("default", 2)
    assert entry.key == SESSION
    assert leaves.timestamp() == NOW + 24 * DAY + ledger.budget().seconds + 1
