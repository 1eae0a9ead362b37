"""Relay each client's two boxes to two aggregators, and add up what these answer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from flwr.app import ConfigRecord, RecordDict
from flwr.serverapp import Grid
from numpy.typing import NDArray

from flwr_kld.cohort.cohort import Participant, require_clients
from flwr_kld.errors import CheckFailed
from flwr_kld.kernel.channels import from_ring
from flwr_kld.kernel.count import InvalidReply
from flwr_kld.messages.question import PART_ACTION, SEALED, SPLIT_ACTION, TERMS
from flwr_kld.messages.split_terms import PartMessage, PartOrder, SplitTerms
from flwr_kld.messages.sum_terms import NoiseTerms
from flwr_kld.strategies.aggregator_replies import ask_aggregators
from flwr_kld.strategies.aggregator_roles import Roles
from flwr_kld.strategies.exchange import Collected, Exchange, NoisySum, by_reason, plain
from flwr_kld.strategies.sealed_replies import ask_for_boxes
from flwr_kld.sums.two_aggregators import Parcel
from flwr_kld.trust.two_aggregators import restored


@dataclass
class SplitSum:
    """Counts travel in two parts, each sealed for one of the aggregators of `TwoAggregators`.

    Every node is asked once whether it is one of them: a node whose public key is pinned.
    """

    _roles: Roles = field(default_factory=Roles, repr=False)

    name = "split-sum"
    hides_parts = True
    """Whether the server sees sums only."""
    holds_to_limits = False
    """Whether somebody sees each client's numbers, and holds them to what one may answer."""
    adds_noise = True
    """Whether sums reach the server with their noise."""

    def clients(self, present: list[Participant], grid: Grid, timeout: float) -> list[Participant]:
        """Leave out aggregators, ours or another's."""
        return self._roles.clients(present, grid, timeout)

    def prepare(
        self, chosen: list[Participant], grid: Grid, timeout: float, least: int, keys: Sequence[str]
    ) -> None:
        """Refuse a check of which an aggregator is not there."""
        self._roles.require(grid, keys)

    def collect(self, exchange: Exchange, noise: NoiseTerms | None, least: int) -> Collected:
        """Ask the cohort for parcels, hand each aggregator its part, and add up their answers."""
        terms = exchange.release
        if not isinstance(terms, SplitTerms):
            raise CheckFailed("counts can be split for TwoAggregators only")
        nodes = [self._roles.holder(exchange.grid, key) for key in (terms.seeds, terms.vectors)]
        boxes = ask_for_boxes(exchange, terms, SPLIT_ACTION)
        left_out, portions = boxes.left_out, dict[Participant, tuple[bytes, bytes]]()
        for participant, raw in boxes.sealed.items():
            try:
                portions[participant] = Parcel.from_bytes(raw).portions()
            except InvalidReply as error:
                left_out[participant] = f"invalid reply: {error}"
        require_clients(len(portions), least, "answered", by_reason(left_out))
        orders = _orders(exchange, terms, nodes, portions, least)
        first, second = ask_aggregators(exchange, PART_ACTION, orders, PartMessage)
        for told in (second, first):  # who is left out by both, by the first one's reason
            for participant in portions:
                if (why := told.rejected.get(str(participant))) is not None:
                    left_out[participant] = f"rejected by the aggregators: {plain(why)}"
        people = len(exchange.chosen)
        total = _added(terms, first, second)
        clients = people - len(left_out)
        if {first.clients, second.clients} != {clients}:
            raise CheckFailed("the aggregators' numbers of clients do not add up")
        try:
            published = restored(terms, total, clients, exchange.plan)
        except ValueError as error:
            raise CheckFailed(str(error)) from None
        return Collected(
            NoisySum(clients, published),
            left_out,
            bytes_down=boxes.bytes_down / people,
            bytes_up=boxes.bytes_up / people,
        )


def _orders(
    exchange: Exchange,
    terms: SplitTerms,
    nodes: list[int],
    portions: Mapping[Participant, tuple[bytes, bytes]],
    least: int,
) -> dict[int, RecordDict]:
    """Return what each of the two is sent: the order, and every client's box for it."""
    asked = exchange.question([])
    order = PartOrder(exchange.check, asked.reference, asked.fingerprint, terms.to_json(), least)
    told = ConfigRecord(order.to_config())
    return {
        node: RecordDict(
            {TERMS: told, SEALED: ConfigRecord({str(p): both[i] for p, both in portions.items()})}
        )
        for i, node in enumerate(nodes)
    }


def _added(terms: SplitTerms, first: PartMessage, second: PartMessage) -> NDArray[np.int64]:
    """Return the noised sum: each answer's mask takes the other's off, if they fit together."""
    if first.transcript != second.transcript:
        one_only = first.rejected.keys() ^ second.rejected.keys()
        why = {
            f"{plain(sender)}: {plain(reason)}"
            for told in (first, second)
            for sender, reason in told.rejected.items()
            if sender in one_only
        }
        said = "; ".join(sorted(why)) or "the boxes that they opened differ"
        raise CheckFailed(
            f"the two aggregators did not add up the same clients, so nothing can be read: {said}"
        )
    try:
        return from_ring(first.words(terms) + second.words(terms), terms.bits)
    except InvalidReply as error:
        raise CheckFailed(f"the aggregators' answers cannot be used: {error}") from None
