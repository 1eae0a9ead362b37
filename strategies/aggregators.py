"""Which nodes are aggregators, what they are handed, and the noised numbers they answer with."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TypeVar

from flwr.app import ConfigRecord, RecordDict
from flwr.serverapp import Grid

from flwr_kld.ask.cohort import Participant
from flwr_kld.common.errors import CheckFailed, SessionOver
from flwr_kld.kernel.count import InvalidReply
from flwr_kld.strategies.exchange import (
    NO_REPLY,
    CountExchange,
    failure,
    first_replies,
    refusal,
    replies,
)
from flwr_kld.trust.envelopes import (
    AGGREGATE_ACTION,
    ANSWER,
    CHALLENGE,
    NUMBERS,
    ORDER,
    PROOF,
    PUBLISHED,
    ROLE_ACTION,
    TERMS,
    VERIFIERS,
    Answer,
    Order,
    PartMessage,
    Published,
    Verifiers,
)
from flwr_kld.trust.sealing import AggregatorKey
from flwr_kld.trust.signed_numbers import SIGNED, SignedNumbers


class ByAggregators:
    """What ways to add up by aggregators share: they find them, and see sums with noise alone."""

    hides_parts = True
    adds_noise = True

    def __init__(self) -> None:
        self._keys: dict[int, str | None] = {}
        """What nodes said of themselves. Which keys they hold, they prove."""

    def clients(self, present: list[Participant], grid: Grid, timeout: float) -> list[Participant]:
        """Leave out aggregators, ours or another's; ask nodes that were not asked before."""
        unknown = sorted(set(grid.get_node_ids()) - self._keys.keys())
        self._keys.update(_ask_roles(grid, unknown, timeout))
        return [p for p in present if not self._keys.get(p.node)]

    def prepare(
        self, chosen: list[Participant], grid: Grid, timeout: float, least: int, keys: Sequence[str]
    ) -> None:
        """Refuse a check of which an aggregator is not there; the error is `holder`'s."""
        # Nodes that answered with an error are asked again at the next check then: most are
        # clients, whose apps know of no roles, but one may be the aggregator that is missing.
        try:
            for key in keys:
                self.holder(grid, key)
        except CheckFailed:
            self._keys = {node: key for node, key in self._keys.items() if key is not None}
            raise

    def holder(self, grid: Grid, key: str) -> int:
        """Return the connected node that holds a public key, hexadecimal."""
        connected = set(grid.get_node_ids())
        ours = [n for n, k in self._keys.items() if k == key and n in connected]
        if not ours:
            raise CheckFailed(
                "no connected node holds the aggregator's key: start a SuperNode with "
                """--node-config 'drift-role="aggregator" drift-key="/path/key"' and an app with """
                "aggregate_drift_checks"
            )
        return ours[-1]  # a node that came back under a new id was heard last


def _ask_roles(grid: Grid, nodes: Iterable[int], timeout: float) -> dict[int, str | None]:
    """Ask nodes for their role: an aggregator's public key, empty for another, None for errors."""
    keys: dict[int, str | None] = {}
    ours = AggregatorKey.generate()
    asked = {CHALLENGE: ConfigRecord({CHALLENGE: ours.public})}
    for node, reply in first_replies(grid, nodes, ROLE_ACTION, timeout, asked):
        record = reply.content.get(ANSWER) if reply.has_content() else None
        keys[node] = _proven(record, ours) if isinstance(record, ConfigRecord) else None
    return keys


def _proven(said: ConfigRecord, ours: AggregatorKey) -> str | None:
    """Return the public key that a node says and proves to hold, or that it has none."""
    key = said.get(ANSWER)
    if not isinstance(key, str) or not key:
        return "" if key == "" else None
    try:
        held = ours.proof(bytes.fromhex(key)) == said.get(PROOF)
    except ValueError:
        held = False
    # A client that names the aggregator's key would publish what it likes in its place.
    return key if held else "without a key"


_T = TypeVar("_T", Published, PartMessage, Verifiers)


def order_of(
    exchange: CountExchange,
    least: int,
    boxes: Mapping[Participant, bytes],
    verifiers: Sequence[bytes] = (),
    more: bool = False,
) -> RecordDict:
    """Return what an aggregator is sent: the terms, the fewest clients, and its boxes.

    One of two receives what the other sealed for it, too, and whether more boxes follow.
    """
    sent = {
        TERMS: ConfigRecord(exchange.terms.to_config()),
        ORDER: ConfigRecord(Order(least, more).to_config()),
        NUMBERS: ConfigRecord({str(p): box for p, box in boxes.items()}),
    }
    if verifiers:
        sent[VERIFIERS] = ConfigRecord({str(i): box for i, box in enumerate(verifiers)})
    return RecordDict({**sent})


def ask_aggregators(
    exchange: CountExchange, orders: Mapping[int, RecordDict], answers: type[_T]
) -> list[_T]:
    """Hand aggregators their boxes at once, and wait for all of them."""
    who = "the aggregator" if len(exchange.terms.aggregators) == 1 else "an aggregator"
    messages = [exchange.message(order, node, AGGREGATE_ACTION) for node, order in orders.items()]
    told: dict[int, _T] = {}
    for reply in replies(exchange.grid, messages, exchange.timeout):
        node = reply.metadata.src_node_id
        if node not in orders:
            continue
        if reply.has_error():
            why = failure(reply.error)
            if why == NO_REPLY:
                break
            raise CheckFailed(f"{who} failed: {why}")
        answer = reply.content.get(ANSWER)
        try:
            if isinstance(answer, ConfigRecord):
                told_why = Answer.from_config(answer)
                for reason in told_why.reasons:
                    if told_why.other_night:
                        raise SessionOver(f"{who} {refusal(reason)}")
                    raise CheckFailed(f"{who} {refusal(reason)}")
            part = answers.from_config(reply.content.get(PUBLISHED))
            if part.check != exchange.check:
                raise InvalidReply("it belongs to another check")
            signature = reply.content.get(SIGNED)
            if isinstance(signature, ConfigRecord) and not isinstance(part, Verifiers):
                numbers = SignedNumbers.of(exchange.terms, part)
                exchange.signed.append(numbers.with_signature(signature))
        except InvalidReply as error:
            raise CheckFailed(f"{who}'s answer cannot be used: {error}") from None
        told[node] = part
    if told.keys() != orders.keys():
        raise CheckFailed(f"{who} did not answer; count the check as spent")
    return [told[node] for node in orders]
