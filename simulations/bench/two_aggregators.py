"""Cost of sums of two aggregators, beside the bare operations.

CPU of everybody, in one process: clients, the server's cutting and adding, and both aggregators,
with signatures, proofs and the reading and writing of every message. Floor: the X25519 and Ed25519
operations that nobody can do without (two sealings of two operations each, three openings, a
signature, which the aggregators verify three times), timed in the same run, in turns with the sums.

And of each aggregator in a process of its own, with its memory, beside these operations, products
in the field and hashes. All clients have one client's counts and shares there, proved without their
names, in boxes and under signatures of their own: thousands of proofs would take minutes to make.
"""

from __future__ import annotations

import multiprocessing
import os
import resource
import secrets
import time
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial
from hashlib import sha256
from multiprocessing.connection import Connection
from typing import Any

import numpy as np
from flwr.app import ConfigRecord, Context, Message, RecordDict
from flwr.clientapp import ClientApp
from flwr.supercore.task_identity import TaskIdentity
from measuring import Row, cpu, measured, numpy_seconds, public_key_seconds, x25519_seconds
from numpy.typing import NDArray
from prio3 import bare_products_and_hashes

from flwr_kld.clients import AggregatorKey, aggregate_drift_checks
from flwr_kld.kernel import Guarantee
from flwr_kld.kernel.channels import from_field, seal
from flwr_kld.kernel.law import SystemBits
from flwr_kld.kernel.vector import Held
from flwr_kld.secure_sums import Identity, Roster, split_sum
from flwr_kld.secure_sums.prio3.shares import NONCE, RANDOM
from flwr_kld.secure_sums.split_sum import FIELD, Addition, Parcel, split
from flwr_kld.trust.envelopes import Order
from flwr_kld.trust.sealing import SealContext
from flwr_kld.trust.terms import AggregatorNoise, Terms

_RANDOM = np.random.default_rng(0)
CELLS = 1000
_RECORDS = 255  # Of each client
_NOISE = 60.0
"""Epsilon of the bench's sums: a number is noised with P = 2e-13, so sums are held to the truth."""
_HOUR = 3600
_WHOM = "two_aggregators"


class Federation:
    """Identities of n clients and two aggregators, made once."""

    def __init__(self, clients: int, cells: int) -> None:
        self.keys = AggregatorKey.generate(), AggregatorKey.generate()
        self.who = {f"client-{i:05d}": Identity.generate() for i in range(clients)}
        self.roster = Roster({name: key.public for name, key in self.who.items()})
        self.keys_of_terms = tuple(key.public.hex() for key in self.keys)
        self.cells = cells

    def terms(self, check: str) -> Terms:
        """Return what clients are told."""
        return Terms(
            check, "d" * 64, "r" * 64, [self.cells], b"",
            Guarantee(_NOISE), len(self.who), int(time.time()) + _HOUR,
            noise=AggregatorNoise(self.keys_of_terms),
        )  # fmt: skip

    def run(self, rows: NDArray[np.int64], check: str) -> tuple[float, int]:
        """Return CPU seconds of clients, server and aggregators, and the bytes a client sent."""
        terms, began = self.terms(check), time.process_time()
        sent = []
        for (name, identity), row in zip(self.who.items(), rows, strict=True):
            sent.append(split(Held(row), terms, identity, name, run=1).to_bytes())
        portions = [Parcel.from_bytes(raw).portions() for raw in sent]
        first, second = ({n: both[i] for n, both in zip(self.who, portions, strict=True)}
                         for i in range(2))  # fmt: skip
        starts, decides, finishes = (
            self._addition(place, boxes, terms)
            for place, boxes in ((0, first), (1, second), (0, first))
        )
        finishes.finish(decides.decide(starts.start()))
        answers = [part.answer(terms.central(), SystemBits()) for part in (finishes, decides)]
        seconds = time.process_time() - began
        total = from_field(FIELD.add(*map(FIELD.decode, answers)))
        if (total != rows.sum(0)).any():
            raise RuntimeError("a sum is wrong")
        return seconds, len(sent[0])

    def _addition(self, place: int, boxes: dict[str, bytes], terms: Terms) -> Addition:
        addition = Addition(self.keys[place], terms, 1, self.roster)
        addition.take(boxes)
        return addition


class Aggregator:
    """An aggregator in a process of its own."""

    def __init__(self, federation: Federation, place: int) -> None:
        spawn = multiprocessing.get_context("spawn")
        self._end, other = spawn.Pipe()
        roster = federation.roster.to_json()
        given = other, federation.keys[place].to_bytes(), roster
        self._process = spawn.Process(target=_serve, args=given, daemon=True)
        self._process.start()

    def ask(self, records: Mapping[str, Any]) -> dict[str, Any]:
        """Send an order; return what is published."""
        self._end.send(records)
        found: dict[str, Any] = self._end.recv()
        if "published" not in found:
            raise RuntimeError(f"an aggregator refused: {found}")
        return found["published"]  # type: ignore[no-any-return]

    def spent(self) -> tuple[float, float]:
        """Return its CPU seconds, and its peak in megabytes."""
        self._end.send(None)
        seconds, megabytes = self._end.recv()
        self._process.join()
        return seconds, megabytes


def _nameless() -> None:
    """Let proofs be the same under every client's name."""
    named = split_sum._prio3

    def nameless(terms: Terms, records: int, context: SealContext) -> object:
        return named(terms, records, replace(context, sender=""))

    split_sum._prio3 = nameless  # type: ignore[assignment]


