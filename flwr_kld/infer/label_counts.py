"""Estimates the records of each shown label, and from how many on a label is shown.

What follows from the law of the noise alone: a label of n records is shown with n + Z if this
exceeds the reach of Z. Proof note: ``docs/proofs/discovery.md``.
"""

from __future__ import annotations

from bisect import bisect_left

import numpy as np
from numpy.typing import NDArray

from flwr_kld.infer.fraction_interval import LEVEL
from flwr_kld.kernel.law import NoiseTable


def chance(noise: NoiseTable, records: int) -> float:
    """Probability that a label of so many records is shown."""
    return float(_at_least(noise, noise.reach + 1 - np.array([records]))[0])


def found_from(noise: NoiseTable) -> int:
    """Fewest records of a label that is shown with probability .95."""
    return bisect_left(range(2 * noise.reach + 1), LEVEL, key=lambda n: chance(noise, n))


def interval(noise: NoiseTable, count: int) -> tuple[int, int]:
    """Return the fewest and the most records that a label shown with this count may well have.

    Of labels that are shown, whatever their number of records is, 95 in 100 have it between these:
    numbers for which a count so high, or so low, is shown in at most 1 of 40 of the cases in which
    any is are left out.
    """
    records = np.arange(max(count - noise.reach, 1), count + noise.reach + 1)
    shown = _at_least(noise, noise.reach + 1 - records)
    as_high = _at_least(noise, count - records) / shown
    as_low = 1 - _at_least(noise, count + 1 - records) / shown
    likely = records[np.minimum(as_high, as_low) > (1 - LEVEL) / 2]
    return int(likely[0]), int(likely[-1])


def _at_least(noise: NoiseTable, least: NDArray[np.int64]) -> NDArray[np.float64]:
    """Probability that the noise is `least` or more."""
    sums = np.append(np.cumsum(noise.probabilities[::-1])[::-1], 0.0)
    return np.asarray(sums[np.clip(least + noise.reach, 0, len(sums) - 1)])
