"""Whose turn it is, over restarts; and what monitors remember."""

import pytest
from ledger.books import DAY, REPORT, SILENCE, ask
from ledger.conftest import NOW

from flwr_kld.common.errors import StateChanged
from flwr_kld.ledger import BudgetExhausted, Ledger
from flwr_kld.ledger.entry import Remembered

CLIENTS = [f"c{i}" for i in range(10)]


def test_whoever_was_asked_longest_ago_comes_first_after_every_restart(url, ledger):
    turns = []
    for check in range(8):
        again = Ledger(url)
        last = again.last_asked(CLIENTS)
        cohort = [CLIENTS[i] for i in sorted(range(10), key=lambda i: last[i])[:3]]
        again.reserve(f"{check}", ask(0.1, *cohort), now=NOW + check * DAY)
        turns.append(cohort)
    assert turns[:4] == [CLIENTS[:3], CLIENTS[3:6], CLIENTS[6:9], [CLIENTS[9], *CLIENTS[:2]]]
    asked = [sum(client in turn for turn in turns) for client in CLIENTS]
    assert max(asked) - min(asked) == 1
    assert ledger.spent(now=NOW + 8 * DAY).epsilon == pytest.approx(0.3)


def test_clients_that_were_never_asked_are_known_by_no_check(ledger):
    assert ledger.last_asked(["a", "b"]).tolist() == [0, 0]
    assert ledger.last_asked([]).tolist() == []
    ledger.reserve("1", ask(0.1, "b"), now=NOW)
    ledger.reserve("2", ask(0.1, "c", "d"), now=NOW)
    assert ledger.last_asked(["a", "b", "d"]).tolist() == [0, 1, 2]
    assert ledger.last_asked(["b"], population="other").tolist() == [0]


def test_a_refused_check_asked_nobody_and_a_failed_one_did(ledger):
    with pytest.raises(BudgetExhausted):
        ledger.reserve("1", ask(2.0, "a"), now=NOW)
    assert ledger.last_asked(["a"]).tolist() == [0]
    names = [f"n{i}" for i in range(20)]
    ledger.reserve("1", ask(0.1, "a"), now=NOW)
    ledger.fail(ledger.reserve("2", ask(0.1, *names), now=NOW), SILENCE, now=NOW)
    assert ledger.last_asked(["n19", "a", "n0", "n19"]).tolist() == [2, 1, 2, 2]
    ledger.reserve("3", ask(0.1, "n19"), now=NOW)
    assert ledger.last_asked(["n19", "a", "n0"]).tolist() == [3, 1, 2]


# ---------------------------------------------------------------------------------- states


def test_a_state_is_kept_by_name_and_version(url, ledger):
    assert ledger.state("alarm") is None
    assert ledger.store_state(Remembered("alarm", {"sum": 0.5}), now=NOW).version == 1
    read = Ledger(url).state("alarm")
    assert read == Remembered("alarm", {"sum": 0.5}, 1)
    assert (
        ledger.store_state(Remembered("alarm", [1, None, "é"], read.version), now=NOW).version == 2
    )
    assert ledger.state("alarm").value == [1, None, "é"]
    assert ledger.state("other") is None


def test_two_writers_do_not_lose_a_state(ledger):
    ledger.store_state(Remembered("alarm", 1), now=NOW)
    for stale in (0, 2):
        with pytest.raises(StateChanged, match=f"version {stale}"):
            ledger.store_state(Remembered("alarm", 2, stale), now=NOW)
    assert ledger.state("alarm").value == 1


def test_states_are_written_with_the_report_or_not_at_all(ledger):
    reservation = ledger.reserve("1", ask(0.1), now=NOW)
    with pytest.raises(StateChanged, match="version 7"):
        ledger.settle(
            reservation, REPORT, states=[Remembered("a", 1), Remembered("b", 1, 7)], now=NOW
        )
    assert ledger.state("a") is None
    assert ledger.check("1").state == "reserved"
    ledger.settle(reservation, REPORT, states=[Remembered("a", 1), Remembered("b", 1)], now=NOW)
    assert ledger.state("b") == Remembered("b", 1, 1)


def test_states_are_written_with_the_reservation_or_not_at_all(ledger):
    begun = [Remembered("night", 1)]
    with pytest.raises(BudgetExhausted):
        ledger.reserve("dear", ask(7), states=begun, now=NOW)
    assert ledger.state("night") is None
    ledger.reserve("1", ask(0.1), states=begun, now=NOW)
    assert ledger.state("night") == Remembered("night", 1, 1)
    with pytest.raises(StateChanged, match="version 0"):
        ledger.reserve("2", ask(0.1), states=begun, now=NOW)
    assert ledger.check("2") is None
    assert ledger.spent(now=NOW).epsilon == pytest.approx(0.1)
