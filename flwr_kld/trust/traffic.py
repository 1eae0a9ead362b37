"""What an exchange weighs under a trust model, from the messages that its terms call for.

Bytes are payload, as reports count it: what clients are sent and send themselves, without Flower's
own frames. In a check that decides, forecasts give the exchange with the first half; in the other
one the question holds two scores a cell as well, and the answer is five numbers a column.
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
from flwr_kld.sums.graph import Tolerance, choose_shape
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


def secure_traffic(terms: Terms, clients: int, known: int, twice: bool) -> Traffic:
    """Return what a secure sum of `clients` takes, of those whose keys are `known`."""
    # Where they are asked `twice`, keys are set up for both sums along with the first.
    roster = Roster({f"{i:0{_NAME}d}": i.to_bytes(32, "little") for i in range(known)})
    down, up = payload_of_sum(
        roster,
        check=terms.check,
        plan=terms.fingerprint,
        clients=clients,
        length=terms.length,
        word=_WORD,
        sums=(0 if terms.adds_scores else 2) if twice else 1,
    )
    opening = _payload(terms.to_config()) + _payload({ROSTER: roster.to_json()})
    return Traffic(opening + sum(size + _MEMBER for size in down), sum(up))


def _payload(config: Mapping[str, Any]) -> int:
    """Bytes of a Flower ConfigRecord, as Flower counts them."""
    return sum(len(key) + _size(value) for key, value in config.items())


def _size(value: Any) -> int:
    if isinstance(value, list):
        return sum(map(_size, value))
    if isinstance(value, str | bytes):
        return len(value)
    return 1 if isinstance(value, bool) else 8


def payload_of_sum(
    roster: Roster, *, check: str, plan: str, clients: int, length: int, word: int, sums: int
) -> tuple[list[int], list[int]]:
    """Return the bytes of each message to and from a client of a sum without dropouts."""
    shape, everybody = choose_shape(clients, Tolerance()), bytes((clients + 7) // 8)
    participants = list(roster.names[:clients])
    session = Session.open(
        roster, participants, check=check, terms=plan, length=length, shape=shape, sums=sums or 2
    )
    if not sums:
        session = session.following(everybody, check=check, terms=plan, length=length)
    k, tag = shape.neighbours, session.tag
    digest, signature = bytes(32), bytes(SIGNATURE)

    def slots(width: int) -> Slots:
        return Slots.of(np.ones(k, dtype=bool), np.zeros((k, width), dtype=np.uint8))

    sealed = bytes(SHARE * (k + 1) + SEAL_OVERHEAD)
    down, up = [session.to_bytes()], list[bytes]()
    if sums:
        boxes, keys = slots(messages.box_size(sums)), bytes(PUBLIC)
        adverts = slots(messages.advert_layout(sums).itemsize)
        down += [
            messages.Adverts(tag, sums, adverts).to_bytes(),
            messages.Deliveries(tag, sums, boxes).to_bytes(),
        ]
        up += [
            messages.Advert(tag, 0, signature, sums * keys, keys).to_bytes(),
            messages.SealedShares(tag, 0, signature, sums * digest, boxes).to_bytes(),
        ]
    down += [messages.Survivors(tag, clients, everybody).to_bytes()]
    up += [
        messages.MaskedVector(tag, 0, signature, bytes(word * length)).to_bytes(),
        messages.Reveal(
            tag, 0, signature, digest, slots(messages.LOCK.itemsize), sealed
        ).to_bytes(),
    ]
    return list(map(len, down)), list(map(len, up))
