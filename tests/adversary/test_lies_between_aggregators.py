"""A client library that lies to two aggregators moves their sum by its own records at most."""

from collections import Counter
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from hashlib import sha256

import numpy as np
import pytest
from session_nights import a_night
from splitting import RUN, Actors, agreed

from flwr_kld.ask.period import Period
from flwr_kld.kernel import Guarantee
from flwr_kld.kernel.channels import seal
from flwr_kld.kernel.count import InvalidReply
from flwr_kld.kernel.promise import Allotment, WholeClients
from flwr_kld.secure_sums import split_sum
from flwr_kld.secure_sums.prio3.circuit import Counts
from flwr_kld.secure_sums.prio3.field import Field64
from flwr_kld.secure_sums.split_sum import Parcel
from flwr_kld.trust.sealing import SealContext
from flwr_kld.trust.terms import RecordCounts

P = Field64.modulus
FIELD = Field64()
LIAR = "client-1"
MOST = 100
WORLDS = {
    "records": {"cells": [5, 4], "asked_for": None},
    "limited records": {"cells": [5, 4], "asked_for": None, "most_records": MOST},
    "period": {
        "cells": [5, 4], "most_records": MOST,
        "asked_for": RecordCounts(Allotment.even(2), Period("day", "2026-11-01", "2026-11-02")),
    },
    "clients": {
        "cells": [5, 4], "most_records": MOST, "asked_for": None,
        "guarantee": Guarantee(1.0, protects=WholeClients(MOST)),
    },
    "night": {
        "cells": [5, 4], "night": a_night("session", 3, 9), "guarantee": Guarantee(1.0, 1e-6),
        "asked_for": None,
    },
}  # fmt: skip


class Federation(Actors):
    """Honest clients, whose proofs are checked once, beside one that lies in another portion."""

    def __init__(self, clients, world):
        super().__init__(clients, WORLDS[world])
        self.honest = {name: self.parcel(name) for name in self.who if name != LIAR}
        self.both = self.portions(self.honest)
        self.sums = self.total(self.honest)
        second = self.addition(1, self.both[1])
        self.of_honest = second.decide(self.addition(0, self.both[0]).start())
        self.second = second.saved()

    def drawn(self, rng):
        """Of a night, records that are frozen follow."""
        counts = super().drawn(rng)
        return (
            counts
            if self.terms.night is None
            else np.append(counts, rng.integers(counts[:5].sum()))
        )

    def require_own_records_at_most(self, lie, seed):
        """Whatever is sent, sums move by a liar's possible counts, as it claims, or not at all."""
        made = lie(self, np.random.default_rng(seed))
        claimed, sent = made if isinstance(made, tuple) else (made.head.records, made.portions())
        portions = [{LIAR: own} for own in sent]
        decides, finishes = self.addition(1, {}), self.addition(0, self.both[0] | portions[0])
        decides.resume(self.second)
        decides.take(portions[1])
        said = decides.decide(self.addition(0, portions[0]).start())
        finishes.finish(self.of_honest, said)
        additions = finishes, decides
        agreed(*additions)
        noise = self.noise(0) + self.noise(1)
        moved = self.together(*self.answers(additions)) - noise - self.sums
        accepted = additions[0].clients == len(self.who)
        assert [addition.clients for addition in additions] == [len(self.honest) + accepted] * 2
        assert (moved >= 0).all()
        columns = [moved[part].sum() for part in self.terms.layout.parts]
        assert len(set(columns)) == 1
        hidden = not self.terms.layout.total_is_public(self.terms.guarantee)
        own = (MOST if hidden else claimed) if accepted else 0
        assert columns[0] <= own
        assert (moved <= max(own, accepted)).all()
        if not accepted:
            assert all(LIAR in addition.rejected for addition in additions)
        return accepted


@contextmanager
def patched(place, name, change):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(place, name, change(getattr(place, name)))
        yield


def lying(place, name, lie):
    """A parcel of the liar's, of which what one step returns is what `lie` makes of it."""

    def make(actors, drawn):
        def change(honest):
            return lambda *given: lie(honest(*given), drawn)

        with patched(place, name, change):
            return actors.parcel(LIAR)

    return make


encoding = partial(lying, Counts, "encode")
"""The liar's bits are others, and proved as if they were bits."""
sharing = partial(lying, split_sum, "_sharded")
"""The liar's public share and input shares are others once they are proved."""


def counting(lie):
    """The liar's counts are others; what is beyond the bits is cut, its sums as they come."""

    def make(actors, drawn):
        def change(honest):
            def encode(own, counts):
                try:
                    return honest(own, counts)
                except InvalidReply:
                    cut = np.clip(counts, 0, own.largest)
                    encoded = honest(replace(own, columns=()), cut)
                    more = own.measurement - len(encoded)
                    return np.append(encoded, drawn.integers(0, 2, more, dtype=np.uint64))

            return encode

        with patched(Counts, "encode", change):
            return actors.parcel(LIAR, row=lie(actors.rows[LIAR].copy(), drawn))

    return make


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


