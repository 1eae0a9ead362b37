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
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from measuring import Row, measured
from numpy.typing import NDArray
from secaggplus import secaggplus_ms

from flwr_kld.kernel import Guarantee
from flwr_kld.kernel.channels import from_ring
from flwr_kld.kernel.law import SystemBits
from flwr_kld.kernel.vector import SumVector
from flwr_kld.messages.sealing import AggregatorKey
from flwr_kld.messages.terms import AggregatorNoise, Terms
from flwr_kld.sums import Identity, Roster
from flwr_kld.sums.two_aggregators import Addition, Parcel, split

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
            check, "d" * 64, "r" * 64, "p" * 64, [self.cells], b"", "two-aggregators",
            Guarantee(_NOISE), len(self.who),
            noise=AggregatorNoise(self.keys_of_terms, "laplace"),
        )  # fmt: skip

    def run(self, rows: NDArray[np.uint32], check: str) -> tuple[list[float], int]:
        """Return CPU milliseconds a client of clients, server and aggregators, and bytes sent."""
        terms, clock = self.terms(check), time.process_time
        began = clock()
        sent = []
        for (name, identity), row in zip(self.who.items(), rows, strict=True):
            sent.append(split(SumVector(row), terms, identity, name, run=1).to_bytes())
        clients = clock()
        portions = [Parcel.from_bytes(raw).portions() for raw in sent]
        first, second = ({n: both[i] for n, both in zip(self.who, portions, strict=True)}
                         for i in range(2))  # fmt: skip
        server = clock()
        answers = []
        for key, boxes in zip(self.keys, (first, second), strict=True):
            addition = Addition(key, terms, 1, self.roster)
            addition.take(boxes)
            answers.append(addition.answer(terms.central(), SystemBits()))
        aggregators = clock()
        total = from_ring(sum(np.frombuffer(answer, "<u4") for answer in answers))
        if (total[:-1] != rows.sum(0)).any():
            raise RuntimeError("a sum is wrong")
        times = np.diff([began, clients, server, aggregators])
        return (1e3 * times / len(rows)).tolist(), len(sent[0])


def floor_ms(repeats: int = 100) -> float:
    """CPU milliseconds a client of the bare public-key operations: nothing else, no Python."""
    text = bytes(96)
    signer, own = Ed25519PrivateKey.generate(), X25519PrivateKey.generate()
    signature, verifier = signer.sign(text), signer.public_key()
    other = X25519PrivateKey.generate().public_key()
    began = time.process_time()
    for _ in range(repeats):
        for _ in range(2):  # of each of two boxes
            X25519PrivateKey.generate()
            own.exchange(other)
            own.exchange(other)
            verifier.verify(signature, text)
        signer.sign(text)
    return 1e3 * (time.process_time() - began) / repeats


def rows(repeats: int = 5, *, quick: bool = False) -> Iterator[Row]:
    """Sum 1,000 cells among 100 clients beside the floor and SecAgg+, and among more and more."""
    cells, whom = 1000, "two aggregators"

    def seconds(federation: Federation, counts: NDArray[np.uint32]) -> float:
        return sum(federation.run(counts, secrets.token_hex(8))[0]) * len(counts) / 1e3

    for size in (20, 40) if quick else (100, 1_000, 10_000):
        some = Federation(size, cells)
        counts = _RANDOM.integers(0, 1000, (size, some.terms("0").length), dtype=np.uint32)
        if size == 100:
            whole, nobody = counts[:, :cells], np.zeros(size, dtype=bool)
            peers = {
                "bare X25519, Ed25519": floor_ms,
                "Flower's SecAgg+": lambda w=whole, n=nobody: secaggplus_ms(w, 24, 13, n),
            }
            extra = some.run(counts, secrets.token_hex(8))[1] - 4 * cells
            for peer, ms in peers.items():
                yield measured(
                    whom, f"100 clients, {extra} bytes each over 4 a cell",
                    lambda f=some, c=counts: seconds(f, c),
                    repeats=repeats, peer=peer, theirs=lambda ms=ms: ms() / 10,
                )  # fmt: skip
        yield measured(
            whom, "clients", lambda f=some, c=counts: seconds(f, c), repeats=repeats, size=size
        )
