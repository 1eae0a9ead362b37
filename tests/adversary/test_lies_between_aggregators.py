"""A client library that lies to two aggregators moves their sum by its own records at most."""

from dataclasses import replace
from hashlib import sha256

import numpy as np
import pytest
from splitting import RUN, Actors, agreed

from flwr_kld.kernel import Guarantee
from flwr_kld.kernel.channels import seal
from flwr_kld.kernel.count import InvalidReply
from flwr_kld.kernel.promise import WholeClients
from flwr_kld.prio3.circuit import Counts
from flwr_kld.prio3.field import Field64
from flwr_kld.trust.sealing import SealContext

P = Field64.modulus
LIAR = "client-1"
MOST = 100
WORLDS = {
    "records": {"cells": [5, 4], "asked_for": None},
    "clients": {
        "cells": [5, 4], "asked_for": None, "most_records": MOST,
        "guarantee": Guarantee(1.0, protects=WholeClients(MOST)),
    },
}  # fmt: skip


def bit(place, value):
    """Bits of which one is none, or turned."""

    def lie(bits):
        at = place % len(bits)
        bits[at] = (1 - int(bits[at])) % P if value is None else value % P
        return bits

    return lie


def from_one_to_another(amount):
    """Records go from one cell to another: what a column adds up to stays."""

    def lie(bits):
        own = len(bits) // 10
        bits[0], bits[own] = (int(bits[0]) + amount) % P, (int(bits[own]) - amount) % P
        return bits

    return lie


BITS = [
    *(bit(place, value) for place in (0, 21) for value in (None, 2, -1, 10**9, P // 2)),
    *(from_one_to_another(amount) for amount in (2, P // 2)),
]


def resigned(actors, parcel, name=LIAR, head=None, **boxes):
    """A parcel as the liar signs it."""
    head = replace(head or parcel.head, name=name)
    changed = replace(parcel, head=head, **boxes)
    context = SealContext(RUN, actors.terms.fingerprint, name)
    digests = sha256(changed.seeds).digest(), sha256(changed.elements).digest()
    signature = actors.who[name].sign(head.signed_text(context, *digests))
    return replace(changed, head=replace(head, signature=signature))


def boxed(actors, place, content):
    context = SealContext(RUN, actors.terms.fingerprint, LIAR)
    return seal(actors.keys[place].public, content, context.to_bytes())


def other_records(records):
    def lie(actors, own):
        return resigned(actors, own, head=replace(own.head, records=records))

    return lie


def other_head(**changes):
    return lambda actors, own: resigned(actors, own, head=replace(own.head, **changes))


def of_another(actors, own):
    return resigned(actors, actors.parcel("client-0"))


def of_another_check(actors, own):
    there = replace(actors.terms, check="another")
    return resigned(actors, actors.parcel(LIAR, terms=there))


def of_another_run(actors, own):
    return resigned(actors, actors.parcel(LIAR, run=RUN + 1))


def of_its_other_counts(actors, own):
    other = actors.parcel(LIAR, row=np.roll(actors.rows[LIAR], 1) * 0 + np.eye(1, 9, 0, int)[0]
                          + np.eye(1, 9, 5, int)[0])  # fmt: skip
    return resigned(actors, own, seeds=other.seeds)


def elements_of_its_other_counts(actors, own):
    row = np.eye(1, 9, 2, int)[0] + np.eye(1, 9, 6, int)[0]
    return resigned(actors, own, elements=actors.parcel(LIAR, row=row).elements)


def swapped(actors, own):
    return resigned(actors, own, seeds=own.elements[: len(own.seeds)], elements=own.seeds)


def seeds_of(content):
    return lambda actors, own: resigned(actors, own, seeds=boxed(actors, 0, content))


def elements_of(content):
    return lambda actors, own: resigned(actors, own, elements=boxed(actors, 1, content))


MESSAGES = [
    *map(other_records, (0, 1, 99, 101, 2**31 - 1, 2**32 - 1)),
    other_head(nonce=bytes(16)), other_head(public=bytes(64)), of_another, of_another_check,
    of_another_run, of_its_other_counts, elements_of_its_other_counts, swapped,
    *map(seeds_of, (b"", bytes(64), bytes(65))),
    *map(elements_of, (b"short", bytes(8 * 400), b"\xff" * 8 * 400)),
]  # fmt: skip


def require_own_records_at_most(actors, parcel):
    """Whatever is sent, the sum is that of the others, and a liar's possible counts or nothing."""
    parcels = {name: actors.parcel(name) for name in actors.who if name != LIAR}
    both = actors.added(*actors.portions(parcels | {LIAR: parcel}))
    agreed(*both)
    noise = actors.noise(0) + actors.noise(1)
    moved = actors.together(*actors.answers(both)) - noise - actors.total(parcels)
    accepted = both[0].clients == len(actors.who)
    claimed = parcel.head.records or MOST
    assert (moved >= 0).all()
    columns = [part.sum() for part in np.split(moved, np.cumsum(actors.terms.cells)[:-1])]
    assert len(set(columns)) == 1
    assert columns[0] <= (claimed if accepted else 0)
    return accepted


@pytest.mark.parametrize("world", WORLDS)
def test_bits_that_lie(world, monkeypatch):
    actors, encode = Actors(3, options=WORLDS[world]), Counts.encode
    accepted = 0
    for lie in BITS:
        with monkeypatch.context() as patch:
            patch.setattr(Counts, "encode", lambda own, counts, lie=lie: lie(encode(own, counts)))
            parcel = actors.parcel(LIAR)
        accepted += require_own_records_at_most(actors, parcel)
    assert accepted == 0


@pytest.mark.parametrize("world", WORLDS)
def test_messages_that_lie(world):
    actors = Actors(3, options=WORLDS[world])
    for lie in MESSAGES:
        require_own_records_at_most(actors, lie(actors, actors.parcel(LIAR)))


@pytest.mark.parametrize("world", WORLDS)
def test_counts_that_lie(world, monkeypatch):
    """Columns that differ, counts below 0 and beyond the most, encoded as far as bits go."""
    actors, rng = Actors(3, options=WORLDS[world]), np.random.default_rng(5)
    honest = Counts.encode

    def encode(own, counts):
        try:
            return honest(own, counts)
        except InvalidReply:
            return honest(own, np.clip(counts, 0, own.largest) * (own.columns == ()))

    monkeypatch.setattr(Counts, "encode", encode)
    for _ in range(8):
        row = actors.rows[LIAR] + rng.integers(-3, 4, 9) * rng.integers(0, 2, 9)
        require_own_records_at_most(actors, actors.parcel(LIAR, row=row))


@pytest.mark.parametrize("world", WORLDS)
def test_honest_clients_are_not_refused(world):
    actors, rng = Actors(3, options=WORLDS[world]), np.random.default_rng(6)
    for _ in range(5):
        assert require_own_records_at_most(actors, actors.parcel(LIAR, row=actors.drawn(rng)))
