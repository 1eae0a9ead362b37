"""A client's counts, cut to a public bound before they leave.

Proof note: ``docs/proofs/client-level.md``.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from flwr_kld.kernel.law import BitSource
from flwr_kld.kernel.promise import Clip


def clipped(counts: NDArray[Any], clip: Clip, bits: BitSource) -> NDArray[np.int64]:
    """Keep as many of the client's records, in uniformly random order, as the bound allows.

    The longest prefix of a random order whose counts stay within the bound: a uniform sample
    of the records, given its size. Scaling and rounding down would erase every rare symbol.

    Parameters
    ----------
    counts : NDArray
        Non-negative integers, shape [cells], in records.
    clip : Clip
        The bound.
    bits : BitSource
        Random bits of the client.

    Returns
    -------
    NDArray[np.int64]
        Shape [cells], nowhere above `counts`.

    Raises
    ------
    ValueError
        If counts are not non-negative integers.
    """
    if not np.issubdtype(counts.dtype, np.integer) or (counts < 0).any():
        raise ValueError("only non-negative integer counts can be clipped")
    ends = np.cumsum(counts, dtype=np.int64)
    records = int(ends[-1]) if len(ends) else 0
    most = clip.bound**clip.norm  # as many records fit: |a| <= a**2 on integers
    if clip.norm == 1 and records <= most:
        return counts.astype(np.int64)
    kept = np.searchsorted(ends, _random_order(records, most, bits), side="right")
    if clip.norm == 2:
        kept = kept[np.cumsum(2 * _earlier(kept) + 1) <= most]
    return np.bincount(kept, minlength=len(counts)).astype(np.int64)


def _random_order(records: int, most: int, bits: BitSource) -> NDArray[np.int64]:
    """First ``min(records, most)`` of the numbers 0..records-1 in uniformly random order."""
    if records <= 4 * most:  # sort random keys
        return np.argsort(bits.words(records), kind="stable")[:most]
    chosen = np.empty(0, dtype=np.int64)
    ceiling = np.uint64((1 << 64) // records * records - 1)
    while len(chosen) < most:  # draw, leaving out what was drawn before
        words = bits.words(2 * most)
        drawn = (words[words <= ceiling] % np.uint64(records)).astype(np.int64)
        chosen = np.concatenate([chosen, drawn])
        chosen = chosen[np.sort(np.unique(chosen, return_index=True)[1])]
    return chosen[:most]


def _earlier(kept: NDArray[np.int64]) -> NDArray[np.int64]:
    """For each entry, how many equal entries come before it."""
    order = np.argsort(kept, kind="stable")
    ranked = kept[order]
    rank = np.empty_like(order)
    rank[order] = np.arange(len(kept)) - np.searchsorted(ranked, ranked, side="left")
    return rank
