"""Relay sealed counts to an aggregator: the server carries boxes and receives noised numbers."""

from __future__ import annotations

from dataclasses import dataclass, field

from flwr.app import ConfigRecord, Message, RecordDict
from flwr.serverapp import Grid

from flwr_kld.arguments import whole
from flwr_kld.cohort.cohort import Participant, require_clients
from flwr_kld.errors import CheckFailed, InvalidReply
from flwr_kld.messages.plan_wire import PlanMessage
from flwr_kld.messages.published import Published
from flwr_kld.messages.question import (
    AGGREGATE_ACTION,
    ANSWER,
    PLAN,
    PUBLISHED,
    QUESTION,
    SEALED,
    TERMS,
    Answer,
)
from flwr_kld.messages.release_terms import ReleaseOrder, ReleaseTerms
from flwr_kld.messages.sum_terms import NoiseTerms
from flwr_kld.strategies.aggregator_roles import Roles
from flwr_kld.strategies.exchange import (
    NO_REPLY,
    Collected,
    Exchange,
    NoisySum,
    by_reason,
    failure,
    plain,
    refusal,
)
from flwr_kld.strategies.replies import replies
from flwr_kld.strategies.sealed_replies import Boxes, ask_for_boxes
from flwr_kld.trust.trusted_aggregator import trusted_of


@dataclass
class SealedSum:
    """Counts travel sealed for the aggregator of a `TrustedAggregator`.

    Parameters
    ----------
    node : int, optional
        The aggregator's Flower node id. By default every node is asked once whether it is the
        one: a node whose public key is the pinned one. A wrong answer costs the check, no more.
    """

    node: int | None = None
    _roles: Roles = field(default_factory=Roles, repr=False)

    def __post_init__(self) -> None:
        if self.node is not None:
            self.node = whole("node", self.node)

    name = "sealed-sum"
    hides_parts = True
    """Whether the server sees sums only."""
    adds_noise = True
    """Whether sums reach the server with their noise."""

    def clients(self, present: list[Participant], grid: Grid, timeout: float) -> list[Participant]:
        """Leave out aggregators, ours or another's."""
        if self.node is not None:
            return [p for p in present if p.node != self.node]
        return self._roles.clients(present, grid, timeout)

    def collect(self, exchange: Exchange, noise: NoiseTerms | None, least: int) -> Collected:
        """Ask the cohort for boxes, hand them to the aggregator, and read what it publishes.

        Raises
        ------
        CheckFailed
            If fewer than `least` clients sealed their counts, or the aggregator does not answer,
            or refuses.
        """
        terms = exchange.release
        if not isinstance(terms, ReleaseTerms):
            raise CheckFailed("counts can be sealed for a TrustedAggregator only")
        node = self._aggregator(exchange, terms)
        boxes = ask_for_boxes(exchange, terms)
        people = len(exchange.chosen)
        require_clients(len(boxes.sealed), least, "answered", by_reason(boxes.left_out))
        told = _ask_aggregator(exchange, terms, node, boxes, least)
        rejected = {
            participant: f"rejected by the aggregator: {plain(told.rejected[str(participant)])}"
            for participant in boxes.sealed
            if str(participant) in told.rejected
        }
        left = len(boxes.sealed) - len(rejected)
        if (told.clients, len(told.rejected)) != (left, len(rejected)):
            raise CheckFailed("the aggregator's numbers of clients do not add up")
        try:
            published = trusted_of(terms).restore(told, exchange.plan)
        except ValueError as error:
            raise CheckFailed(f"the aggregator's answer cannot be used: {error}") from None
        return Collected(
            NoisySum(told.clients, published),
            boxes.left_out | rejected,
            bytes_down=boxes.bytes_down / people,
            bytes_up=boxes.bytes_up / people,
        )

    def _aggregator(self, exchange: Exchange, terms: ReleaseTerms) -> int:
        if self.node is not None:
            return self.node
        return self._roles.holder(exchange.grid, terms.aggregator)


def _ask_aggregator(
    exchange: Exchange, terms: ReleaseTerms, node: int, boxes: Boxes, least: int
) -> Published:
    content = RecordDict(
        {
            QUESTION: ConfigRecord(exchange.question([0]).to_config()),
            TERMS: ConfigRecord(ReleaseOrder(terms.to_json(), least).to_config()),
            PLAN: ConfigRecord(PlanMessage.of(exchange.plan).to_config()),
            SEALED: ConfigRecord({str(p): box for p, box in boxes.sealed.items()}),
        }
    )
    message = Message(
        content, node, f"query.{AGGREGATE_ACTION}", ttl=exchange.timeout, group_id=exchange.group
    )
    for reply in replies(exchange.grid, [message], exchange.timeout):
        if reply.metadata.src_node_id != node:
            continue
        if reply.has_error():
            why = failure(reply.error)
            if why == NO_REPLY:
                break
            raise CheckFailed(f"the aggregator failed: {why}")
        try:
            return _read(reply.content, exchange)
        except InvalidReply as error:
            raise CheckFailed(f"the aggregator's answer cannot be used: {error}") from None
    raise CheckFailed("the aggregator did not answer; count the check as spent")


def _read(content: RecordDict, exchange: Exchange) -> Published:
    answer, published = content.get(ANSWER), content.get(PUBLISHED)
    if isinstance(answer, ConfigRecord):
        reasons = Answer.from_config(answer).reasons
        if reasons:
            raise CheckFailed(f"the aggregator {refusal(reasons[0])}")
    told = Published.from_config(published if isinstance(published, ConfigRecord) else {})
    if (told.check, told.plan) != (exchange.check, exchange.plan.fingerprint):
        raise InvalidReply("it belongs to another check")
    return told
