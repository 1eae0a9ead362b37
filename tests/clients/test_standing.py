"""A night of a standing session at a node: remembered, receipted, counted, and answered by name."""

import copy
import os
import signal
import stat
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from federation import FRUIT, REFERENCE, app_of, grid_of
from flwr.app import ConfigRecord, Message, RecordDict
from flwr.clientapp import ClientApp
from forks import forget_claims, forked, joined
from guard.files import guard_file
from session_nights import TOMORROW, a_night
from trust.vector_forms import claim, counts

from flwr_kld.ask.partition import Partition
from flwr_kld.ask.period import Period
from flwr_kld.clients import AggregatorKey, FirstUse, host_drift_queries
from flwr_kld.common.errors import CheckFailed
from flwr_kld.guard import verify
from flwr_kld.kernel.promise import Allotment
from flwr_kld.simulations.in_process_grid import InProcessGrid
from flwr_kld.strategies import KLDrift, SecureSum, Trusted, TrustedAggregator
from flwr_kld.trust.envelopes import ANSWER, DRIFT_ACTION, MEMBERS, NUMBERS, TERMS, Answer
from flwr_kld.trust.envelopes import Members as Asked
from flwr_kld.trust.sealing import SealContext, open_sealed

KEY = AggregatorKey.generate()
NAMES = FRUIT.names
PLAN = Partition(100).draw(REFERENCE, np.random.default_rng(0)).allotted(Allotment.even(1))
HISTORY = 2
"""Bytes that say which of nine nights a client has counted."""
CELL = [int(PLAN.cell_of[symbol]) for symbol in range(len(NAMES))]


def terms_of(number, session="s", trust=None, nights=9, moves=2, **changes):
    trust = trust or Trusted(1.0, 1e-6)
    terms = trust.terms(PLAN, check=f"{session}-{number}", asked=20, until=TOMORROW)
    return replace(terms, night=a_night(session, number, nights, moves), **changes)


class Node:
    """A client whose records are a dict of fruit by id."""

    def __init__(self, *, ids=True, **options) -> None:
        self.records, self.loads = {}, 0
        given = {"record_ids": lambda _: list(self.records)} if ids else {}
        self.app = app_of(self.load, **given, **options)
        (self.context,) = InProcessGrid(self.app, 1).contexts.values()

    def load(self, _):
        self.loads += 1
        return list(self.records.values())

    def ask(self, terms, members=(0,), **records) -> tuple[list[bytes], list[str]]:
        if records:
            self.records = {own: fruit for own, fruit in records.items() if fruit is not None}
        reply = self._reply(terms, members)
        return list(reply[NUMBERS].get(NUMBERS, [])), Answer.from_config(reply[ANSWER]).reasons

    def answer(self, terms) -> Answer:
        """What it says beside its numbers."""
        return Answer.from_config(self._reply(terms, [0])[ANSWER])

    def _reply(self, terms, members) -> RecordDict:
        content = RecordDict(
            {
                TERMS: ConfigRecord(terms.to_config()),
                MEMBERS: ConfigRecord(Asked(list(members)).to_config()),
            }
        )
        message = Message(content, 1000, f"query.{DRIFT_ACTION}")
        return self.app(message, self.context).content

    def counts(self, terms, **records) -> dict[str, int]:
        """What is counted, by fruit."""
        (answer,), reasons = self.ask(terms, **records)
        assert not reasons
        return told(answer)[1]

    def refused(self, terms, **records) -> str:
        answers, (reason,) = self.ask(terms, **records)
        assert not answers
        return reason


def told(answer: bytes) -> tuple[bytes, dict[str, int]]:
    """The client's name and the counts, by fruit."""
    name, row = answer[:16], np.frombuffer(answer[16 + HISTORY :], "<i4")
    assert len(row) == PLAN.length + 1  # frozen records
    counts = {name: int(row[cell]) for name, cell in zip(NAMES, CELL, strict=True)}
    return name, {name: n for name, n in counts.items() if n}


