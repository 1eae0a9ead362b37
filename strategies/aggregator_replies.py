"""The aggregators' part of a check: they are handed boxes, and answer with noised numbers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

from flwr.app import ConfigRecord, RecordDict

from flwr_kld.cohort.cohort import Participant
from flwr_kld.errors import CheckFailed
from flwr_kld.kernel.count import InvalidReply
from flwr_kld.messages.envelopes import (
    AGGREGATE_ACTION,
    ANSWER,
    NUMBERS,
    ORDER,
    PUBLISHED,
    TERMS,
    Answer,
    Order,
    PartMessage,
    Published,
)
from flwr_kld.strategies.exchange import NO_REPLY, Exchange, failure, refusal
from flwr_kld.strategies.replies import replies

_T = TypeVar("_T", Published, PartMessage)


def order_of(exchange: Exchange, least: int, boxes: Mapping[Participant, bytes]) -> RecordDict:
    """Return what an aggregator is sent: the terms, the fewest clients, and its boxes."""
    return RecordDict(
        {
            TERMS: ConfigRecord(exchange.terms.to_config()),
            ORDER: ConfigRecord(Order(least).to_config()),
            NUMBERS: ConfigRecord({str(p): box for p, box in boxes.items()}),
        }
    )


def ask_aggregators(
    exchange: Exchange, orders: Mapping[int, RecordDict], answers: type[_T]
) -> list[_T]:
    """Hand aggregators their boxes at once, and wait for all of them."""
    who = "the aggregator" if len(orders) == 1 else "an aggregator"
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
        answer, published = reply.content.get(ANSWER), reply.content.get(PUBLISHED)
        try:
            if isinstance(answer, ConfigRecord):
                for reason in Answer.from_config(answer).reasons:
                    raise CheckFailed(f"{who} {refusal(reason)}")
            part = answers.from_config(published if isinstance(published, ConfigRecord) else {})
            if part.check != exchange.check:
                raise InvalidReply("it belongs to another check")
        except InvalidReply as error:
            raise CheckFailed(f"{who}'s answer cannot be used: {error}") from None
        told[node] = part
    if told.keys() != orders.keys():
        raise CheckFailed(f"{who} did not answer; count the check as spent")
    return [told[node] for node in orders]
