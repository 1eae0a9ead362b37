"""Relay sealed counts to an aggregator: the server carries boxes and receives noised numbers."""

from __future__ import annotations

from collections.abc import Sequence

from flwr.serverapp import Grid

from flwr_kld.cohort.cohort import Participant, require_clients
from flwr_kld.errors import CheckFailed
from flwr_kld.messages.envelopes import Published
from flwr_kld.strategies.aggregators import Roles, ask_aggregators, order_of
from flwr_kld.strategies.cohort_replies import CohortReplies
from flwr_kld.strategies.exchange import Collected, Exchange, by_reason, plain


class SealedSum:
    """Counts travel sealed for the aggregator of a `TrustedAggregator`.

    Every node is asked once whether it is the one: a node whose public key is the pinned one.
    """

    name = "sealed-sum"
    hides_parts = True
    holds_to_limits = True
    adds_noise = True

    def __init__(self) -> None:
        self._roles = Roles()

    def clients(self, present: list[Participant], grid: Grid, timeout: float) -> list[Participant]:
        """Leave out aggregators, ours or another's."""
        return self._roles.clients(present, grid, timeout)

    def prepare(
        self, chosen: list[Participant], grid: Grid, timeout: float, least: int, keys: Sequence[str]
    ) -> None:
        """Refuse a check whose aggregator is not there."""
        self._roles.require(grid, keys)

    def collect(self, exchange: Exchange, least: int) -> Collected:
        """Ask the cohort for boxes, hand them to the aggregator, and read what it publishes."""
        terms = exchange.terms
        if len(terms.aggregators) != 1:
            raise CheckFailed("counts can be sealed for a TrustedAggregator only")
        node = self._roles.holder(exchange.grid, terms.aggregators[0])
        cohort = CohortReplies(exchange)
        boxes = dict[Participant, bytes]()
        for participants, sealed in cohort.read():
            boxes |= zip(participants, sealed.into(list), strict=True)
        left_out = cohort.left_out
        require_clients(len(boxes), least, "answered", by_reason(left_out))
        order = order_of(exchange, least, boxes)
        [told] = ask_aggregators(exchange, {node: order}, Published)
        rejected = {
            participant: f"rejected by the aggregator: {plain(told.rejected[str(participant)])}"
            for participant in boxes
            if str(participant) in told.rejected
        }
        left = len(boxes) - len(rejected)
        carried = told.carried if terms.night else 0
        if (told.clients, len(told.rejected)) != (left + carried, len(rejected)):
            raise CheckFailed("the aggregator's numbers of clients do not add up")
        try:
            release = exchange.trust.event_of(exchange.plan, told.clients)
            released = told.released(release, terms.numbers, scored=terms.adds_scores)
        except ValueError as error:
            raise CheckFailed(f"the aggregator's answer cannot be used: {error}") from None
        down, up = cohort.traffic
        out = left_out | rejected
        return Collected(
            released, out, bytes_down=down, bytes_up=up, limit=told.limit, carried=carried
        )
