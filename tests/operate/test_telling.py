"""Who is told what, and how often: each once when it begins, once when it is over."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace

import pytest
from forks import forked, joined
from report.samples import decided
from report.tables import drifted

from flwr_kld.accounting import Budget, Charge, Clients, Cost, Everyone, Ledger
from flwr_kld.accounting.entry import Failure, FailureKind
from flwr_kld.accounting.view import LedgerView
from flwr_kld.kernel import Guarantee
from flwr_kld.operate.alerts import Recipient, Rules, conditions, tell
from flwr_kld.operate.receivers import About, Delivery, Notice
from flwr_kld.operate.schedule import parse_schedule
from flwr_kld.report import Outcome

NIGHTLY = parse_schedule("0 3 * * *")
FIRST = datetime(2026, 11, 1, 3, 1, tzinfo=UTC)
FAR = FIRST.timestamp() + 1000 * 86_400
LINK = "https://drift.example.org/"
DRIFT, CALM, UNSURE = (
    decided(outcome, bound).to_dict()
    for outcome, bound in (
        (Outcome.DRIFT, 0.2), (Outcome.NO_DRIFT, 0.0), (Outcome.INCONCLUSIVE, 0.0),
    )
)  # fmt: skip


@pytest.fixture
def url(tmp_path, ledger_at) -> str:
    url = ledger_at(tmp_path / "drift.db")
    budget = Budget(1.0, 1e-6, 30, composition="sum")
    Ledger(url).set_budget(budget, now=(FIRST - timedelta(days=1)).timestamp())
    return url


def night(url: str, n: int, report: dict | None, *, epsilon=0.01, clients=None) -> None:
    """Write the check of a night."""
    ledger, now = Ledger(url), (FIRST + timedelta(days=n)).timestamp()
    cost = Cost.claimed("discrete-laplace", Guarantee(epsilon))
    whom = Clients(clients) if clients else Everyone()
    reserved = ledger.reserve(f"night {n}", [Charge(cost, whom)], now=now)
    if report is None:
        ledger.fail(reserved, Failure(FailureKind.UNANSWERED, "nobody answered"), now=now)
    else:
        ledger.settle(reserved, report, now=now + 60)


def found(url: str, n: float, rules: Rules | None = None, schedule=NIGHTLY) -> dict[About, Notice]:
    """What is said n days after the first check."""
    now = FIRST + timedelta(days=n)
    rules = rules or Rules(link=LINK)
    notices = conditions(LedgerView(url), "default", rules, schedule=schedule, now=now)
    return {notice.about: notice for notice in notices}


def test_a_drift_is_told_with_what_moved_and_where_to_look(url):
    night(url, 0, drifted(1).to_dict())
    notice = found(url, 0.1)[About.DRIFT]
    assert not notice.over
    assert notice.title == "Drift in default"
    assert any(line.startswith("age <years>: lower, 10 % → ") for line in notice.lines)
    assert notice.link == f"{LINK}check?number=1"
    night(url, 1, UNSURE)
    assert found(url, 1.1)[About.DRIFT] == notice  # for those who could not be told last night
    night(url, 2, CALM)
    assert found(url, 2.1)[About.DRIFT].over


@pytest.mark.parametrize(
    ("days", "silent"), [(0.5, False), (1.01, False), (2.02, False), (2.05, True)]
)
def test_silence_is_told_after_so_many_slots_and_the_time_that_a_check_may_take(url, days, silent):
    night(url, 0, CALM)
    assert found(url, days)[About.SILENCE].over != silent
    assert About.SILENCE not in found(url, days, schedule=None)


def test_checks_without_a_number_are_silence_too_and_say_why(url):
    for n in range(4):
        night(url, n, CALM if n == 0 else None)
    notice = found(url, 3.1)[About.SILENCE]
    assert not notice.over
    assert "nobody answered" in notice.lines[-1]
    night(url, 4, CALM)
    assert found(url, 4.1)[About.SILENCE].over


def test_a_ledger_that_never_had_a_number_is_silent_from_its_first_check_on(url):
    assert found(url, 10) == {}
    night(url, 0, None)
    assert found(url, 0.5)[About.SILENCE].over
    assert not found(url, 3)[About.SILENCE].over


def test_a_budget_that_has_no_room_for_the_next_slot_is_told_before_it(url):
    night(url, 0, CALM, epsilon=0.4)
    assert found(url, 0.5)[About.BUDGET].over  # one check tells nothing of the next
    night(url, 1, CALM, epsilon=0.4)
    notice = found(url, 1.5)[About.BUDGET]
    assert not notice.over
    assert "2026-11-03 03:00 UTC" in notice.lines[0]
    assert "it fits from 2026-12-01" in notice.lines[0]
    assert found(url, 30.2)[About.BUDGET].over  # by the next slot, the first has left the window


def test_nothing_is_said_of_the_budget_where_cohorts_rotate(url):
    for n in range(3):
        night(url, n, CALM, epsilon=0.9, clients=[f"client {n}"])
    assert found(url, 2.5)[About.BUDGET].over


def test_a_refusal_by_the_budget_is_told_without_a_schedule(url):
    night(url, 0, CALM)
    refusal = Failure(FailureKind.BUDGET, "no room")
    Ledger(url).refuse("night 1", refusal, now=(FIRST + timedelta(days=1)).timestamp())
    assert "no room" in found(url, 1.1, schedule=None)[About.BUDGET].lines[0]


@pytest.mark.parametrize(("survivors", "over"), [(18, True), (10, True), (9, False), (0, False)])
def test_dropouts_are_told_beyond_the_share_that_is_tolerated(url, survivors, over):
    night(url, 0, decided(Outcome.NO_DRIFT, 0.0, survivors=survivors).to_dict())
    assert found(url, 0.1)[About.DROPOUTS].over == over


# ---------------------------------------------------------------------------------- telling


@dataclass
class Box:
    """Takes notices, unless it is closed."""

    got: list[Notice] = field(default_factory=list)
    closed: bool = False
    deadline: float = 60.0

    def take(self, notice: Notice) -> Delivery:
        if self.closed:
            return Delivery("box", False, "closed")
        self.got.append(notice)
        return Delivery("box", True, "taken")


BEGINS, ENDS = (Notice(About.DRIFT, "default", over, f"over: {over}") for over in (False, True))
SILENT = Notice(About.SILENCE, "default", False, "silence")


def telling(url: str, notices, *boxes: Box, about=frozenset(About)):
    to = [Recipient(f"box {i}", box, about) for i, box in enumerate(boxes)]
    return tell(Ledger(url), "default", notices, to)


def test_each_is_told_once_in_any_number_of_processes(url):
    box = Box()
    for notice in (ENDS, BEGINS, BEGINS, BEGINS, ENDS, ENDS, BEGINS):
        telling(url, [notice], box)
    assert [notice.over for notice in box.got] == [False, True, False]


def test_who_could_not_be_told_is_told_later_and_others_not_again(url):
    open_, closed = Box(), Box(closed=True)
    assert [d.delivered for d in telling(url, [BEGINS], open_, closed)] == [True, False]
    closed.closed = False
    telling(url, [BEGINS], open_, closed)
    assert len(open_.got) == len(closed.got) == 1


def test_who_never_heard_of_the_beginning_does_not_hear_of_the_end(url):
    box = Box(closed=True)
    telling(url, [BEGINS], box)
    box.closed = False
    telling(url, [ENDS], box)
    assert box.got == []


def test_a_receiver_that_breaks_keeps_nothing_from_the_others(url, caplog):
    class Broken(Box):
        def take(self, notice):
            raise RuntimeError("https://hooks.example.org/SECRET")

    box = Box()
    telling(url, [BEGINS], Broken(), box)
    assert len(box.got) == 1


def test_what_a_signal_kept_from_being_told_is_told_next_and_nothing_else(url):
    class Interrupted(Box):
        def take(self, notice):
            raise SystemExit(143)

    first, second, last = Box(), Box(), Box()
    with pytest.raises(SystemExit):
        telling(url, [BEGINS], first, Interrupted(), last)
    telling(url, [BEGINS], first, second, last)
    assert len(first.got) == len(second.got) == len(last.got) == 1


def test_runs_at_the_same_moment_tell_it_once(url):
    other = Box()

    class Slow(Box):
        def take(self, notice):
            telling(url, [BEGINS, SILENT], other)
            return super().take(notice)

    slow = Slow()
    telling(url, [BEGINS, SILENT], slow)
    assert slow.got == [BEGINS, SILENT]
    assert other.got == []


class Killed(Box):
    def take(self, notice):
        os._exit(0)


@pytest.mark.parametrize(
    ("killed", "told"), [(FIRST.timestamp(), 66.0), (FAR, -1000 * 86_400)], ids=["later", "ahead"]
)
def test_what_a_killed_run_did_not_tell_is_told_whatever_clocks_were(
    url, monkeypatch, killed, told
):
    """The ledger's time stands still since a clock was years ahead."""
    Ledger(url).set_budget(Budget(2.0), now=FAR)
    now, box = SimpleNamespace(time=lambda: killed), Box()
    monkeypatch.setattr("flwr_kld.operate.alerts.time", now)
    assert joined(forked(lambda: telling(url, [BEGINS], Killed()))) == [0]
    telling(url, [BEGINS], box)
    assert box.got == []
    now.time = lambda: killed + told
    telling(url, [BEGINS], box)
    assert box.got == [BEGINS]


def test_everybody_hears_only_what_they_asked_for(url):
    box = Box()
    telling(url, [BEGINS, SILENT], box, about=frozenset({About.SILENCE}))
    assert box.got == [SILENT]
