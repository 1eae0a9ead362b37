"""One check's question to a cohort, and what comes back, whatever the aggregation."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from types import MappingProxyType
from typing import ClassVar

from flwr.app import ArrayRecord, ConfigRecord, Error, Message, RecordDict
from flwr.serverapp import Grid

from flwr_kld.ask.cohort import Participant, require_clients
from flwr_kld.ask.plan import QueryPlan
from flwr_kld.common.errors import NobodyAnswered
from flwr_kld.kernel.count import ClientSizes
from flwr_kld.kernel.law import BitSource
from flwr_kld.kernel.selection import LabelSum
from flwr_kld.kernel.vector import ClearSum, NightNoise, Released, ShareSum
from flwr_kld.strategies.clock import ASKING, WAITING, phase
from flwr_kld.trust import Trust
from flwr_kld.trust.envelopes import DRIFT_ACTION, MEMBERS, MODEL, TERMS, Answer, Members
from flwr_kld.trust.signed_numbers import SignedNumbers
from flwr_kld.trust.terms import NO_MODEL, Terms, model_fingerprint

_PAUSE, _LONGEST_PAUSE = 0.1, 3.0
"""Seconds between two looks, at least and at most."""
_SHARE = 0.05
"""Of what was waited so far: what looking away may add to it."""


_EXCHANGES = 4
"""Of a check, one after the other, that may each take the whole timeout."""
_MARGIN = 60 * 60
"""Seconds by which clocks may differ, and in which answers are added up, portion by portion."""


def last_moment(timeout: float) -> int:
    """Return when a question is over that is asked now, in seconds since 1970."""
    return int(time.time() + _EXCHANGES * timeout) + _MARGIN


def replies(grid: Grid, messages: Sequence[Message], timeout: float) -> Iterator[Message]:
    """Send messages, and yield the replies as they come."""
    if not messages:
        return
    with phase(ASKING):
        sent = grid.push_messages(messages)
        waiting = {message for message in sent if message}  # None: the SuperLink did not take it
    del messages
    began = time.monotonic()
    while waiting:
        with phase(WAITING):
            came, late = _look(grid, waiting, began, timeout)
        waiting.difference_update(reply.metadata.reply_to_message_id for reply in came)
        came.reverse()
        while came:
            yield came.pop()  # and hold it no longer
        if late:
            return


def first_replies(
    grid: Grid,
    nodes: Iterable[int],
    action: str,
    timeout: float,
    asked: Mapping[str, ConfigRecord] = MappingProxyType({MEMBERS: ConfigRecord()}),
) -> Iterator[tuple[int, Message]]:
    """Ask nodes what they are; the first reply of a node stands."""
    content = RecordDict({**asked})
    messages = [Message(content, node, f"query.{action}", ttl=timeout) for node in nodes]
    silent = {message.metadata.dst_node_id for message in messages}
    for reply in replies(grid, messages, timeout):
        if (node := reply.metadata.src_node_id) in silent:
            silent.remove(node)
            yield node, reply


def _look(
    grid: Grid, waiting: set[str], began: float, timeout: float
) -> tuple[list[Message], bool]:
    """Look until there are replies, or the time is over; that it is over is the second value."""
    while True:
        looked = time.monotonic()
        late = looked - began >= timeout
        came = list(grid.pull_messages(waiting))
        if came or late:
            return came, late
        now = time.monotonic()
        pause = max(_PAUSE, now - looked, _SHARE * (now - began))
        time.sleep(min(pause, _LONGEST_PAUSE, max(began + timeout - now, 0.0)))


@dataclass(frozen=True, kw_only=True)
class Exchange(ABC):
    """What is asked, and of whom."""

    action: ClassVar[str] = DRIFT_ACTION
    """Which of a node's handlers answers."""

    grid: Grid  # Flower's grid
    chosen: list[Participant]  # The cohort
    check: str  # Random id of the check, which replies repeat
    group: str  # Flower group id of its messages
    timeout: float  # Seconds to wait for the replies to each message

    @property
    @abstractmethod
    def terms(self) -> Terms:
        """What all clients are told."""

    @abstractmethod
    def content(self, members: Sequence[Participant]) -> RecordDict:
        """Return what a node is sent for its members."""

    def message(self, content: RecordDict, node: int, action: str | None = None) -> Message:
        """Return a message of this exchange."""
        kind = f"query.{action or self.action}"
        return Message(content, node, kind, ttl=self.timeout, group_id=self.group)


