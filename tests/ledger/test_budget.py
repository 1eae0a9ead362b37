"""What a budget lets in: exact, by window, and by whom and what is asked."""

from datetime import UTC, datetime

import pytest
from ledger.books import DAY, REPORT, ask, pure, run, spent, tables
from ledger.conftest import NOW

from flwr_kld.common.errors import NoBudget
from flwr_kld.ledger import (
    Budget,
    BudgetExhausted,
    Charge,
)


def test_the_budget_is_exact_and_a_refusal_leaves_no_trace(ledger):
    for i in range(10):
        run(ledger, f"{i}", ask(0.1, "a"))
    with pytest.raises(BudgetExhausted, match=r"1\.000000001"):
        ledger.reserve("next", ask(1e-9, "a", "new"), now=NOW)
    assert ledger.check("next") is None
    assert list(ledger.last_asked(["new"])) == [0]
    run(ledger, "next", ask(1.0, "new"))


@pytest.mark.parametrize("days", [5e-324, 1e-9, 1e-5])
def test_the_shortest_window_is_a_second(ledger, days):
    """One of none could be written and not be read again."""
    ledger.set_budget(Budget(1.0, window_days=days))
    assert ledger.budget().seconds == 1


def test_a_refusal_says_what_is_short_and_when_it_frees(ledger):
    run(ledger, "1", ask(0.5, "a", "b"))
    run(ledger, "2", ask(0.3, "b", "c"), NOW + 10 * DAY)
    with pytest.raises(BudgetExhausted) as caught:
        ledger.reserve("3", ask(0.4, "b"), now=NOW + 20 * DAY)
    frees = NOW + 30 * DAY + 1
    assert ledger.spent(now=NOW + 20 * DAY).frees_at == datetime.fromtimestamp(frees, UTC)
    assert caught.value.left == pytest.approx(0.2)
    assert caught.value.frees_at == datetime.fromtimestamp(frees, UTC)
    assert str(caught.value) == (
        "the budget of 'default' (epsilon 1, delta 1e-06 in 30 days) has no room: of those whom "
        "this check asks, the most-charged has epsilon 0.2 left and would come to 1.2; it fits "
        "from 2033-06-17 03:33:21 UTC on"
    )
    with pytest.raises(BudgetExhausted):
        ledger.reserve("3", ask(0.4, "b"), now=frees - 1)
    run(ledger, "3", ask(0.4, "b"), frees)


def test_a_check_dearer_than_the_budget_never_fits(ledger):
    run(ledger, "1", ask(0.5))
    with pytest.raises(BudgetExhausted) as caught:
        ledger.reserve("2", ask(1.5), now=NOW)
    assert caught.value.frees_at is None


def test_a_spend_counts_for_its_whole_window_and_no_longer(ledger):
    run(ledger, "1", ask(1.0))
    assert ledger.spent(now=NOW).frees_at == datetime.fromtimestamp(NOW + 30 * DAY + 1, UTC)
    with pytest.raises(BudgetExhausted):
        ledger.reserve("2", ask(0.1), now=NOW + 30 * DAY)
    assert spent(ledger, NOW + 30 * DAY) == 1
    run(ledger, "2", ask(1.0), NOW + 30 * DAY + 1)
    assert ledger.spent(now=NOW + 90 * DAY).frees_at is None
    assert spent(ledger, NOW + 90 * DAY) == 0


def test_a_time_seen_at_a_refusal_is_kept(ledger):
    run(ledger, "1", ask(1.0, "a"))
    with pytest.raises(BudgetExhausted):
        ledger.reserve("2", ask(0.1, "a"), now=NOW + 5 * DAY)
    ledger.reserve("2", ask(0.1, "b"), now=NOW)
    assert ledger.check("2").started == datetime.fromtimestamp(NOW + 5 * DAY, UTC)


def test_populations_have_budgets_of_their_own(ledger):
    with pytest.raises(NoBudget):
        ledger.reserve("1", ask(0.1), population="phones", now=NOW)
    ledger.set_budget(Budget(0.5, 0.0, 7, population="phones"), now=NOW)
    run(ledger, "1", ask(1.0))
    ledger.reserve("1", ask(0.5), population="phones", now=NOW)
    assert ledger.spent("phones", now=NOW).left == 0
    assert ledger.budget("phones") == Budget(0.5, 0.0, 7, population="phones")


