"""Relay each client's two boxes to two aggregators, and add up what these answer."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from flwr_kld.ask.cohort import Participant
from flwr_kld.common.errors import CheckFailed
from flwr_kld.kernel.channels import from_ring
from flwr_kld.kernel.count import InvalidReply
from flwr_kld.kernel.vector import Released
from flwr_kld.strategies.aggregators import ByAggregators, ask_aggregators, order_of
from flwr_kld.strategies.cohort_replies import CohortReplies
from flwr_kld.strategies.exchange import Collected, CountExchange, plain, require_answers
from flwr_kld.trust.envelopes import PartMessage
from flwr_kld.trust.split_sum import Parcel, split_length
from flwr_kld.trust.terms import Terms


class SplitSum(ByAggregators):
    """Counts travel in two parts, each sealed for an aggregator of `TwoAggregators`."""

    name = "split-sum"
    enforces_limits = False

    def collect(self, exchange: CountExchange, least: int) -> Collected:
        """Ask the cohort for parcels, hand each aggregator its part, and add up their answers."""
        terms = exchange.terms
        if len(terms.aggregators) != 2:
            raise CheckFailed("counts can be split for TwoAggregators only")
        nodes = [self.holder(exchange.grid, key) for key in terms.aggregators]
        cohort, portions = CohortReplies(exchange), dict[Participant, tuple[bytes, bytes]]()
        for participants, sealed in cohort.read():
            for participant, parcel in zip(participants, sealed.into(list), strict=True):
                try:
                    portions[participant] = Parcel.from_bytes(parcel).portions()
                except InvalidReply as error:
                    cohort.left_out[participant] = f"invalid reply: {error}"
        left_out = cohort.left_out
        require_answers(len(portions), least, left_out)
        orders = {
            node: order_of(exchange, least, {p: both[i] for p, both in portions.items()})
            for i, node in enumerate(nodes)
        }
        first, second = ask_aggregators(exchange, orders, PartMessage)
        for told in (second, first):  # who is left out by both, by the first one's reason
            for participant in portions:
                if (why := told.rejected.get(str(participant))) is not None:
                    left_out[participant] = f"rejected by the aggregators: {plain(why)}"
        carried = first.carried if terms.night else 0
        clients = len(exchange.chosen) - len(left_out) + carried
        total = _added(terms, first, second)
        if {first.clients, second.clients} != {clients}:
            raise CheckFailed("the aggregators' numbers of clients do not add up")
        released = _released(exchange, total, clients)
        return Collected(released, left_out, cohort.traffic, carried=carried)


def _released(exchange: CountExchange, total: NDArray[np.int64], clients: int) -> Released:
    """Read the sum of both answers: noised numbers, the records if they are counted, clients."""
    if total[-1] != clients:
        raise CheckFailed(
            f"the two parts add up to {total[-1]} clients where {clients} took part: a client's "
            "seed and vector do not belong together"
        )
    terms = exchange.terms
    noised = total[: terms.numbers]
    records = max(float(total[-2]), 1.0) if terms.counted else terms.layout.records(noised)
    release = exchange.trust.event(clients)
    return Released(noised, records, clients, release, private=True)


def _added(terms: Terms, first: PartMessage, second: PartMessage) -> NDArray[np.int64]:
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
        words = [part.words(split_length(terms)) for part in (first, second)]
        return from_ring(words[0] + words[1])
    except InvalidReply as error:
        raise CheckFailed(f"the aggregators' answers cannot be used: {error}") from None
