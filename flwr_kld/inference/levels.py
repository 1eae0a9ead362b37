"""Cells merged into few levels that keep as much of a divergence as so many levels can."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from flwr_kld.inference.estimators.score import Floats

_MASS_BINS = 64
_LOG_STEP = 0.05
"""Cells are first put into bins of 1/64 of all mass and of 0.05 in ln p / m, at most."""
_REACH = 4.0
"""In ln p / m, beyond which it no longer matters: witnesses end at ln 20 = 3."""


def best_levels(p: Floats, m: Floats, most: int) -> list[NDArray[np.int32]]:
    """Merge cells into 1, 2, … `most` levels of like ratio ``p / m``.

    Merging cells into levels leaves ``Σ p_l ln(p_l / m_l)`` of the divergence. Its maximum over
    levels that are intervals of p / m is found by dynamic programming (Fisher 1958); no other
    levels do better.

    Parameters
    ----------
    p, m : Floats
        Two laws over the cells, shape [cells]; m is positive where p is.
    most : int
        Most levels, >= 1.

    Returns
    -------
    list[NDArray[np.int32]]
        For each number of levels that there are enough different cells for, the level of each
        cell, shape [cells]; level 0 has the smallest p / m.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.where(p > 0, np.log(p / m), -np.inf)
    order = np.argsort(ratio, kind="stable")
    mass = np.cumsum((p + m)[order])
    by_mass = np.floor(mass / mass[-1] * _MASS_BINS * (1 - 1e-9))
    by_ratio = np.floor(np.clip(ratio[order], -_REACH, _REACH) / _LOG_STEP)
    _, bin_of = np.unique(by_mass + by_ratio, return_inverse=True)  # both ascend
    bins = int(bin_of[-1]) + 1
    below_p, below_m = (
        np.concatenate([[0.0], np.cumsum(np.bincount(bin_of, x[order], bins))]) for x in (p, m)
    )
    gain = _gain(below_p[None, :] - below_p[:, None], below_m[None, :] - below_m[:, None])
    best, choices, found = gain[0], [], []
    for level in range(min(most, bins)):
        if level:
            total = best[:, None] + gain
            choices.append(total.argmax(axis=0))
            best = total.max(axis=0)
        ends = [bins]
        for start in reversed(choices):
            ends.append(int(start[ends[-1]]))
        level_of = np.empty(len(p), dtype=np.int32)
        level_of[order] = np.searchsorted(ends[::-1], bin_of, side="right")
        found.append(level_of)
    return found


def _gain(p: Floats, m: Floats) -> Floats:
    """``p ln(p / m)`` of the bins from i to j, shape [bins + 1, bins + 1]; -inf unless i < j."""
    with np.errstate(divide="ignore", invalid="ignore"):
        gain = np.where((p > 0) & (m > 0), p * np.log(p / m), 0.0)
    gain[np.tril_indices(len(gain))] = -np.inf
    return gain