@pytest.fixture(autouse=True)
def flower_home(tmp_path, monkeypatch):
    monkeypatch.setenv("FLWR_HOME", str(tmp_path / "flower"))
    return tmp_path / "flower"


@pytest.fixture
def guarded(tmp_path, monkeypatch):
    monkeypatch.setenv("FLWR_KLD_GUARD", str(guard_file(tmp_path)))
    return lambda: verify(tmp_path / "receipts.db").receipts


def test_each_record_counts_as_it_was_on_its_first_night():
    node = Node()
    assert node.counts(terms_of(1), a="apple", b="apple") == {"apple": 2}
    assert node.counts(terms_of(2), a="cherry", c="durian") == {"apple": 1, "durian": 1}
    assert node.counts(terms_of(5), a="cherry", b="apple", c="apple") == {"apple": 1, "durian": 1}
    assert node.counts(terms_of(6), z=None) == {}


def test_changes_count_where_the_session_allows_them():
    node = Node()
    fruits = ["apple", "banana", "cherry", "durian"]
    for number, fruit, counted in zip(range(1, 5), fruits, [*fruits[:3], "cherry"], strict=True):
        assert node.counts(terms_of(number, moves=6), a=fruit) == {counted: 1}


def test_ids_of_texts_and_of_whole_numbers_are_ids():
    node = Node()
    node.records = {7: "apple", "x": "banana"}
    assert node.counts(terms_of(1)) == {"apple": 1, "banana": 1}
    node.records = {"x": "durian", "7": "durian", 8: "cherry"}
    assert node.counts(terms_of(2)) == {"apple": 1, "banana": 1, "cherry": 1}


def test_a_client_keeps_its_name_when_its_node_gets_another():
    node = Node()
    (first,), _ = node.ask(terms_of(1), a="apple")
    first_run = node.context.run_id
    (node.context,) = InProcessGrid(node.app, 1).contexts.values()
    node.context.node_id = 2222
    (second,), _ = node.ask(terms_of(2))
    (other,), _ = node.ask(terms_of(1, "t"))
    assert node.context.run_id != first_run
    assert told(first) == told(second)
    assert told(other)[0] != told(first)[0]


def test_an_ordinary_check_has_no_token_and_no_memory(flower_home):
    node = Node()
    (answer,), _ = node.ask(replace(terms_of(1), night=None), a="apple")
    assert len(answer) == 4 * PLAN.length
    assert not flower_home.exists()


def test_a_box_holds_token_and_counts():
    node = Node(aggregator=KEY.public)
    trust = TrustedAggregator(1.0, 1e-6, aggregator=KEY.public)
    (one,), _ = node.ask(terms_of(1, trust=trust), a="apple")
    sealed_for = SealContext(node.context.run_id, terms_of(1, trust=trust).fingerprint, "1000:0")
    assert told(open_sealed(KEY, one, sealed_for))[1] == {"apple": 1}


LIES = {
    "a replay": (lambda: terms_of(4), "nights only go on"),
    "a replay under another check": (lambda: terms_of(4, check="new"), "nights only go on"),
    "an earlier night": (lambda: terms_of(2), "does not lead to the one that is asked for"),
    "other terms": (lambda: terms_of(5, moves=4), "asks the same"),
    "more nights": (lambda: terms_of(5, nights=99), "asks the same"),
}


@pytest.mark.parametrize("lie", LIES)
def test_a_lying_server_gets_no_answer(lie):
    node = Node()
    node.counts(terms_of(4), a="apple")
    terms, why = LIES[lie]
    assert why in node.refused(terms(), a="banana", b="banana")
    assert node.counts(terms_of(6), a="banana", b="cherry") == {"apple": 1, "cherry": 1}


