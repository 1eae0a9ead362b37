"""The clients' part of a check through an aggregator: boxes that the server cannot open."""

from __future__ import annotations

from collections import defaultdict

from flwr.app import ConfigRecord, Message

from flwr_kld.cohort.cohort import Participant
from flwr_kld.kernel.count import InvalidReply
from flwr_kld.messages.question import ANSWER, QUESTION, SEAL_ACTION, SEALED, TERMS, Answer
from flwr_kld.messages.release_terms import ReleaseTerms
from flwr_kld.messages.split_terms import SplitTerms
from flwr_kld.strategies.exchange import Exchange, failure, missing, refusal, refusals
from flwr_kld.strategies.replies import replies


class Boxes:
    """What came back; each participant counts at most once."""

    def __init__(self, exchange: Exchange) -> None:
        self.sealed: dict[Participant, bytes] = {}
        self.bytes_down = self.bytes_up = 0
        self.open: dict[int, list[Participant]] = defaultdict(list)
        """Members of each node that have not been heard."""
        for participant in exchange.chosen:
            self.open[participant.node].append(participant)
        self._chosen = exchange.chosen
        self._check, self._plan = exchange.check, exchange.plan.fingerprint
        self._heard: dict[Participant, str] = {}

    @property
    def left_out(self) -> dict[Participant, str]:
        """Why participants sealed nothing."""
        return missing(self._chosen, self.sealed, self._heard)

    def take(self, reply: Message) -> None:
        """Read one node's reply."""
        members = self.open.pop(reply.metadata.src_node_id, [])
        if not members:
            return  # nobody that was asked, or heard before
        if reply.has_error():
            self._leave_out(members, failure(reply.error))
            return
        try:
            self._read(reply, members)
        except InvalidReply as error:
            self._leave_out(members, f"invalid reply: {error}")

    def _leave_out(self, members: list[Participant], reason: str) -> None:
        self._heard.update(dict.fromkeys(members, reason))

    def _read(self, reply: Message, members: list[Participant]) -> None:
        record, boxes = reply.content.get(ANSWER), reply.content.get(SEALED)
        answer = Answer.from_config(record if isinstance(record, ConfigRecord) else {})
        if not answer.check and answer.reasons:
            self._leave_out(members, refusal(answer.reasons[0]))
            return
        if (answer.check, answer.plan) != (self._check, self._plan):
            raise InvalidReply("the reply belongs to another check")
        if not isinstance(boxes, ConfigRecord):
            raise InvalidReply("the reply carries no sealed counts")
        self._heard.update(refusals(members, answer))
        for participant in members:
            box = boxes.get(str(participant.member))
            if isinstance(box, bytes):
                self.sealed[participant] = box
                self.bytes_up += len(box)


def ask_for_boxes(
    exchange: Exchange, terms: ReleaseTerms | SplitTerms, action: str = SEAL_ACTION
) -> Boxes:
    """Ask the cohort for sealed counts, whole or split, and wait.

    Clients that do not reply in time, fail or refuse are left out and counted by reason.
    """
    boxes = Boxes(exchange)
    told = ConfigRecord({TERMS: terms.to_json()})
    messages = []
    for node, members in boxes.open.items():
        numbers = [participant.member for participant in members]
        question = ConfigRecord(exchange.question(numbers).to_config())
        content = exchange.opening({QUESTION: question, TERMS: told})
        boxes.bytes_down += sum(record.count_bytes() for record in content.values())
        messages.append(
            Message(
                content,
                node,
                f"query.{action}",
                ttl=exchange.timeout,
                group_id=exchange.group,
            )
        )
    for reply in replies(exchange.grid, messages, exchange.timeout):
        boxes.take(reply)
    return boxes
