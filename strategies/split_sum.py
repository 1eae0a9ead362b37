"""Relay each client's two boxes to two aggregators, and what these say of its proof; add up."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
from numpy.typing import NDArray

from flwr_kld.ask.cohort import Participant
from flwr_kld.common.errors import CheckFailed
from flwr_kld.kernel.channels import from_field
from flwr_kld.kernel.count import InvalidReply
from flwr_kld.kernel.vector import Released
from flwr_kld.secure_sums import split_sum
from flwr_kld.secure_sums.split_sum import FIELD, NOT_PROVED, Parcel
from flwr_kld.strategies.aggregators import ByAggregators, ask_aggregators, order_of
from flwr_kld.strategies.cohort_replies import CohortReplies
from flwr_kld.strategies.exchange import Collected, CountExchange, plain, require_answers
from flwr_kld.trust.envelopes import PartMessage, Verifiers
from flwr_kld.trust.session_book import silent_names
from flwr_kld.trust.terms import Terms


class SplitSum(ByAggregators):
    """Counts travel in two shares with a proof, sealed for the aggregators of `TwoAggregators`."""

    name = "split-sum"
    enforces_limits = True

    def collect(self, exchange: CountExchange, least: int) -> Collected:
        """Ask the cohort for parcels, have both aggregators check them, and add up their answers.

        Of each portion of boxes the first aggregator returns its verifier shares, and the second
        which proofs hold; with the last one, its part. Then the first one returns its own.
        """
        terms = exchange.terms
        if len(terms.aggregators) != 2:
            raise CheckFailed("counts can be split for TwoAggregators only")
        first_node, second_node = (self.holder(exchange.grid, key) for key in terms.aggregators)
        cohort, seeds, said = CohortReplies(exchange), dict[Participant, bytes](), list[bytes]()
        for portion, more in _portions(cohort):
            own, others = ({p: both[i] for p, both in portion.items()} for i in range(2))
            seeds |= own
            if not more:
                require_answers(len(seeds), least, cohort.left_out)
            order = order_of(exchange, least, own)
            [shares] = ask_aggregators(exchange, {first_node: order}, Verifiers)
            order = order_of(exchange, least, others, [shares.box], more)
            if more:
                [decided] = ask_aggregators(exchange, {second_node: order}, Verifiers)
                said.append(decided.box)
            else:
                [second] = ask_aggregators(exchange, {second_node: order}, PartMessage)
                said.append(second.verifiers)
        order = order_of(exchange, least, seeds, said)
        [first] = ask_aggregators(exchange, {first_node: order}, PartMessage)
        left_out = cohort.left_out
        left_out |= _rejected(seeds, first, second)
        carried = first.carried if terms.night else 0
        clients = len(exchange.chosen) - len(left_out) + carried
        total = _added(terms, first, second)
        if {first.clients, second.clients} != {clients}:
            raise CheckFailed("the aggregators' numbers of clients do not add up")
        if (first.sizes, first.records) != (second.sizes, second.records):
            raise CheckFailed("the aggregators' numbers of records differ")
        in_the_sum = {str(client) for client in seeds if client not in left_out}
        in_the_sum.update(silent_names(carried))
        if first.sizes is not None and first.sizes.holder not in in_the_sum:
            raise CheckFailed("the aggregators name a client whose numbers are not in their sum")
        released = _released(exchange, total, clients, first.records)
        return Collected(released, left_out, cohort.traffic, sizes=first.sizes, carried=carried)


def _portions(
    cohort: CohortReplies,
) -> Iterator[tuple[dict[Participant, tuple[bytes, bytes]], bool]]:
    """Yield what both aggregators receive, as it comes, and whether more follows."""
    portion, size = dict[Participant, tuple[bytes, bytes]](), 0
    for participants, sealed in cohort.read():
        for participant, parcel in zip(participants, sealed.into(list), strict=True):
            try:
                parts = Parcel.from_bytes(parcel).portions()
            except InvalidReply as error:
                cohort.left_out[participant] = f"invalid reply: {error}"
                continue
            if portion and size + len(parcel) > split_sum.PORTION:
                yield portion, True
                portion, size = {}, 0
            portion[participant] = parts
            size += len(parcel)
    yield portion, False


def _rejected(
    clients: Iterable[Participant], first: PartMessage, second: PartMessage
) -> dict[Participant, str]:
    """Say why the aggregators left clients out; one of them may know more than the other."""
    left_out = dict[Participant, str]()
    for participant in clients:
        reasons = [
            told.rejected[p] for told in (first, second) if (p := str(participant)) in told.rejected
        ]
        for why in sorted(reasons, key=NOT_PROVED.__ne__):
            left_out[participant] = f"rejected by the aggregators: {plain(why)}"
    return left_out


def _released(
    exchange: CountExchange, total: NDArray[np.int64], clients: int, records: int
) -> Released:
    """Return the sum of both answers as what was released."""
    terms = exchange.terms
    public = terms.layout.total_is_public(terms.guarantee)
    known = max(float(records), 1.0) if public else terms.layout.records(total)
    return Released(total, known, clients, exchange.trust.event(clients), private=True)


def _added(terms: Terms, first: PartMessage, second: PartMessage) -> NDArray[np.int64]:
    """Return the noised sum: each answer's mask takes the other's off, if they fit together."""
    if first.transcript != second.transcript:
        raise CheckFailed(
            "the two aggregators did not add up the same clients, so nothing can be read"
        )
    try:
        parts = [FIELD.decode(part.values) for part in (first, second)]
    except InvalidReply as error:
        raise CheckFailed(f"the aggregators' answers cannot be used: {error}") from None
    if any(len(part) != terms.numbers for part in parts):
        raise CheckFailed("an aggregator's part has another length than the sum")
    return from_field(FIELD.add(*parts))
