"""How wide the ring must be, so that sums of counts and noise come back unwrapped."""

from __future__ import annotations

from fractions import Fraction

from flwr_kld.kernel.law import TOTAL, NoiseTable, noise_sum

RING_BITS = 32


def ring_bits_needed(
    share: NoiseTable,
    clients: int,
    largest: int,
    cells: int,
    *,
    grid: int = 1,
    failure: float = 2.0**-40,
) -> int:
    """Least b such that a sum modulo ``2**b`` is read back right in every cell."""
    # The noise is within ±x in all cells but for probability `failure`, x from the exact law of the
    # sum, so ``2**b >= grid largest + 2x + 1`` (the bound ``2 (t sigma + t**2)`` of Kairouz, Liu,
    # Steinke 2021 in place of 2x holds for Gaussian tails, not for discrete Laplace).
    law = noise_sum(share, clients)
    allowed = int(Fraction(failure) / cells * TOTAL)
    beyond, x = law.tail, law.reach
    if beyond > allowed:
        raise ValueError("failure probability is below what the noise's tables resolve")
    while x and beyond + 2 * law.weights[law.reach + x] <= allowed:
        beyond += 2 * law.weights[law.reach + x]
        x -= 1
    return (grid * largest + 2 * x).bit_length()


def check_ring(needed: int, ring_bits: int = RING_BITS) -> None:
    """Raise ValueError where sums could wrap; called before anything is sent."""
    if needed > ring_bits:
        raise ValueError(
            f"sums need {needed} bits and the ring has {ring_bits}: "
            "take 64 bits, fewer clients, smaller counts or a larger epsilon"
        )
