"""What was refused before anybody was asked: in the history, free of charge, and free to run."""

import pytest
from ledger.books import REPORT, SILENCE, ask
from ledger.conftest import NOW

from flwr_kld.ledger import Kind, LedgerError
from flwr_kld.ledger.entry import Failure, FailureKind

SMALL = Failure(FailureKind.COHORT, "3 clients are connected and 5 are needed")
SHORT = Failure(FailureKind.BUDGET, "client 7 has epsilon 0 left")


@pytest.mark.parametrize("why", [SMALL, SHORT])
def test_a_refusal_is_in_the_history_and_spends_nothing(ledger, why):
    ledger.refuse("monday", why, now=NOW)
    (entry,) = ledger.history()
    assert (entry.key, entry.state, entry.failure) == ("monday", "failed", why)
    assert entry.refused
    assert (entry.kind, entry.release, entry.report) == (Kind.CHECK, None, None)
    assert entry.ended == entry.started
    assert ledger.spent(now=NOW).epsilon == 0


def test_what_was_refused_runs_later_under_a_new_number(ledger):
    ledger.refuse("monday", SMALL, now=NOW)
    ledger.refuse("tuesday", SMALL, now=NOW)
    refused = [entry.number for entry in ledger.history()]
    ledger.refuse("monday", SHORT, now=NOW + 60)
    tuesday, monday = ledger.history()
    assert (tuesday.key, monday.key, monday.failure) == ("tuesday", "monday", SHORT)
    again = ledger.reserve("monday", ask(0.25, "a"), kind=Kind.STATISTICS, now=NOW + 120)
    assert again.number > monday.number > max(refused)
    entry = ledger.check("monday")
    assert (entry.state, entry.kind, entry.failure) == ("reserved", Kind.STATISTICS, None)
    ledger.settle(again, REPORT, now=NOW + 180)
    assert not ledger.check("monday").refused
    assert ledger.spent(now=NOW + 180).epsilon == 0.25


@pytest.mark.parametrize("became", ["reserved", "settled", "failed"])
def test_a_refusal_never_takes_the_place_of_what_asked(ledger, became):
    """Say, of two starts of one check the second finds fewer clients."""
    reservation = ledger.reserve("monday", ask(0.25, "a"), now=NOW)
    if became == "settled":
        ledger.settle(reservation, REPORT, now=NOW)
    elif became == "failed":
        ledger.fail(reservation, SILENCE, now=NOW)
    before = ledger.check("monday")
    ledger.refuse("monday", SMALL, now=NOW + 60)
    assert ledger.check("monday") == before
    assert len(list(ledger.history())) == 1
    with pytest.raises(LedgerError):
        ledger.reserve("monday", ask(0.25, "a"), now=NOW + 60)


def test_a_failure_that_asked_is_no_refusal(ledger):
    for kind in (FailureKind.UNANSWERED, FailureKind.ERROR):
        with pytest.raises(ValueError, match="reservation"):
            ledger.refuse("monday", Failure(kind, "x"), now=NOW)
    assert list(ledger.history()) == []


def test_a_population_keeps_its_own_refusals(ledger):
    ledger.refuse("monday", SMALL, population="them", now=NOW)
    assert ledger.check("monday") is None
    assert ledger.check("monday", population="them").failure == SMALL


def test_what_all_refused_is_given_back_once(ledger):
    refused = Failure(FailureKind.REFUSED, "every client refused")
    reserved = ledger.reserve("monday", ask(0.25, "a"), now=NOW)
    ledger.fail(reserved, refused, now=NOW + 9)
    entry = ledger.check("monday")
    assert (entry.refused, entry.failure, entry.release) == (True, refused, None)
    assert ledger.spent(now=NOW + 9).epsilon == 0
    again = ledger.reserve("monday", ask(0.25, "a"), now=NOW + 60)
    with pytest.raises(LedgerError, match="closed"):
        ledger.fail(reserved, refused, now=NOW + 61)
    ledger.settle(again, REPORT, now=NOW + 62)
    with pytest.raises(LedgerError, match="closed"):
        ledger.fail(again, refused, now=NOW + 63)  # a report is never given back
    assert ledger.spent(now=NOW + 63).epsilon == 0.25
