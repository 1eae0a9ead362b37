"""Relay sealed counts to an aggregator: the server carries boxes and receives noised numbers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from flwr.app import ConfigRecord, RecordDict
from flwr.serverapp import Grid

from flwr_kld.cohort.cohort import Participant, require_clients
from flwr_kld.errors import CheckFailed
from flwr_kld.kernel.arguments import whole
from flwr_kld.messages.plan_wire import PlanMessage
from flwr_kld.messages.published import Published
from flwr_kld.messages.question import AGGREGATE_ACTION, PLAN, QUESTION, SEALED, TERMS
from flwr_kld.messages.release_terms import ReleaseOrder, ReleaseTerms
from flwr_kld.messages.sum_terms import NoiseTerms
from flwr_kld.strategies.aggregator_replies import ask_aggregators
from flwr_kld.strategies.aggregator_roles import Roles
from flwr_kld.strategies.exchange import Collected, Exchange, NoisySum, by_reason, plain
from flwr_kld.strategies.sealed_replies import ask_for_boxes
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
    holds_to_limits = True
    """Whether somebody sees each client's numbers, and holds them to what one may answer."""
    adds_noise = True
    """Whether sums reach the server with their noise."""

    def clients(self, present: list[Participant], grid: Grid, timeout: float) -> list[Participant]:
        """Leave out aggregators, ours or another's."""
        if self.node is not None:
            return [p for p in present if p.node != self.node]
        return self._roles.clients(present, grid, timeout)

    def prepare(
        self, chosen: list[Participant], grid: Grid, timeout: float, least: int, keys: Sequence[str]
    ) -> None:
        """Refuse a check whose aggregator is not there."""
        if self.node is None:
            self._roles.require(grid, keys)
        elif self.node not in set(grid.get_node_ids()):
            raise CheckFailed(f"the aggregator, node {self.node}, is not connected")

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
        order = RecordDict(
            {
                QUESTION: ConfigRecord(exchange.question([0]).to_config()),
                TERMS: ConfigRecord(ReleaseOrder(terms.to_json(), least).to_config()),
                PLAN: ConfigRecord(PlanMessage.of(exchange.plan).to_config()),
                SEALED: ConfigRecord({str(p): box for p, box in boxes.sealed.items()}),
            }
        )
        [told] = ask_aggregators(exchange, AGGREGATE_ACTION, {node: order}, Published)
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
            limit=told.limit,
        )

    def _aggregator(self, exchange: Exchange, terms: ReleaseTerms) -> int:
        if self.node is not None:
            return self.node
        return self._roles.holder(exchange.grid, terms.aggregator)
