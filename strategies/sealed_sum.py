"""Relay sealed counts to an aggregator: the server carries boxes and receives noised numbers."""

from __future__ import annotations

from flwr_kld.ask.cohort import Participant
from flwr_kld.common.errors import CheckFailed
from flwr_kld.strategies.aggregators import ByAggregators, ask_aggregators, order_of
from flwr_kld.strategies.cohort_replies import CohortReplies
from flwr_kld.strategies.exchange import Collected, CountExchange, plain, require_answers
from flwr_kld.trust.envelopes import Published
from flwr_kld.trust.session_book import silent_names


class SealedSum(ByAggregators):
    """Counts travel sealed for the aggregator of a `TrustedAggregator`.

    Every node is asked once whether it is the one: a node whose public key is the pinned one.
    """

    name = "sealed-sum"
    enforces_limits = True

    def collect(self, exchange: CountExchange, least: int) -> Collected:
        """Ask the cohort for boxes, hand them to the aggregator, and read what it publishes."""
        terms = exchange.terms
        if len(terms.aggregators) != 1:
            raise CheckFailed("counts can be sealed for a TrustedAggregator only")
        node = self.holder(exchange.grid, terms.aggregators[0])
        cohort = CohortReplies(exchange)
        boxes = dict[Participant, bytes]()
        for participants, sealed in cohort.read():
            boxes |= zip(participants, sealed.into(list), strict=True)
        left_out = cohort.left_out
        require_answers(len(boxes), least, left_out)
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
        in_the_sum = {str(client) for client in boxes if client not in rejected}
        in_the_sum.update(silent_names(carried))
        if told.sizes is not None and told.sizes.holder not in in_the_sum:
            raise CheckFailed("the aggregator names a client whose numbers are not in its sum")
        try:
            release = exchange.trust.event(told.clients)
            released = told.released(release, terms)
        except ValueError as error:
            raise CheckFailed(f"the aggregator's answer cannot be used: {error}") from None
        out = left_out | rejected
        return Collected(released, out, cohort.traffic, sizes=told.sizes, carried=carried)
