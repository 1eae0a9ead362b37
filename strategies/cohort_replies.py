"""A cohort is asked once, and what it answers: numbers, or boxes that the server cannot open."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from functools import partial
from typing import Any

from flwr.app import ConfigRecord, Message

from flwr_kld.ask.cohort import Participant
from flwr_kld.common.errors import SessionOver
from flwr_kld.kernel.count import InvalidReply
from flwr_kld.kernel.vector import Held
from flwr_kld.strategies.exchange import NO_REPLY, Exchange, failure, refusal, refusals, replies
from flwr_kld.trust.envelopes import ANSWER, NUMBERS, Answer

_NO_NUMBERS = "the reply carries no numbers, or not one row for each client that answered"


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
        self.left_out = dict.fromkeys(exchange.chosen, NO_REPLY)
        """Why each participant that is not counted is not; silence is a reason."""
        self._down = self._up = 0

    def read(self) -> Iterator[tuple[list[Participant], Held[list[bytes]]]]:
        """Ask everybody, wait, and yield what the participants on each node answer with."""
        exchange, messages, sizes = self._exchange, [], dict[int, int]()
        for node, members in self._open.items():
            content = exchange.content([*members.values()])
            if id(content) not in sizes:
                sizes[id(content)] = sum(each.count_bytes() for each in content.values())
            messages.append(exchange.message(content, node))
            self._down += sizes[id(content)]
        for reply in replies(exchange.grid, messages, exchange.timeout):
            node = reply.metadata.src_node_id
            if node not in self._open:
                continue  # nobody that was asked
            try:
                answered, numbers = self._answers(node, reply)
            except InvalidReply as error:
                self._leave_out(node, f"invalid reply: {error}")
            else:
                for participant in answered:
                    del self.left_out[participant]
                yield answered, numbers

    @property
    def traffic(self) -> tuple[float, float]:
        """Payload for each participant asked, down and up, mean."""
        people = len(self._exchange.chosen)
        return self._down / people, self._up / people

    def _answers(self, node: int, reply: Message) -> tuple[list[Participant], Held[list[bytes]]]:
        """Return who answered, and with what; nobody if it says for all of them why not."""
        members = self._open[node]
        nothing = list[Participant](), Held(list[bytes]())
        if reply.has_error():
            self._leave_out(node, failure(reply.error))
            return nothing
        answer = Answer.from_config(reply.content.get(ANSWER))
        if not answer.terms and answer.reasons:
            self._leave_out(node, refusal(answer.reasons[0]))
            return nothing
        terms = self._exchange.terms
        if answer.terms != terms.fingerprint:
            raise InvalidReply("the reply belongs to another check")
        if answer.other_night and terms.night is not None:  # before anything is released
            if terms.night.number == 1:
                raise InvalidReply("it has counted a night of a session that begins now")
            raise SessionOver(
                f"a client has counted night {answer.other_night}, which does not lead to night "
                f"{terms.night.number}, the next one of this server's ledger"
            )
        if not set(answer.answered) <= members.keys():
            raise InvalidReply("it answers for clients that are not asked, or have answered")
        self.left_out |= refusals(members.values(), answer)
        self._up += len(str(reply.content[ANSWER][ANSWER]))
        if not answer.answered:
            return nothing
        if not isinstance(reply.content.get(NUMBERS), ConfigRecord):
            raise InvalidReply(_NO_NUMBERS)
        # Exact numbers, if the server may see them: no frame holds them.
        held: Held[Any] = Held(reply.content[NUMBERS].get(NUMBERS))
        if held.into(type) is not list or held.into(len) != len(answer.answered):
            raise InvalidReply(_NO_NUMBERS)
        if set(held.into(partial(map, type))) != {bytes}:
            raise InvalidReply(_NO_NUMBERS)
        self._up += sum(held.into(partial(map, len)))
        return [members.pop(member) for member in answer.answered], held

    def _leave_out(self, node: int, reason: str) -> None:
        self.left_out |= dict.fromkeys(self._open[node].values(), reason)
        self._open[node].clear()
