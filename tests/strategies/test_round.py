"""The one way through of everything that asks: in which order, and what a ledger has of it."""

import logging
from types import SimpleNamespace

import pytest

from flwr_kld.ask.cohort import Participant, UniformCohort
from flwr_kld.common.errors import CheckFailed, LedgerError, LedgerUnavailable
from flwr_kld.kernel import Guarantee
from flwr_kld.ledger import Budget, BudgetExhausted, Charge, Cost, Kind, Ledger
from flwr_kld.ledger.entry import Failure, FailureKind, Remembered
from flwr_kld.strategies.clock import ASKING, phase
from flwr_kld.strategies.cohort_strategy import CohortStrategy

REPORT = SimpleNamespace(to_dict=lambda: {"said": "so"})


@pytest.fixture
def ledger(tmp_path):
    made = Ledger(f"sqlite:///{tmp_path}/drift.db")
    made.set_budget(Budget(2.0, 0.0, window_days=30))
    return made


class Noting(CohortStrategy):
    """Notes what happens, and how the ledger stands then."""

    entry = Kind.CHECK

    def __init__(self, ledger, clients=3, **options):
        self.notes = []
        super().__init__(
            cohort=options.pop("cohort", None), population=self, min_clients=2, timeout=9.0,
            ledger=ledger, budget="default",
        )  # fmt: skip
        self.clients, self.raises = clients, options.pop("raises", None)

    def note(self, what):
        entry = self.ledger and self.ledger.check("monday")
        self.notes.append((what, entry and entry.state))

    def present(self, grid, timeout):
        self.note("present")
        return [Participant(i) for i in range(self.clients)]

    def run(self, key=None):
        with self._paid_round(key) as paid:
            chosen, _ = self._draw(None)
            self.note("draw")
            paid.reserve(Charge(Cost.claimed("m", Guarantee(1.0)), map(str, chosen)))
            self.note("ask")
            with phase(ASKING):  # from then on somebody may have answered
                if self.raises:
                    raise self.raises
            self.spent = paid.spent
            found = self.ledger and self.ledger.state("memory")
            self.meanwhile()
            memory = Remembered("memory", 7, found.version if found else 0)
            assert paid.settle(REPORT, [memory])
            return "result"

    def meanwhile(self):
        """Nothing, between the answers and the ledger."""


def test_it_is_reserved_before_anybody_is_asked_and_settled_after(ledger):
    round = Noting(ledger)
    assert round.run("monday") == "result"
    assert round.notes == [
        ("present", None),
        ("draw", None),
        ("ask", "reserved"),
    ]
    entry = ledger.check("monday")
    assert (entry.state, entry.kind, entry.report) == ("settled", Kind.CHECK, {"said": "so"})
    assert ledger.state("memory").value == 7
    assert round.spent.left == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("error", "state"),
    [
        (CheckFailed("nobody answered"), "failed"),
        (ZeroDivisionError("a bug"), "failed"),
        (KeyboardInterrupt(), "reserved"),  # which counts as spent
    ],
)
def test_what_breaks_off_after_it_was_reserved_is_spent(ledger, error, state):
    with pytest.raises(type(error)):
        Noting(ledger, raises=error).run("monday")
    assert ledger.check("monday").state == state
    assert ledger.spent().epsilon == pytest.approx(1.0)
    assert ledger.state("memory") is None


def test_too_few_are_neither_asked_nor_charged(ledger):
    few = "1 clients are connected and 2 are needed"
    with pytest.raises(CheckFailed, match=few):
        Noting(ledger, clients=1).run("monday")
    drawn = "1 clients were drawn into the cohort and 2 are needed"
    with pytest.raises(CheckFailed, match=drawn):
        Noting(ledger, cohort=UniformCohort(1)).run("tuesday")
    assert [(entry.key, entry.failure) for entry in ledger.history()] == [
        ("monday", Failure(FailureKind.COHORT, few)),
        ("tuesday", Failure(FailureKind.COHORT, drawn)),
    ]
    assert ledger.spent().epsilon == 0
    Noting(ledger).run("monday")  # what was refused may run
    assert ledger.check("monday").state == "settled"


def test_what_the_budget_does_not_bear_asks_nobody(ledger):
    for key in ("saturday", "sunday"):
        Noting(ledger).run(key)
    round = Noting(ledger)
    with pytest.raises(BudgetExhausted):
        round.run("monday")
    assert round.notes[-1] == ("draw", None)
    refused = ledger.check("monday")
    assert (refused.failure.kind, refused.kind) == (FailureKind.BUDGET, Noting.entry)
    assert "epsilon" in refused.failure.words


def test_a_report_that_the_ledger_did_not_take_is_in_the_log(ledger, full_ledger, caplog):
    with caplog.at_level(logging.ERROR, "flwr.kld"), pytest.raises(LedgerUnavailable):
        Noting(full_ledger).run("monday")
    assert '"said"' in caplog.text
    assert ledger.check("monday").state == "reserved"


def test_of_two_at_once_the_later_one_is_over_and_says_why(ledger):
    class Slow(Noting):
        def meanwhile(self):
            Noting(self.ledger).run("tuesday")  # from first to last while this one runs

    with pytest.raises(LedgerError, match="one"):
        Slow(ledger).run("monday")
    assert ledger.check("tuesday").state == "settled"
    failure = ledger.check("monday").failure
    assert failure.kind is FailureKind.ERROR
    assert "one by one" in failure.words


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (LedgerUnavailable("connection to 10.0.0.5, user kld, failed"), "LedgerUnavailable"),
        (ValueError("a value of a record"), "ValueError"),
        (CheckFailed("3 of 5 answered"), "3 of 5 answered"),
    ],
)
def test_what_ended_a_round_is_told_in_public_words_only(error, words):
    assert Failure.of(error).words == words


def test_without_a_ledger_nothing_is_charged():
    round = Noting(None)
    assert round.run() == "result"
    assert [what for what, _ in round.notes] == ["present", "draw", "ask"]
    assert round.spent is None
