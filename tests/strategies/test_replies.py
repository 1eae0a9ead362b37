"""Replies are handed on as they come, and looked for often enough."""

import itertools
from time import sleep

import pytest
from flwr.app import Error, Message, RecordDict
from flwr.supercore.task_identity import TaskIdentity

from flwr_kld.strategies import exchange as module
from flwr_kld.strategies.clock import ASKING, WAITING, Clock
from flwr_kld.strategies.exchange import replies


class Time:
    """Passes only while somebody sleeps."""

    now = 0.0

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


class Link:
    """A SuperLink whose nodes answer at these times; one that says no is not sent to."""

    def __init__(self, time: Time, at: dict[int, float], refused: int = 0) -> None:
        TaskIdentity.task_id, TaskIdentity.run_id, TaskIdentity.node_id = 1, 1, 1
        self.time, self.at, self.refused = time, at, refused
        self.sent: dict[str, Message] = {}
        self.looks: list[float] = []

    def push_messages(self, messages):
        self.sent = {f"m{m.metadata.dst_node_id}": m for m in messages}
        for name, message in self.sent.items():
            message.metadata.__dict__["_message_id"] = name
        return [*self.sent, *[None] * self.refused]

    def pull_messages(self, message_ids):
        self.looks.append(self.time.now)
        assert None not in message_ids
        for name in sorted(message_ids):
            if self.at.get(int(name[1:]), float("inf")) <= self.time.now:
                yield Message(Error(0), reply_to=self.sent[name])


@pytest.fixture
def time(monkeypatch) -> Time:
    passing = Time()
    monkeypatch.setattr(module, "time", passing)
    return passing


def ask(link: Link, timeout: float = 60.0):
    messages = [Message(RecordDict(), node, "query") for node in link.at]
    return replies(link, messages, timeout)


def test_each_reply_is_there_before_the_next_node_has_answered(time):
    link = Link(time, {1: 5.0, 2: 1.0, 3: 1.0, 4: 30.0}, refused=2)
    heard = [(reply.metadata.src_node_id, time.now) for reply in ask(link)]
    assert [node for node, _ in heard] == [2, 3, 1, 4]
    for node, when in heard:
        assert link.at[node] <= when <= 1.05 * link.at[node] + 0.1


def test_looks_are_a_tenth_of_a_second_apart_at_first_and_three_seconds_at_last(time):
    link = Link(time, {1: 900.0})
    list(ask(link, timeout=1000.0))
    apart = [b - a for a, b in itertools.pairwise(link.looks)]
    assert min(apart[:10]) == pytest.approx(0.1)
    assert max(apart) == pytest.approx(3.0)


def test_nobody_is_waited_for_beyond_the_time(time):
    link = Link(time, {1: 9.99, 2: 10.5})
    assert [reply.metadata.src_node_id for reply in ask(link, timeout=10.0)] == [1]
    assert time.now == pytest.approx(10.0)


def test_nobody_asked_is_nobody_waited_for(time):
    link = Link(time, {})
    assert list(ask(link)) == []
    assert link.looks == []


def test_a_clock_counts_asking_and_waiting_and_not_what_is_done_with_a_reply():
    clock = Clock()
    link = Link(Time(), {1: 0.0, 2: 0.0})
    with clock.running():
        for _ in ask(link):
            sleep(0.05)
    assert clock.phases[ASKING] + clock.phases[WAITING] < 0.05 < clock.seconds
