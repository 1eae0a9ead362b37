"""Cells whose likelihood is the same: equal noisy count, nearly equal mass of Π.

Numbers that were tuned, and the root mean square errors of the population's and of the cohort's
number if they are halved, and doubled: .118 and .094 as they are, in the 24 questions of
`drift_shapes`.

===========  ==========  ===========================================================================
number       unit        meaning, and what a half or twice as much does
===========  ==========  ===========================================================================
_MASS_BINS   bins        of equal width in ln Π: .120, .094 / .117, .094
_SHARP       deviations  of noise in a count from which on it is read as it is: posterior mean and
                         plug-in then differ by (1/20)² at most, relatively: .118, .094 / no change
_SHARP_STEP  of ln y     of such counts that share a group: no change
_BLUR_STEPS  groups      in a deviation of noise, of the others: .117, .093 / no change
===========  ==========  ===========================================================================

`_FIELD` keeps the keys of groups apart.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from flwr_kld.infer.estimators.score import Floats

_MASS_BINS = 48
_SHARP = 20.0
_SHARP_STEP = 0.05
_BLUR_STEPS = 10.0
_FIELD = 1 << 24


@dataclass(frozen=True, eq=False)
class Groups:
    """Cells grouped by (mass bin, noisy count), ordered by bin."""

    of: NDArray[np.int64]  # Shape [cells], in 0..G-1: each cell's group
    size: Floats  # Shape [G], cells in the group
    value: Floats  # Shape [G], mean noisy count, in records
    sharp: NDArray[np.bool_]  # Shape [G]: the count stands far above the noise
    bin_of: NDArray[np.int64]  # Shape [G], ascending, in 0..B-1
    log_expected: Floats  # Shape [B], ln of the records that Π expects in a cell of the bin
    # Noisy counts that share a group unless sharp: those that round to one multiple of it
    step: int = 1

    @property
    def starts(self) -> NDArray[np.int64]:
        """First group of every bin, shape [B]."""
        return np.searchsorted(self.bin_of, np.arange(len(self.log_expected)))


def group_cells(values: NDArray[np.int64], expected: Floats, deviation: float) -> Groups:
    """Group cells so that the likelihood is computed once for each group."""
    # Shapes: values [cells], expected [cells].
    y = values.astype(np.float64)
    log_expected = np.log(expected)
    low = log_expected.min()
    width = (log_expected.max() - low) / _MASS_BINS
    place = (log_expected - low) / width if width > 1e-9 else np.zeros(len(y))
    _, bins = np.unique(np.minimum(place.astype(np.int64), _MASS_BINS), return_inverse=True)
    sharp = (y > 0) & (y >= _SHARP * deviation)
    step = max(1, int(deviation / _BLUR_STEPS))
    blurred_key = np.floor(y / step + 0.5).astype(np.int64)
    blurred_key -= blurred_key.min()
    sharp_key = np.floor(np.log(np.maximum(y, 1.0)) / _SHARP_STEP).astype(np.int64)
    key = np.where(sharp, _FIELD + sharp_key, np.minimum(blurred_key, _FIELD - 1))
    _, first, of = np.unique(bins * 2 * _FIELD + key, return_index=True, return_inverse=True)
    size = np.bincount(of).astype(np.float64)
    in_bin = np.bincount(bins)
    return Groups(
        of=of,
        size=size,
        value=np.bincount(of, y) / size,
        sharp=sharp[first],
        bin_of=bins[first],
        log_expected=np.bincount(bins, log_expected) / in_bin,
        step=step,
    )
