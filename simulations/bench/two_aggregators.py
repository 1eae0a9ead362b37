"""Cost of sums of two aggregators in one process, beside the bare operations and SecAgg+.

CPU counts everybody: clients, the server's cutting and adding, and both aggregators, with
signatures, proofs and the reading and writing of every message. Floor: the X25519 and Ed25519
operations that nobody can do without (two sealings of two operations each, three openings, a
signature, which the aggregators verify three times), timed in the same run, in turns with the sums.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Iterator

import numpy as np
from measuring import Row, measured, public_key_seconds
from numpy.typing import NDArray
from secaggplus import secaggplus_seconds

from flwr_kld.kernel import Guarantee
from flwr_kld.kernel.channels import from_field
from flwr_kld.kernel.law import SystemBits
from flwr_kld.kernel.vector import Held
from flwr_kld.secure_sums import Identity, Roster
from flwr_kld.trust.sealing import AggregatorKey
from flwr_kld.trust.split_sum import FIELD, Addition, Parcel, split
from flwr_kld.trust.terms import AggregatorNoise, Terms

_RANDOM = np.random.default_rng(0)
_RECORDS = 255  # Of each client
_NOISE = 60.0
"""Epsilon of the bench's sums: a number is noised with P = 2e-13, so sums are held to the truth."""


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
            Guarantee(_NOISE), len(self.who), 0,
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


def rows(repeats: int = 5, *, quick: bool = False) -> Iterator[Row]:
    """Sum 1,000 cells among 100 clients beside the floor and SecAgg+, and among more and more."""
    cells, whom = 1000, "two aggregators"

    def seconds(federation: Federation, counts: NDArray[np.int64]) -> float:
        return federation.run(counts, secrets.token_hex(8))[0]

    for size in (20, 40) if quick else (100, 1_000, 10_000):
        some = Federation(size, cells)
        counts = _RANDOM.multinomial(_RECORDS, np.full(cells, 1 / cells), size)
        if size == 100:
            whole = counts.astype(np.uint32)
            peers = {
                "bare X25519, Ed25519": lambda: (
                    100 * public_key_seconds(exchanges=7, verifications=3, signatures=1, keys=2)
                ),
                "Flower's SecAgg+": lambda w=whole: secaggplus_seconds(w, 24, 13),
            }
            sent = some.run(counts, secrets.token_hex(8))[1]
            for peer, theirs in peers.items():
                yield measured(
                    whom, f"100 clients, {sent / 1e3:.1f} kB each",
                    lambda f=some, c=counts: seconds(f, c),
                    repeats=repeats, peer=peer, theirs=theirs,
                )  # fmt: skip
        yield measured(
            whom, "clients", lambda f=some, c=counts: seconds(f, c), repeats=repeats, size=size
        )