def bit(value):
    def lie(bits, drawn):
        bits[drawn.integers(len(bits))] = value % P
        return bits

    return encoding(lie)


def turned(bits, drawn):
    at = drawn.integers(len(bits))
    bits[at] = 1 - bits[at]
    return bits


def from_one_to_another(amount):
    """Records go from one cell to another: what a column adds up to stays."""

    def lie(bits, drawn):
        own = len(bits) // 10
        bits[0], bits[own] = (int(bits[0]) + amount) % P, (int(bits[own]) - amount) % P
        return bits

    return encoding(lie)


def in_all_columns(amount):
    """As many records more in each column, and, where it is hidden, in their number."""

    def lie(bits, drawn):
        own = len(bits) // 9 if len(bits) % 9 == 0 else len(bits) // 10
        for cell in (0, 5, 9):
            if own * cell < len(bits):
                bits[own * cell] = (int(bits[own * cell]) + amount) % P
        return bits

    return encoding(lie)


def added(amount):
    """To an element of the leader's share of counts, after it was proved."""

    def lie(shares, drawn):
        public, leader, helper = shares
        at = 8 * int(drawn.integers(9))
        changed = (int.from_bytes(leader[at : at + 8], "little") + amount) % P
        return public, leader[:at] + changed.to_bytes(8, "little") + leader[at + 8 :], helper

    return sharing(lie)


def share(place, change):
    def lie(shares, drawn):
        changed = list(shares)
        changed[place] = change(changed[place], drawn)
        return tuple(changed)

    return sharing(lie)


def flipped(raw, drawn):
    at = int(drawn.integers(len(raw)))
    return raw[:at] + bytes([raw[at] ^ int(drawn.integers(1, 256))]) + raw[at + 1 :]


CHANGED = {
    "one byte": flipped,
    "zeros": lambda raw, drawn: bytes(len(raw)),
    "ones": lambda raw, drawn: b"\xff" * len(raw),
    "random": lambda raw, drawn: drawn.bytes(len(raw)),
    "reversed": lambda raw, drawn: raw[::-1],
    "cut": lambda raw, drawn: raw[: int(drawn.integers(len(raw)))],
    "longer": lambda raw, drawn: raw + bytes(8),
    "empty": lambda raw, drawn: b"",
}
"""Of a share that is sealed, or of what reaches an aggregator."""


def swapped_shares(shares, drawn):
    public, leader, helper = shares
    return public, helper, leader


def equal_shares(shares, drawn):
    public, leader, _ = shares
    return public, leader, leader


def turned_public_share(shares, drawn):
    return (shares[0][32:] + shares[0][:32], *shares[1:])


def other_records(records):
    def lie(actors, drawn):
        own = actors.parcel(LIAR)
        return resigned(actors, own, head=replace(own.head, records=records))

    return lie


def with_records(records):
    """Proved for a number of records that is claimed, with the counts of another."""

    def make(actors, drawn):
        honest = split_sum._prio3

        def change(_):
            return lambda terms, own, context: honest(terms, records, context)

        with patched(split_sum, "_prio3", change):
            own = counting(lambda row, _: row)(actors, drawn)
        return resigned(actors, own, head=replace(own.head, records=records))

    return make


def other_head(**changes):
    def lie(actors, drawn):
        own = actors.parcel(LIAR)
        return resigned(actors, own, head=replace(own.head, **changes))

    return lie


def of_another(actors, drawn):
    return resigned(actors, actors.honest["client-0"])


def proof_of_another(actors, drawn):
    """The nonce and public share of another's proof, with what the liar's own seeds hold."""
    there = actors.honest["client-0"].head
    return other_head(nonce=there.nonce, public=there.public)(actors, drawn)


def elsewhere(**options):
    def lie(actors, drawn):
        return resigned(actors, actors.parcel(LIAR, **options))

    return lie


def of_another_check(actors, drawn):
    return elsewhere(terms=replace(actors.terms, check="another"))(actors, drawn)


def of_another_night(actors, drawn):
    night = {"night": a_night("session", int(drawn.integers(4, 9)), 9), "most_records": 0}
    options = {"guarantee": Guarantee(1.0, 1e-6), "asked_for": RecordCounts(Allotment.even(2))}
    row = np.append(actors.rows[LIAR][:9], 0)
    return elsewhere(terms=replace(actors.terms, **night, **options), row=row)(actors, drawn)


def half_of_other_counts(which):
    def lie(actors, drawn):
        row = np.zeros(len(actors.rows[LIAR]), int)
        row[[drawn.integers(5), 5 + drawn.integers(4)]] = 1
        other = actors.parcel(LIAR, row=row)
        return resigned(actors, actors.parcel(LIAR), **{which: getattr(other, which)})

    return lie