@pytest.mark.parametrize("change", ["scores", "most_records", "period", "clients"])
def test_what_is_no_session_is_not_read(change):
    """The server lies in the words of a message, as no terms can be made that say so."""
    config = terms_of(1).to_config()
    config |= {
        "scores": {"score_wire": b"x"},
        "most_records": {"most_records": 5},
        "period": {"asked_for": counts(Period("c", "2026-11-24", "2026-11-25"))},
        "clients": {
            "guarantee": claim(delta=1e-6, protects={"most_records": 5}),
            "most_records": 5,
        },
    }[change]
    node = Node()
    lie = SimpleNamespace(to_config=lambda: config)
    assert "7" not in node.refused(lie, a="apple")
    assert not node.loads


def test_positions_are_no_ids():
    assert "record_ids=" in Node(ids=False).refused(terms_of(1), a="apple")


def test_the_memory_is_beside_the_receipts(tmp_path, guarded):
    Node().counts(terms_of(1), a="apple")
    assert stat.S_IMODE((tmp_path / "receipts.db.standing").stat().st_mode) == 0o600
    assert len(guarded()) == 1


def test_the_memory_is_beside_the_file_that_the_operator_names(tmp_path, guarded):
    node = Node()
    node.context.node_config["drift-memory"] = str(tmp_path / "memory.db")
    node.counts(terms_of(1), a="apple")
    assert (tmp_path / "memory.db.standing").exists()


def test_the_memory_of_a_node_without_any_file_is_in_flowers_folder(flower_home):
    Node().counts(terms_of(1), a="apple")
    assert (flower_home / "flwr-kld" / "standing.db").exists()


@pytest.mark.parametrize("trouble", ["damaged", "a folder", "relative"])
def test_a_memory_that_cannot_be_used_refuses(tmp_path, trouble, caplog):
    node, file = Node(), tmp_path / "memory.db.standing"
    file.mkdir() if trouble == "a folder" else file.write_bytes(b"")
    place = "memory.db" if trouble == "relative" else str(tmp_path / "memory.db")
    node.context.node_config["drift-memory"] = place
    assert "memory of checks" in node.refused(terms_of(1), a="apple")
    assert (str(file) in caplog.text) == (trouble != "relative")


def test_a_session_is_charged_once(guarded):
    node = Node()
    for number in range(1, 9):
        node.counts(terms_of(number), a="apple")
    node.counts(terms_of(1, "t"), a="apple")
    node.counts(terms_of(1, "u"), a="apple")
    assert [r.night for r in guarded()] == [*range(1, 9), 1, 1]
    loads = node.loads
    assert "more than this client has left: 0 of 3" in node.refused(terms_of(1, "v"), a="apple")
    assert node.loads == loads
    node.counts(terms_of(9), a="apple")


def test_a_client_that_lost_its_memory_is_left_out(tmp_path, guarded):
    node = Node()
    node.counts(terms_of(1), a="apple")
    (tmp_path / "receipts.db.standing").unlink()
    for number in (2, 3):
        assert "lost its memory" in node.refused(terms_of(number), a="banana")
    assert node.counts(terms_of(1, "t"), a="banana") == {"banana": 1}


def test_a_memory_that_was_put_back_is_left_out(tmp_path, guarded):
    node, file = Node(), tmp_path / "receipts.db.standing"
    node.counts(terms_of(1), a="apple")
    kept = file.read_bytes()
    node.counts(terms_of(2), a="apple", b="apple")
    file.write_bytes(kept)
    for number in (3, 4):
        assert "lost its memory" in node.refused(terms_of(number), a="apple", b="banana")


def test_a_node_that_is_killed_before_its_receipt_goes_on_with_the_next_night(guarded, monkeypatch):
    node = Node()
    node.counts(terms_of(1), a="apple")

    def killed():
        monkeypatch.setattr(
            "flwr_kld.clients.admission.Gate.admit", lambda *_: os.kill(os.getpid(), signal.SIGKILL)
        )
        node.counts(terms_of(2), a="apple", b="banana")

    assert joined(forked(killed)) == [-signal.SIGKILL]
    assert [r.night for r in guarded()] == [1]
    assert "nights only go on" in node.refused(terms_of(2), a="apple", b="cherry")
    counted = {"apple": 1, "banana": 1}
    assert node.counts(terms_of(3), a="apple", b="cherry") == counted
    assert [r.night for r in guarded()] == [1, 3]