def _serve(end: Connection, secret: bytes, roster: str) -> None:
    _nameless()
    app = ClientApp()
    aggregate_drift_checks(app, key=AggregatorKey(secret), roster=Roster.from_json(roster))
    context = Context(1, 1, node_config={}, state=RecordDict(), run_config={})
    TaskIdentity.task_id, TaskIdentity.run_id, TaskIdentity.node_id = 1, 1, 1
    seconds = 0.0
    while (order := end.recv()) is not None:
        content = RecordDict({name: ConfigRecord(values) for name, values in order.items()})
        del order
        message = Message(content, 1, "query.drift_aggregate")
        began = time.process_time()
        reply = app(message, context)
        seconds += time.process_time() - began
        end.send({name: dict(record) for name, record in reply.content.items()})
        del content, message, reply
    end.send((seconds, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024))


class Check:
    """Clients of whom all have the counts and shares of one, and what they send."""

    def __init__(self, clients: int, cells: int) -> None:
        self.federation = Federation(clients, cells)
        self.row = _RANDOM.multinomial(_RECORDS, np.full(cells, 1 / cells))

        _nameless()
        self.terms = self.federation.terms(secrets.token_hex(8))
        context = SealContext(1, self.terms.fingerprint, "")
        self.prio3 = split_sum._prio3(self.terms, _RECORDS, context)
        self._nonce = os.urandom(NONCE)
        self._shares = self.prio3.shard(self.row, self._nonce, os.urandom(RANDOM))

    def parcels(self) -> Iterator[tuple[str, tuple[bytes, bytes]]]:
        """Yield what both aggregators receive of each client, in boxes of its own."""
        public, *shares = self._shares
        keys = [key.public for key in self.federation.keys]
        for name, identity in self.federation.who.items():
            context = SealContext(1, self.terms.fingerprint, name)
            seeds, elements = (
                seal(key, share, context.to_bytes())
                for key, share in zip(keys, reversed(shares), strict=True)
            )
            head = split_sum._Head(name, b"", _RECORDS, self._nonce, public, b"")
            digests = sha256(seeds).digest(), sha256(elements).digest()
            signature = identity.sign(head.signed_text(context, *digests))
            yield name, Parcel(replace(head, signature=signature), seeds, elements).portions()

    def run(self) -> list[tuple[float, float]]:
        """Run a check; return CPU seconds and megabytes of each aggregator."""
        first, second = (Aggregator(self.federation, place) for place in range(2))
        about, least = {"terms": self.terms.to_config()}, 3

        def order(boxes: dict[str, bytes], said: list[bytes], *, more: bool) -> dict[str, Any]:
            theirs = {"verifiers": {str(i): box for i, box in enumerate(said)}} if said else {}
            return {**about, "order": Order(least, more).to_config(), "numbers": boxes, **theirs}

        said, seeds, portion = list[bytes](), dict[str, bytes](), dict[str, tuple[bytes, bytes]]()

        def passed(*, more: bool) -> dict[str, Any]:
            own, others = ({n: both[i] for n, both in portion.items()} for i in range(2))
            seeds.update(own)
            shares = first.ask(order(own, [], more=False))["box"]
            found = second.ask(order(others, [shares], more=more))
            said.append(found["box" if more else "verifiers"])
            portion.clear()
            return found

        size = 0
        for name, both in self.parcels():
            size += sum(map(len, both))
            if portion and size > split_sum.PORTION:
                passed(more=True)
                size = sum(map(len, both))
            portion[name] = both
        parts = passed(more=False), first.ask(order(seeds, said, more=False))
        total = from_field(FIELD.add(*(FIELD.decode(part["values"]) for part in parts)))
        if (total != self.row * len(self.federation.who)).any():
            raise RuntimeError("a sum is wrong")
        return [first.spent(), second.spent()]


def counts_of(clients: int) -> NDArray[np.int64]:
    """Draw each client's counts, shape [clients, cells]."""
    return _RANDOM.multinomial(_RECORDS, np.full(CELLS, 1 / CELLS), clients)


def rows(repeats: int = 5, *, quick: bool = False) -> Iterator[Row]:
    """Sum 1,000 cells among few clients, all parties together, and each aggregator's among many."""
    size = 20 if quick else 100
    some, counts = Federation(size, CELLS), counts_of(size)
    sent = some.run(counts, secrets.token_hex(8))[1]
    yield measured(
        _WHOM, f"all parties, {size} clients, {sent / 1e3:.1f} kB each",
        lambda: some.run(counts, secrets.token_hex(8))[0],
        repeats=repeats, peer="bare X25519, Ed25519",
        theirs=lambda: size * public_key_seconds(
            exchanges=7, verifications=3, signatures=1, keys=2
        ),
    )  # fmt: skip
    for size in (20,) if quick else (1_000, 10_000):
        yield from _alone(size)


def _alone(clients: int) -> Iterator[Row]:
    """Measure each aggregator once, beside bare operations: the first one opens twice."""
    check = Check(clients, CELLS)
    spent = check.run()
    hashes = cpu(partial(bare_products_and_hashes, check.prio3))() * clients
    for place, (seconds, megabytes) in enumerate(spent):
        times = 2 - place
        keys = public_key_seconds(exchanges=times, verifications=times, signatures=0, keys=0)
        yield Row(
            _WHOM, f"aggregator {place + 1} alone", seconds, x25519_seconds(), numpy_seconds(),
            size=clients, peer="bare operations", peer_seconds=clients * keys + hashes,
            megabytes=megabytes,
        )  # fmt: skip
