"""Counts a client's symbols by cell and its alike records, and bounds both publicly."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from flwr_kld.kernel.arguments import finite, integer
from flwr_kld.kernel.promise import Guarantee

_MOST_ALIKE = 2**31 - 1
"""Steps of alike records that a client answers with at most: more count as these."""


def alike_records(
    counts: NDArray[np.integer],
    starts: Sequence[int],
    guarantee: Guarantee,
    steps: int,
    coins: NDArray[np.uint64],
) -> NDArray[np.int64]:
    """Compute how many of a client's records are alike, in each column, in whole steps.

    ``Σ c (c - 1) / (n - 1)`` over its cells' counts c, which add up to n: as many as are in the
    same cell as another of its records, drawn at random. One for a single record. One record that
    is replaced moves it by 2 at most; one that comes or goes, by 1: as far as it moves counts.
    Steps are sized for the first or the second (proof note: ``docs/proofs/counts.md``), and rounded
    up or down at random so that the mean stays.

    Parameters
    ----------
    counts : NDArray[np.integer]
        Shape [clients, cells].
    starts : Sequence[int]
        First cell of each column.
    guarantee : Guarantee
        Says whether records are replaced, or come and go.
    steps : int
        By which one record moves a number at most.
    coins : NDArray[np.uint64]
        Random words of the clients, shape [clients, columns].
    """
    counts = counts.astype(np.int64, copy=False)
    records = column_sums(counts, starts)
    pairs = column_sums(counts**2, starts) - records  # of c (c - 1)
    pairs, others = pairs + (records == 1), np.maximum(records - 1, 1)
    others *= alike_sensitivity(guarantee)  # below 2**32, so that nothing leaves 64 bits
    wholes, rest = np.divmod(pairs, others)
    more, rest = np.divmod(steps * rest, others)
    # floor(rest / others + coin / 2**32), in whole numbers
    up = rest.astype(np.uint64) << np.uint64(32)
    up_from = others.astype(np.uint64) * (np.uint64(2**32) - (coins >> np.uint64(32)))
    # A refusal of what 32 bits do not hold would tell of the number of records.
    return np.asarray(np.minimum(steps * wholes + more + (up >= up_from), _MOST_ALIKE))


def column_sums(counts: NDArray[np.integer], starts: Sequence[int]) -> NDArray[np.int64]:
    """Add up each client's counts in each column; shape [clients, columns]."""
    if len(starts) == 1:  # the same in half the time
        return np.add.reduce(counts, axis=1, dtype=np.int64, keepdims=True)
    return np.add.reduceat(counts, starts, axis=1, dtype=np.int64)


def alike_sensitivity(guarantee: Guarantee) -> int:
    """By how much one record changes the number of alike records, at most."""
    return 2 if guarantee.protects == "record" else 1


@dataclass(frozen=True)
class ClientSizes:
    """Public, at record level: how the records of a sum are shared out among its clients.

    Parameters
    ----------
    records : int
        Records in the sum, >= 1.
    largest : int
        Records of the client that has most.
    holder : str
        Name of that client.
    single : int
        Clients of a single record.
    others : float
        Records of the same client beside a record, on average over the records.
    """

    records: int
    largest: int
    holder: str
    single: int
    others: float

    @classmethod
    def of(cls, sizes: Sequence[int], holder: str) -> ClientSizes:
        """Return it for clients of these sizes, the first of the largest of whom is the holder."""
        counted = np.asarray(sizes, dtype=np.float64)
        others = float(counted @ (counted - 1)) / float(counted.sum())
        single = sum(size == 1 for size in sizes)
        return cls(int(sum(sizes)), max(sizes), holder, single, max(others, 0.0))

    def __post_init__(self) -> None:
        integer("records", self.records, least=1)
        integer("largest", self.largest, least=1, most=self.records)
        integer("single", self.single, least=0)
        finite("others", self.others, least=0)

    @property
    def share(self) -> float:
        """Part of the records that the largest client holds, in (0, 1]."""
        return self.largest / self.records


class InvalidReply(ValueError):
    """A client's reply does not answer the question; that client is left out of the check."""
