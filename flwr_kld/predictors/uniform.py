"""Uniform integers of any bound, exactly, from a `BitSource`."""

from __future__ import annotations

from flwr_kld.privacy.bits import BitSource
from flwr_kld.privacy.table import TOTAL


def uniform_128(bits: BitSource) -> int:
    """Return a uniform integer in 0 .. 2**128 - 1."""
    high, low = bits.words(2).tolist()
    return (int(high) << 64) | int(low)


def uniform_below(bound: int, bits: BitSource) -> int:
    """Return a uniform integer in 0 .. bound - 1, for ``1 <= bound <= 2**128``.

    Numbers in the last, incomplete run of `bound` are drawn again, so no value is favoured.
    """
    complete = TOTAL - TOTAL % bound
    while (number := uniform_128(bits)) >= complete:
        pass
    return number % bound
