"""A cohort is asked once, and what it answers: numbers, or boxes that the server cannot open."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Container, Iterator
from typing import Any

from flwr.app import ConfigRecord, Message, RecordDict

from flwr_kld.cohort.cohort import Participant
from flwr_kld.kernel.count import InvalidReply
from flwr_kld.kernel.vector import Held
from flwr_kld.messages.envelopes import ANSWER, DRIFT_ACTION, MEMBERS, NUMBERS, Answer, Members
from flwr_kld.strategies.exchange import Exchange, failure, missing, refusal, refusals, replies


class CohortReplies:
    """The replies of one exchange; each participant counts at most once."""

    # Clients that do not reply in time, fail, refuse, or send something that is not an answer are
    # left out and counted by reason; nothing they do can stop the others.

    def __init__(self, exchange: Exchange) -> None:
        self._exchange = exchange
        self._open: dict[int, dict[int, Participant]] = defaultdict(dict)
        """Members of each node that have not been heard."""
        for participant in exchange.chosen:
            self._open[participant.node][participant.member] = participant
        self._heard: dict[Participant, str] = {}
        self._down = self._up = 0

    def read(self) -> Iterator[tuple[Participant, Held[bytes]]]:
        """Ask everybody, wait, and yield what each participant answers with."""
        exchange, messages = self._exchange, []
        told: dict[tuple[int, ...], RecordDict] = {}
        for node, members in self._open.items():
            asked = tuple(members)
            if asked not in told:
                record = ConfigRecord(Members(list(asked)).to_config())
                told[asked] = exchange.opening({MEMBERS: record})
            messages.append(exchange.message(told[asked], node, DRIFT_ACTION))
            self._down += sum(record.count_bytes() for record in told[asked].values())
        for reply in replies(exchange.grid, messages, exchange.timeout):
            node = reply.metadata.src_node_id
            if node not in self._open:
                continue  # nobody that was asked
            try:
                yield from self._answers(node, reply)
            except InvalidReply as error:
                self._leave_out(node, f"invalid reply: {error}")

    def refuse(self, participant: Participant, reason: str) -> None:
        """Say why the answer of a participant does not count."""
        self._heard[participant] = reason

    def left_out(self, counted: Container[Participant]) -> dict[Participant, str]:
        """Say why everybody who is not counted is not."""
        return missing(self._exchange.chosen, counted, self._heard)

    @property
    def traffic(self) -> tuple[float, float]:
        """Payload for each participant asked, down and up, mean."""
        people = len(self._exchange.chosen)
        return self._down / people, self._up / people

    def _answers(self, node: int, reply: Message) -> Iterator[tuple[Participant, Held[bytes]]]:
        members = self._open[node]
        if reply.has_error():
            self._leave_out(node, failure(reply.error))
            return
        answer = Answer.from_config(reply.content.get(ANSWER))
        if not answer.check and answer.reasons:
            self._leave_out(node, refusal(answer.reasons[0]))
            return
        terms = self._exchange.terms
        if (answer.check, answer.plan) != (terms.check, terms.plan):
            raise InvalidReply("the reply belongs to another check")
        if not isinstance(reply.content.get(NUMBERS), ConfigRecord):
            raise InvalidReply("the reply carries no numbers")
        self._heard.update(refusals(members.values(), answer))
        self._up += len(answer.to_json())
        for member in list(members):
            # Exact numbers, if the server may see them: no frame holds them.
            held: Held[Any] = Held(reply.content[NUMBERS].get(str(member)))
            if held.into(type) is bytes:
                self._up += held.into(len)
                yield members.pop(member), held
            elif member in answer.answered:
                self._heard[members[member]] = "invalid reply: it carries no numbers"

    def _leave_out(self, node: int, reason: str) -> None:
        self._heard.update(dict.fromkeys(self._open[node].values(), reason))
        self._open[node].clear()
