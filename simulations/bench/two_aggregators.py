"""Cost of sums of two aggregators in one process, beside the bare operations and SecAgg+.

CPU counts everybody: clients, the server's cutting and adding, and both aggregators, with
signatures and the reading and writing of every message. Floor: the X25519 and Ed25519 operations
that nobody can do without (two sealings of two operations each, two openings, a signature, which
both aggregators verify), timed in the same run, in turns with the sums.
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
from flwr_kld.kernel.channels import from_ring
from flwr_kld.kernel.law import SystemBits
from flwr_kld.kernel.vector import SumVector
from flwr_kld.secure_sums import Identity, Roster
from flwr_kld.trust.sealing import AggregatorKey
from flwr_kld.trust.split_sum import Addition, Parcel, split
from flwr_kld.trust.terms import AggregatorNoise, Terms

_RANDOM = np.random.default_rng(0)
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

    def run(self, rows: NDArray[np.uint32], check: str) -> tuple[float, int]:
        """Return CPU seconds of clients, server and aggregators, and the bytes a client sent."""
        terms, began = self.terms(check), time.process_time()
        sent = []
        for (name, identity), row in zip(self.who.items(), rows, strict=True):
            sent.append(split(SumVector(row), terms, identity, name, run=1).to_bytes())
        portions = [Parcel.from_bytes(raw).portions() for raw in sent]
        first, second = ({n: both[i] for n, both in zip(self.who, portions, strict=True)}
                         for i in range(2))  # fmt: skip
        answers = []
        for key, boxes in zip(self.keys, (first, second), strict=True):
            addition = Addition(key, terms, 1, self.roster)
            addition.take(boxes)
            answers.append(addition.answer(terms.central(), SystemBits()))
        seconds = time.process_time() - began
        total = from_ring(sum(np.frombuffer(answer, "<u8") for answer in answers))
        if (total[:-1] != rows.sum(0)).any():
            raise RuntimeError("a sum is wrong")
        return seconds, len(sent[0])


def rows(repeats: int = 5, *, quick: bool = False) -> Iterator[Row]:
    """Sum 1,000 cells among 100 clients beside the floor and SecAgg+, and among more and more."""
    cells, whom = 1000, "two aggregators"

    def seconds(federation: Federation, counts: NDArray[np.uint32]) -> float:
        return federation.run(counts, secrets.token_hex(8))[0]

    for size in (20, 40) if quick else (100, 1_000, 10_000):
        some = Federation(size, cells)
        counts = _RANDOM.integers(0, 1000, (size, some.terms("0").length), dtype=np.uint32)
        if size == 100:
            whole = counts[:, :cells]
            peers = {
                "bare X25519, Ed25519": lambda: (
                    100 * public_key_seconds(exchanges=4, verifications=2, signatures=1, keys=2)
                ),
                "Flower's SecAgg+": lambda w=whole: secaggplus_seconds(w, 24, 13),
            }
            extra = some.run(counts, secrets.token_hex(8))[1] - 8 * cells
            for peer, theirs in peers.items():
                yield measured(
                    whom, f"100 clients, {extra} bytes each over 8 a cell",
                    lambda f=some, c=counts: seconds(f, c),
                    repeats=repeats, peer=peer, theirs=theirs,
                )  # fmt: skip
        yield measured(
            whom, "clients", lambda f=some, c=counts: seconds(f, c), repeats=repeats, size=size
        )
