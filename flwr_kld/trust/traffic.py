"""What an exchange weighs under a trust model, from the messages that its terms call for.

Bytes are payload, as reports count it: what clients are sent and send themselves, without Flower's
own frames. Where a check asks two halves, forecasts give the exchange with the first one; in the
other one the question holds two scores a cell as well, and the answer is five numbers a column.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from flwr_kld.kernel.channels import KEY
from flwr_kld.messages.envelopes import ANSWER, ROSTER, Answer, Members
from flwr_kld.messages.sealing import OVERHEAD
from flwr_kld.messages.terms import Terms
from flwr_kld.sums import messages
from flwr_kld.sums.identity import SIGNATURE, Roster
from flwr_kld.sums.keys import PUBLIC, SEAL_OVERHEAD
from flwr_kld.sums.session import Session
from flwr_kld.sums.shamir import SHARE
from flwr_kld.sums.two_aggregators import Parcel, split_size
from flwr_kld.sums.wire import Slots

_WORD = 4
"""Bytes of a number, in the clear, sealed, or in the ring of a usual secure sum."""
_NAME = 22
"""Characters of a client's name: by default its node's id and its number there."""
_MEMBER = len("0")
"""A client's number on its node: the key of what it is sent."""


class Traffic(NamedTuple):
    """Bytes that one client receives (`down`) and sends (`up`) in an exchange."""

    down: int
    up: int


def traffic_of(terms: Terms) -> Traffic:
    """Return what a client is sent and answers with, in the clear, sealed or split."""
    sent = [terms.to_config(), Members([0]).to_config()]
    answer = len(Answer(terms.check, terms.plan, [0], []).to_config()[ANSWER])
    box = _WORD * terms.numbers
    if terms.trust == "trusted-aggregator":
        box += OVERHEAD
    elif terms.trust == "two-aggregators":
        seed, vector = bytes(KEY + OVERHEAD), bytes(split_size(terms) + OVERHEAD)
        box = len(Parcel("0" * _NAME, bytes(SIGNATURE), seed, vector).to_bytes())
    return Traffic(sum(map(_payload, sent)), answer + box)


def secure_traffic(terms: Terms, clients: int, known: int) -> Traffic:
    """Return what a secure sum of `clients` takes, of those whose keys are `known`."""
    roster = Roster({f"{i:0{_NAME}d}": i.to_bytes(32, "little") for i in range(known)})
    session = Session.open(
        roster,
        list(roster.names[:clients]),
        check=terms.check,
        terms=terms.fingerprint,
        length=terms.length,
    )
    k, tag = session.shape.neighbours, session.tag
    digest, signature, key = bytes(32), bytes(SIGNATURE), bytes(PUBLIC)
    boxes, adverts, locks = (
        Slots.of(np.ones(k, dtype=bool), np.zeros((k, width), dtype=np.uint8))
        for width in (messages.BOX, messages.ADVERT.itemsize, messages.LOCK.itemsize)
    )
    sealed = bytes(SHARE * (k + 1) + SEAL_OVERHEAD)
    down = [
        session.to_bytes(),
        messages.Adverts(tag, adverts).to_bytes(),
        messages.Deliveries(tag, boxes).to_bytes(),
        messages.Survivors(tag, clients, bytes((clients + 7) // 8)).to_bytes(),
    ]
    up = [
        messages.Advert(tag, 0, signature, key, key).to_bytes(),
        messages.SealedShares(tag, 0, signature, digest, boxes).to_bytes(),
        messages.MaskedVector(tag, 0, signature, bytes(_WORD * terms.length)).to_bytes(),
        messages.Reveal(tag, 0, signature, digest, locks, sealed).to_bytes(),
    ]
    opening = _payload(terms.to_config()) + _payload({ROSTER: roster.to_json()})
    return Traffic(opening + sum(len(text) + _MEMBER for text in down), sum(map(len, up)))


def _payload(config: Mapping[str, Any]) -> int:
    """Bytes of a Flower ConfigRecord, as Flower counts them."""
    return sum(len(key) + _size(value) for key, value in config.items())


def _size(value: Any) -> int:
    if isinstance(value, list):
        return sum(map(_size, value))
    if isinstance(value, str | bytes):
        return len(value)
    return 1 if isinstance(value, bool) else 8
