"""Which counts may lie behind a noisy one, and how likely the noise makes each of them.

`_REACH` is how many deviations of noise a count may lie above its noisy value; discrete Laplace
exceeds them with probability under 1e-7. Halved or doubled, no estimate of the 24 questions of
`drift_shapes` changes in its fourth digit.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from flwr_kld.infer.estimators.groups import Groups
from flwr_kld.infer.estimators.score import Floats
from flwr_kld.kernel.law import NoiseTable

_REACH = 12.0


class NoiseWindow:
    """Counts 0, 1, … in blocks, and the exact law of the noise between them and noisy values."""

    def __init__(self, groups: Groups, noise: NoiseTable) -> None:
        self.at = np.flatnonzero(~groups.sharp)
        y = np.round(groups.value[self.at]).astype(np.int64)
        y = np.maximum(y, -noise.reach)  # beyond the table's reach, zero is the one count left
        deviation = math.sqrt(noise.variance)
        top = max(int(y.max(initial=0)), 0) + min(noise.reach, math.ceil(_REACH * deviation))
        edges = _blocks(top, deviation)
        reached = _noise_below(y, edges, noise, groups.step)
        self.counts: Floats = (edges[:-1] + edges[1:] - 1) / 2
        self.chance: Floats = np.maximum(reached[:, :-1] - reached[:, 1:], 0.0)


def _noise_below(
    y: NDArray[np.int64], edges: NDArray[np.int64], noise: NoiseTable, step: int
) -> Floats:
    """P(noise <= y - edge), summed over the noisy counts that share a group, [blurred, H + 1]."""
    # One of them cannot stand for all: the law of the noise has a cusp at 0.
    below = np.concatenate([[0.0], np.cumsum(noise.probabilities)])
    if step == 1 or not len(y):
        reached: Floats = below[_place(y[:, None] - edges, noise)]
        return reached
    multiple = np.floor(y / step + 0.5)
    low, high = (np.ceil((multiple + side) * step).astype(np.int64) for side in (-0.5, 0.5))
    start = int(low.min() - edges[-1])
    steps = np.arange(start, int(high.max() - edges[0]) + 1)
    summed = np.concatenate([[0.0], np.cumsum(below[_place(steps, noise)])])
    shift = edges + start
    of_group: Floats = summed[high[:, None] - shift] - summed[low[:, None] - shift]
    return of_group


def _place(z: NDArray[np.int64], noise: NoiseTable) -> NDArray[np.int64]:
    """Where ``P(noise <= z)`` stands among the cumulated probabilities, a 0 before them."""
    return np.clip(z + noise.reach + 1, 0, 2 * noise.reach + 1)


def _blocks(top: int, deviation: float) -> NDArray[np.int64]:
    """Edges of blocks of counts 0..top inside which the prior of a count is taken as flat."""
    # Inside a block the prior of a count is taken as flat: components are far wider than 4%.
    edges = _blocks_to(1 << max(top, 1).bit_length(), deviation)
    return edges[: np.searchsorted(edges, top, side="right") + 1]


@lru_cache(maxsize=64)
def _blocks_to(most: int, deviation: float) -> NDArray[np.int64]:
    edges = [0]
    while edges[-1] <= most:
        edges.append(edges[-1] + max(1, int(min(0.04 * edges[-1], deviation / 5))))
    return np.array(edges, dtype=np.int64)
