"""Cost of a proof to a client and to each aggregator, beside the bare field products and hashes.

Bare: as many products in the field as bits, proofs and wires make necessary (four for each bit and
proof), and TurboSHAKE128 over what an aggregator expands or hashes of a client.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from functools import partial

import numpy as np
from Crypto.Hash import TurboSHAKE128
from measuring import Row, Timed, cpu, measured

from flwr_kld.secure_sums.prio3.circuit import Counts
from flwr_kld.secure_sums.prio3.field import Field64
from flwr_kld.secure_sums.prio3.proof import proof_length
from flwr_kld.secure_sums.prio3.shares import NONCE, RANDOM, Prio3

_FIELD = Field64()
_KEY = bytes(range(32))
_BLOCK = 2**13
_AT_ONCE = 10
"""Runs of which a time is the mean."""


class Client:
    """Counts of one client in two columns, and what it sends."""

    def __init__(self, cells: int, bits: int) -> None:
        half = cells // 2
        records = 2**bits - 1
        columns = slice(0, half), slice(half, cells)
        drawn = np.random.default_rng(0)
        self.counts = np.concatenate(
            [drawn.multinomial(records, np.full(half, 1 / half)) for _ in columns]
        )
        self.prio3 = Prio3(Counts(_FIELD, cells, records, columns, records), b"bench")
        self.nonce = os.urandom(NONCE)
        self.public, *self.inputs = self.shard()
        self.verifiers = [
            self.prio3.verify_init(_KEY, i, self.nonce, self.public, share)[1]
            for i, share in enumerate(self.inputs)
        ]

    def shard(self) -> tuple[bytes, bytes, bytes]:
        """Split the counts, and prove them."""
        return self.prio3.shard(self.counts, self.nonce, os.urandom(RANDOM))

    def verify(self, place: int) -> None:
        """Do all that one aggregator does of this client, with the other's share at hand."""
        checked, own = self.prio3.verify_init(
            _KEY, place, self.nonce, self.public, self.inputs[place]
        )
        shares = (own, self.verifiers[1]) if place == 0 else (self.verifiers[0], own)
        self.prio3.output(checked, self.prio3.message(*shares))


def bare_products_and_hashes(prio3: Prio3) -> None:
    """Multiply as often as a query has to, and hash as much."""
    a, elements = np.full(_BLOCK, 3**30, dtype=np.uint64), prio3.circuit.measurement
    for _ in range(4 * prio3.proofs * elements // _BLOCK):
        _FIELD.multiply(a, a)
    sent = bytes(_FIELD.size * (elements + prio3.proofs * proof_length(prio3.circuit)))
    TurboSHAKE128.new(domain=1, data=sent).read(len(sent))


def rows(repeats: int = 5, *, quick: bool = False) -> Iterator[Row]:
    """Time clients and aggregators at few and many cells."""
    for cells, bits in ((20, 8), (1000, 8)) if quick else ((20, 8), (1000, 8), (1000, 16)):
        client = Client(cells, bits)
        client.verify(0)
        sent = sum(map(len, (client.public, *client.inputs)))
        what = f"{cells:,} cells of {bits} bits"

        def timed(run: Callable[[], object]) -> Timed:
            return lambda: cpu(lambda: [run() for _ in range(_AT_ONCE)])() / _AT_ONCE

        for name, run in (
            (f"client, {sent / 1e3:.1f} kB", client.shard),
            ("aggregator of elements", lambda c=client: c.verify(0)),
            ("aggregator of seeds", lambda c=client: c.verify(1)),
        ):
            yield measured(
                "prio3", f"{what}: {name}", timed(run), repeats=repeats,
                peer="bare products and hashes",
                theirs=timed(partial(bare_products_and_hashes, client.prio3)),
            )  # fmt: skip