@dataclass(frozen=True, kw_only=True)
class CountExchange(Exchange):
    """A question for counts."""

    plan: QueryPlan  # The cells
    most_records: int  # That one may count, where records are protected; 0 for no limit
    trust: Trust  # Who adds the noise, and how much
    bits: BitSource  # For the noise of a session's night, where the server adds it
    model: ArrayRecord | None = None  # Shown to clients beside the terms
    # What aggregators signed of their answers, as it comes
    signed: list[SignedNumbers] = field(default_factory=list, init=False)
    _contents: dict[tuple[int, ...], RecordDict] = field(
        default_factory=dict, init=False, repr=False
    )
    """By members: one content for all nodes that have the same."""

    @cached_property
    def terms(self) -> Terms:
        """What all clients are told."""
        shown = NO_MODEL if self.model is None else model_fingerprint(self.model)
        asked = len(self.chosen)
        return self.trust.terms(
            self.plan,
            check=self.check,
            asked=asked,
            until=last_moment(self.timeout),
            most_records=self.most_records,
            model=shown,
        )

    def content(self, members: Sequence[Participant]) -> RecordDict:
        """Return what a node is sent for its members."""
        asked = tuple(p.member for p in members)
        if asked not in self._contents:
            record = ConfigRecord(Members([*asked]).to_config())
            self._contents[asked] = self.opening({MEMBERS: record})
        return self._contents[asked]

    def opening(self, records: Mapping[str, ConfigRecord]) -> RecordDict:
        """Return what a client is first sent: the terms, other records, and the model if any."""
        shown = {} if self.model is None else {MODEL: self.model}
        return RecordDict({TERMS: self._terms, **records, **shown})

    @cached_property
    def _terms(self) -> ConfigRecord:  # one record for all nodes, as in Flower's own strategies
        return ConfigRecord(self.terms.to_config())


@dataclass(frozen=True)
class Collected:
    """What came back from a cohort."""

    # Sum over the survivors: private until the trust model publishes it, or noised already
    total: ClearSum | LabelSum | ShareSum | Released
    left_out: dict[Participant, str]  # Why each participant that is not in the sum is not
    traffic: tuple[float, float]  # Bytes down and up for each participant asked, mean
    # How records are shared out among clients, where whoever adds up sees it and it is public
    sizes: ClientSizes | None = None
    noise: NightNoise | None = None  # Of a night of a session, where the server adds it
    carried: int = 0  # Clients of a session that are silent, and count as they did before


NO_REPLY = "no reply"
LONGEST_REASON = 200


def by_reason(left_out: Mapping[Participant, str]) -> dict[str, int]:
    """Count participants that were left out, each once."""
    return dict(Counter(left_out.values()))


def refusals(members: Iterable[Participant], answer: Answer) -> dict[Participant, str]:
    """Say why members of one node did not answer: a reason for each of them, or one for all."""
    reasons = [refusal(reason) for reason in answer.reasons]
    answered = set(answer.answered)
    unanswered = [p for p in members if p.member not in answered]
    return dict(zip(unanswered, reasons + reasons[-1:] * len(unanswered), strict=False))


def plain(reason: str) -> str:
    """Quote a node's reason: short, and nothing that a terminal would obey."""
    return "".join(filter(str.isprintable, reason[:LONGEST_REASON]))


def refusal(reason: str) -> str:
    """Quote a client's refusal."""
    return f"{_REFUSED}{plain(reason)}"


_REFUSED = "refused: "


def require_answers(answered: int, least: int, left_out: Mapping[Participant, str]) -> None:
    """Fail a check that too few clients answered; say if all of those asked refused.

    A refusal is a reply, which Flower says is the node's own; one client that is silent, or sent
    what is no answer, may have sent numbers.
    """
    why = by_reason(left_out)
    if not answered and left_out and all(said.startswith(_REFUSED) for said in why):
        told = "; ".join(f"{n}: {reason}" for reason, n in why.items())
        raise NobodyAnswered(f"every client refused ({told})")
    require_clients(answered, least, "answered", why)


_SILENT = (3, 4, 5)
"""Flower's words for a node that said nothing in time: message, reply or node unavailable."""


def failure(error: Error) -> str:
    """Say why a reply is an error; its text may quote a client's data, its code does not."""
    return NO_REPLY if error.code in _SILENT else f"client error (Flower code {error.code})"
