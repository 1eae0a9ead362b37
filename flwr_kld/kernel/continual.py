"""Continual release: one charge for a year of nights, by noise that is correlated over them.

If the same records are counted every night, only the changes of the counts are new. Let x_t be the
change of a count on night t. What is hidden is ``y_t = Σ_k c_k x_(t-k) + z_t`` with whole
coefficients c and fresh noise z. The count that is published, ``(A C⁻¹ y)_t = h_t + (A C⁻¹ z)_t``,
is made of y alone; C holds the coefficients and A adds up. So nobody needs the counts of earlier
nights, only their noise (Denisov et al. 2022, arXiv 2202.08312; the square root of A is that of
Fichtenberger, Henzinger, Upadhyay 2023).
Proof note: ``docs/proofs/standing.md``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import accumulate
from math import comb, isqrt

import numpy as np
from numpy.typing import NDArray

from flwr_kld.kernel.arguments import integer, set_fields
from flwr_kld.kernel.promise import Allotment, Ball

UNIT = 2**8
"""The first coefficient: the others are rounded to whole ones. A finer unit changes the noise of
365 nights by less than a thousandth."""
MOST_NIGHTS = 2000
"""Of a session."""
_MOST_CHANGING = 500
"""Of one whose records change: what bounds their lifetimes takes a time like their cube."""


@dataclass(frozen=True)
class Continual:
    """A stream of counts that is released so many times. Public.

    Parameters
    ----------
    nights : int
        Releases in all, 1 to 2,000; to 500 with more than 2 moves.
    moves : int
        How often a record may come or go, 2 or another even number: it comes once and goes once,
        and between them changes its symbols at most ``moves / 2 - 1`` times, each of which is to
        go and to come.

    Raises
    ------
    ValueError
        If a number is out of range.
    """

    nights: int
    moves: int = 2

    def __post_init__(self) -> None:
        set_fields(
            self,
            nights=integer("nights", self.nights, least=1, most=MOST_NIGHTS),
            moves=integer("moves", self.moves, least=2, most=2 * MOST_NIGHTS),
        )
        if self.moves % 2:
            raise ValueError(
                f"moves must be even, got {self.moves}: a record that is counted comes and goes, "
                "and a change of its symbols is to go and to come"
            )
        if self.moves > 2 and self.nights > _MOST_CHANGING:
            raise ValueError(
                f"with moves above 2 a session has at most {_MOST_CHANGING} nights, got "
                f"{self.nights}: begin another after these"
            )

    @cached_property
    def coefficients(self) -> tuple[int, ...]:
        """How much the change of k nights ago still weighs, in 256ths: those of √A, rounded."""
        root = [comb(2 * k, k) * UNIT / 4**k for k in range(self.nights)]
        return tuple(map(round, root))

    @cached_property
    def _products(self) -> NDArray[np.float64]:
        """Inner products of the columns of C, shape [nights, nights]: whole, so exact."""
        lags = np.subtract.outer(np.arange(self.nights), np.arange(self.nights))
        columns = np.tril(np.array(self.coefficients, dtype=float)[np.abs(lags)])
        return np.asarray(columns.T @ columns)

    @cached_property
    def _stays(self) -> NDArray[np.float64]:
        """Squared norm of y's move by a stay from one night to before another, in one count.

        Shape [nights + 1, nights + 1]: the last night stands for the end; -inf for no stay.
        """
        ended = np.pad(self._products, ((0, 1), (0, 1)))  # who is there to the end does not go
        own = np.diag(ended)
        stays = own[:, None] + own - 2 * ended
        return np.where(np.tri(self.nights + 1, k=-1, dtype=bool), -np.inf, stays)

    @cached_property
    def _farthest(self) -> int:
        """Largest squared norm of the difference of two lifetimes of a record in y, from above.

        Both are there at the same time, s; of each, `chain` bounds what its own stays add up to.
        ``|a - b|² = 2|a|² + 2|b|² - |a + b|²``, and a + b is at least as far as two records that
        stay in two counts all that time. What rounding can add to either is `_shared`, times as
        many pairs of stays as may share a count.
        """
        rows = min(self.moves // 2, self.nights)
        shared = self._shared if rows > 1 else 0.0
        chain = _chained(self._stays, rows) + 2 * comb(rows - 1, 2) * shared
        together = 2 * self._stays - 4 * (rows - 1) * (4 * rows - 5) * shared
        return int((4 * chain - np.maximum(together, 0)).max())

    @property
    def _shared(self) -> float:
        """Largest inner product of two stays, one after the other, in the same count.

        At most 0, were it not for the rounding of the coefficients.
        """
        ended = np.pad(self._products, ((0, 0), (0, 1)))  # in the last column, a stay without end
        most = 0.0
        for first in range(self.nights - 1):
            # Of a stay from night `first` to before night b with the comings on each night c >= b.
            with_comings = ended[first] - ended[first + 1 :]
            with_comings[np.tril_indices(len(with_comings), first, ended.shape[1])] = -(2.0**52)
            highest = np.maximum.accumulate(with_comings, axis=1)
            most = max(most, float((highest - with_comings).max()))
        return most

    def moved(self, allotment: Allotment) -> Ball:
        """Return all ways in which one record moves what is hidden, over all nights, in steps.

        It comes and goes on the same nights, and its symbols are others. Besides, it is among the
        frozen records, one step each, from another night on: one stay at most.
        """
        power = self._farthest * sum(steps**2 for steps in allotment.counts)
        power += int(self._stays.max())
        return Ball(2, power, isqrt(power))

    @cached_property
    def _weights(self) -> tuple[int, ...]:
        """First column of ``A C⁻¹`` times UNIT**nights: whole."""
        inverse = [UNIT ** (self.nights - 1)]  # first column of C⁻¹, likewise
        for night in range(1, self.nights):
            past = zip(self.coefficients[night:0:-1], inverse, strict=True)
            inverse.append(-sum(c * i for c, i in past) // UNIT)
        return tuple(accumulate(inverse))

    def weights(self, night: int) -> NDArray[np.float64]:
        """Weights of each night's z in the noise of night `night` (from 1), shape [night]."""
        scale = UNIT**self.nights
        return np.array([w / scale for w in self._weights[night - 1 :: -1]])

    def noise(self, drawn: Sequence[NDArray[np.int64]]) -> NDArray[np.int64]:
        """Return the noise of the last of these nights in whole steps: ``(A C⁻¹ z)_t``, rounded.

        Exactly, whatever the processor: the noise of a count is a function of z alone.

        Parameters
        ----------
        drawn : Sequence[NDArray[np.int64]]
            z of each night so far, in 256ths of a step, shape [numbers] each.
        """
        nights = integer("nights so far", len(drawn), least=1, most=self.nights)
        scale = UNIT**self.nights
        total = sum(
            z.astype(object) * weight
            for z, weight in zip(drawn, self._weights[nights - 1 :: -1], strict=True)
        )
        return np.asarray((2 * total + scale) // (2 * scale), dtype=np.int64)


def _chained(stays: NDArray[np.float64], most: int) -> NDArray[np.float64]:
    """Return the largest sums of at most so many stays, each from where the one before it ends."""
    if most == 1:
        return stays
    half = _chained(stays, most // 2)
    even = _followed(half, half)
    return _followed(even, stays) if most % 2 else even


def _followed(first: NDArray[np.float64], then: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the largest sum of one of the first and one of the others, from where it ends."""
    return np.array([(row[:, None] + then).max(axis=0) for row in first])


@lru_cache(maxsize=8)
def stream_of(nights: int, moves: int) -> Continual:
    """Return a stream that is known: what is computed of it is kept with it."""
    return Continual(nights, moves)