def swapped_boxes(actors, drawn):
    own = actors.parcel(LIAR)
    size = len(own.seeds)
    return resigned(
        actors, own, seeds=own.elements[:size], elements=own.seeds + own.elements[size:]
    )


def box_of(place, content):
    def lie(actors, drawn):
        which = ("seeds", "elements")[place]
        return resigned(actors, actors.parcel(LIAR), **{which: boxed(actors, place, content)})

    return lie


def raw(place, change):
    """What reaches one aggregator, as a server or the liar may change it."""

    def lie(actors, drawn):
        own = actors.parcel(LIAR)
        sent = list(own.portions())
        sent[place] = change(sent[place], drawn)
        return own.head.records, tuple(sent)

    return lie


def moved_row(row, drawn):
    row[:9] += drawn.integers(-3, 4, 9) * drawn.integers(0, 2, 9)
    return row


def negative_row(row, drawn):
    """Below 0 in one cell and above the sum in another, columns as they were."""
    amount = int(drawn.integers(1, 10**6))
    row[0] -= amount
    row[4] += amount
    return row


LIES = {
    **{f"a bit of {value}": bit(value) for value in (2, 3, -1, -2, 10**9, -(10**9), P // 2)},
    "a bit turned": encoding(turned),
    **{f"moved by {n}": from_one_to_another(n) for n in (2, -2, 10**9, P // 2)},
    **{f"{n} more in all columns": in_all_columns(n) for n in (2, 100, -3, 10**9)},
    **{f"{n} added to a share": added(n) for n in (1, -1, 2, 10**9)},
    "columns that differ": counting(moved_row),
    "negative counts": counting(negative_row),
    **{
        f"{name} of a share: {how}": share(place, change)
        for place, name in enumerate(("public", "elements", "seeds"))
        for how, change in CHANGED.items()
    },
    "swapped shares": sharing(swapped_shares),
    "equal shares": sharing(equal_shares),
    "turned public share": sharing(turned_public_share),
    **{f"{n} records said": other_records(n) for n in (0, 1, 99, 101, 2**31 - 1, 2**32 - 1)},
    **{f"{n} records proved": with_records(n) for n in (0, 1, 99, 101, 2**31 - 1)},
    "nonce": other_head(nonce=bytes(16)),
    "token": other_head(token=bytes(17)),
    "parcel of another client": of_another,
    "proof of another client": proof_of_another,
    "parcel of another check": of_another_check,
    "parcel of another run": elsewhere(run=RUN + 1),
    "parcel of a night": of_another_night,
    "seeds of other counts": half_of_other_counts("seeds"),
    "elements of other counts": half_of_other_counts("elements"),
    "swapped boxes": swapped_boxes,
    **{f"seeds of {len(raw)} bytes": box_of(0, raw) for raw in (b"", bytes(64), bytes(65))},
    **{f"elements of {len(raw)} bytes": box_of(1, raw)
       for raw in (b"short", bytes(8 * 400), b"\xff" * 8 * 401)},
    **{f"to aggregator {place}: {how}": raw(place, change)
       for place in range(2) for how, change in CHANGED.items()},
}  # fmt: skip
POSSIBLE = {"a bit turned", "columns that differ", "token"} | {
    f"{n} records {how}" for n in (0, 1, 99) for how in ("said", "proved")
}
"""Lies that may leave counts, and a number of them, which a client may have."""


def lies_in(clients, world):
    federation, found = Federation(clients, world), Counter()
    for seed, (name, lie) in enumerate(LIES.items()):
        accepted = federation.require_own_records_at_most(lie, (clients, seed))
        assert not accepted or name in POSSIBLE, name
        found[accepted] += 1
    return found


@pytest.mark.parametrize("world", WORLDS)
def test_lies_among_three_clients(world):
    found = lies_in(3, world)
    assert found[False] > 60


@pytest.mark.slow
@pytest.mark.parametrize("clients", [10, 20, 60, 200])
@pytest.mark.parametrize("world", WORLDS)
def test_lies_in_federations(world, clients, capsys):
    found = lies_in(clients, world)
    with capsys.disabled():
        print(f"\n{clients} clients, {world}: {found[False]} lies refused, {found[True]} possible")


@pytest.mark.parametrize("world", WORLDS)
def test_honest_clients_are_not_refused(world):
    federation = Federation(3, world)
    for seed in range(5):
        honest = counting(lambda row, drawn: federation.drawn(drawn))
        assert federation.require_own_records_at_most(honest, seed)


def test_a_parcel_that_is_none_is_refused_before_an_aggregator_sees_it():
    honest = Actors(3).parcel("client-0").to_bytes()
    for raw in (b"", honest[:10], honest[:200], "text", None):
        with pytest.raises(InvalidReply):
            Parcel.from_bytes(raw)