def test_no_receipt_no_answer(guarded, monkeypatch):
    """The memory has the night then: as if the message had been lost."""
    node = Node()
    node.counts(terms_of(1), a="apple")
    append = "flwr_kld.guard.receipts.Receipts._append"
    with monkeypatch.context() as patch:
        patch.setattr(append, lambda *_: (_ for _ in ()).throw(OSError("disk")))
        assert "cannot write a receipt" in node.refused(terms_of(2), a="apple", b="banana")
    assert node.counts(terms_of(3), a="apple", b="cherry") == {"apple": 1, "banana": 1}


def test_members_of_a_node_live_by_themselves():
    """Of many at once, one without ids is left out, and no other."""
    fruits = {member: {"a": NAMES[member % 4]} for member in range(600)}
    app = ClientApp()
    host_drift_queries(
        app,
        records=lambda _, member: list(fruits[member].values()),
        hosted=lambda _: range(600),
        domain=lambda _: FRUIT,
        record_ids=lambda _, member: [] if member == 7 else list(fruits[member]),
    )
    node = Node()
    node.app = app
    answers, reasons = node.ask(terms_of(1), members=range(600))
    assert len(reasons) == 1
    assert "record ids" in reasons[0]
    told_first = [told(answer) for answer in answers]
    assert len({name for name, _ in told_first}) == 599
    assert [rows for _, rows in told_first[:7]] == [{NAMES[m % 4]: 1} for m in range(7)]
    for member in fruits:
        fruits[member] = {"a": "cherry"}
    again, _ = node.ask(terms_of(2), members=range(600))
    assert [told(answer) for answer in again] == told_first


def test_of_copies_of_a_message_one_is_counted():
    node = Node()
    context = copy.deepcopy(node.context)
    node.counts(terms_of(1), a="apple")
    node.context = context
    forget_claims()
    assert "nights only go on" in node.refused(terms_of(1))


def test_a_secure_sum_is_of_no_session():
    """Its records would be counted as they are, on a night that a session has paid for."""
    loads = []

    class Lying(Trusted):
        def terms(self, plan, **about):
            terms = super().terms(plan.allotted(Allotment.even(1)), **about)
            return replace(terms, night=a_night("s", 1, 9, 2))

    def load(_):
        loads.append(1)
        return ["apple"]

    app = app_of(load, record_ids=lambda _: [1], secure_sum=FirstUse())
    monitor = KLDrift(REFERENCE, Lying(1.0, 1e-6), aggregation=SecureSum())
    with pytest.raises(CheckFailed, match="standing"):
        monitor.check(grid_of(app))
    assert not loads


@pytest.mark.parametrize("asked_for", [1, 4, 9])
def test_a_client_ends_a_session_whose_server_forgot_its_night(guarded, asked_for):
    """Its answer says so; a night that is asked for twice by the same server is none."""
    node = Node()
    node.counts(terms_of(4), a="apple")
    for branch, other in ((50, 4), (0, 4 if asked_for < 4 else 0)):
        night = a_night("s", asked_for, 9, branch=branch)
        answer = node.answer(replace(terms_of(asked_for), check=f"{branch}", night=night))
        assert answer.other_night == other


def test_a_memory_that_is_lost_ends_a_session_that_its_receipts_know_better(tmp_path, guarded):
    node = Node()
    node.counts(terms_of(4), a="apple")
    (tmp_path / "receipts.db.standing").unlink()
    for number, other in ((3, 4), (4, 4), (5, 0)):
        asked = replace(terms_of(number), check="another")
        assert node.answer(asked).other_night == other