def test_a_smaller_budget_holds_from_the_next_check_on(ledger):
    run(ledger, "1", ask(0.8, "a"))
    ledger.set_budget(Budget(0.5, 1e-6, 30, composition="sum"), now=NOW)
    assert ledger.spent(now=NOW).left == 0
    with pytest.raises(BudgetExhausted):
        ledger.reserve("2", ask(0.1, "a"), now=NOW)
    run(ledger, "2", ask(0.5, "b"))  # somebody else's excess is not this check's


def test_setting_the_same_budget_again_changes_nothing(ledger):
    def rows():
        with tables(ledger).reading() as connection:
            return connection.exec_driver_sql("SELECT count(*) FROM budgets").scalar()

    awkward = Budget(1 / 3, 1e-7 / 3, 0.1)
    for _ in range(3):
        ledger.set_budget(awkward, now=NOW)
    assert rows() == 2
    assert ledger.budget().epsilon == 1 / 3
    ledger.set_budget(Budget(1 / 3, 1e-7 / 3, 0.1, composition="sum"), now=NOW)
    assert rows() == 3


def test_a_budget_takes_only_releases_that_protect_the_same(ledger):
    whole = pure(0.1, protects="client")
    with pytest.raises(ValueError, match="each record"):
        ledger.reserve("1", Charge(whole, ["a"]), now=NOW)
    ledger.set_budget(Budget(1.0, 1e-6, 30, population="whole", protects="client"), now=NOW)
    assert ledger.budget("whole").protects == "client"
    with pytest.raises(ValueError, match="each client"):
        ledger.reserve("1", ask(0.1), population="whole", now=NOW)
    ledger.reserve("1", Charge(whole, ["a"]), population="whole", now=NOW)


def test_a_budget_that_the_window_cannot_be_charged_to_is_not_put_in_force(ledger):
    """Or nothing could be reserved or shown until the window is over."""
    run(ledger, "monday", ask(0.1, "a"))
    run(ledger, "tuesday", ask(0.1, "b"), NOW + DAY)
    before, whole = ledger.budget(), Budget(1.0, 0.0, 30, protects="client")
    frees = datetime.fromtimestamp(NOW + 31 * DAY + 1, UTC)
    with pytest.raises(ValueError, match=f"{frees:%Y-%m-%d %H:%M:%S}"):
        ledger.set_budget(whole, now=frees.timestamp() - 1)
    assert ledger.budget() == before
    ledger.set_budget(whole, now=frees.timestamp())
    # A longer window takes these checks in again.
    with pytest.raises(ValueError, match="'tuesday'"):
        ledger.set_budget(Budget(1.0, 1e-6, 60, protects="client"))


def test_what_was_delivered_protects_what_the_budget_promises(ledger):
    reservation = ledger.reserve("1", ask(0.1), now=NOW)
    with pytest.raises(ValueError, match="client"):
        ledger.settle(reservation, REPORT, delivered=pure(0.1, protects="client"), now=NOW)
    assert ledger.check("1").state == "reserved"
    assert ledger.spent(now=NOW).epsilon == 0.1


def test_a_check_needs_a_key_and_a_charge(ledger):
    for key in ("", 1, b"1"):
        with pytest.raises(ValueError, match="key"):
            ledger.reserve(key, ask(0.1), now=NOW)
    with pytest.raises(ValueError, match="Charge"):
        ledger.reserve("1", pure(0.1), now=NOW)
    assert list(ledger.history()) == []


@pytest.mark.parametrize(
    "charge",
    [
        lambda: Charge(0.1, ["a"]),
        lambda: Charge(pure(0.1), None),
        lambda: Charge(pure(0.1), "a"),
        lambda: Charge(pure(0.1), [1]),
        lambda: Charge(pure(0.1), []),
        lambda: Charge(pure(0.1), ["a", "a"]),
    ],
)
def test_a_charge_is_a_cost_to_somebody(charge):
    with pytest.raises(ValueError, match=r"must|once"):
        charge()
