"""Who shares secrets with whom: a ring of neighbours in public random order.

A cohort of n stands in a circle in an order drawn from the session; each client is a neighbour of
the k/2 before and the k/2 after it (a Harary graph), or of everybody. Its m = k + 1 holders (itself
and its neighbours) keep one share of each of its two secrets; t of them open one.

The graph of Bell, Bonawitz, Gascón, Lepoint, Raykova, "Secure single-server aggregation with
(poly)logarithmic overhead" (CCS 2020), §3.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms
from numpy.typing import NDArray

from flwr_kld.kernel.arguments import keep, whole
from flwr_kld.secure_aggregation.errors import ThresholdTooLow, TooFewNeighbours


@dataclass(frozen=True)
class Shape:
    """Number of neighbours k and of shares t that open a secret."""

    neighbours: int
    threshold: int

    def __post_init__(self) -> None:
        keep(
            self,
            neighbours=whole("neighbours", self.neighbours, least=0),
            threshold=whole("threshold", self.threshold, least=0),
        )

    def require_ring(self, cohort: int) -> None:
        """Refuse what is not a graph over a cohort, or one whose secrets a minority opens."""
        k, t = self.neighbours, self.threshold
        if not 1 <= k < cohort or (k % 2 and k != cohort - 1):
            raise TooFewNeighbours(
                "the graph is not a ring: each client needs an even number of neighbours, or has "
                "all others"
            )
        if t < self.fewest_shares(k, cohort):
            raise ThresholdTooLow(
                f"{t} of {k + 1} holders are too few to open a secret: "
                f"{self.fewest_shares(k, cohort)} or more must"
            )
        if t > k + 1:
            raise TooFewNeighbours(f"{k + 1} holders can never gather {t} shares")

    @staticmethod
    def fewest_shares(neighbours: int, cohort: int) -> int:
        """Fewest shares that open a secret: a majority, or 3t > 2k + 3 on a circle.

        On a circle a server may tell clients of different regions different lists. Between two that
        reveal for different lists at least 2t - k - 2 places reveal nothing; whoever stands there
        then has fewer than t holders that do, so that no sum opens across.
        """
        k = neighbours
        return (k + 1) // 2 + 1 if k == cohort - 1 else (2 * k + 3) // 3 + 1

    @property
    def confirmations(self) -> int:
        """Neighbours that must confirm a client's list of survivors before its reveal opens.

        With itself t holders; on a circle these are more than stand on one side.
        """
        return self.threshold - 1


def ring_order(seed: bytes, cohort: int) -> NDArray[np.int64]:
    """Public order of the circle, from 32 bytes: cohort indices by place, shape [cohort]."""
    stream = Cipher(algorithms.ChaCha20(seed, bytes(16)), mode=None).encryptor()
    words = np.frombuffer(stream.update(bytes(8 * cohort)), dtype="<u8")
    return np.argsort(words, kind="stable")


def offsets(cohort: int, neighbours: int) -> NDArray[np.int64]:
    """Places to each neighbour slot, shape [k]; slot s of one end is slot k−1−s of the other."""
    if neighbours == cohort - 1:
        return np.arange(1, cohort)
    half = neighbours // 2
    return np.concatenate([np.arange(1, half + 1), np.arange(-half, 0)])


def neighbours_of(order: NDArray[np.int64], index: int, neighbours: int) -> NDArray[np.int64]:
    """Cohort indices of one client's neighbours by slot, shape [k]."""
    place = int(np.flatnonzero(order == index)[0])
    found: NDArray[np.int64] = order[(place + offsets(len(order), neighbours)) % len(order)]
    return found


def neighbour_table(order: NDArray[np.int64], neighbours: int) -> NDArray[np.int64]:
    """Neighbours of every client, shape [cohort, k]."""
    n = len(order)
    table = np.empty((n, neighbours), dtype=np.int64)
    table[order] = order[(np.arange(n)[:, None] + offsets(n, neighbours)) % n]
    return table
