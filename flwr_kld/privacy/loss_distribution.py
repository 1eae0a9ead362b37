"""Privacy loss distributions: what independent coordinates that move together give away.

An outcome k has the privacy loss ``ln P(k) / Q(k)``, P its law before the move and Q after it.
Losses of independent coordinates add up, so their law is a convolution. Each coordinate's losses
are put on a grid, from above ("connect the dots", Doroshenko et al. 2022), and convolved by FFT
under an exponential tilt, which makes float64's rounding small relative to delta, however small
delta is.
Proof note: ``docs/proofs/table-noise.md``.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from itertools import compress

import numpy as np
from numpy.typing import NDArray

from flwr_kld.privacy.table import TOTAL, NoiseTable

_ROUGH = 2.0**-88
"""Probabilities below count as lost: so small they are rounded, and their losses far too large."""
_HAIR = 1e-12
"""Nats by which each loss is raised: covers float64 rounding of it and of its split."""
_SPLIT, _LEAST_SPLIT = 1e-4, 1e-8
"""Share of the losses' mean square that splitting them may add, and that is not worth avoiding."""
_EVEN = 60
"""Divides the pieces of a loss, if they are many: others are often simple fractions of it."""
_POINTS = 1 << 17
"""Grid points of one coordinate, at most."""
COARSE, FINE = 1 << 12, 1 << 16
"""Grid points of the coordinates' sum that one delta and a search for epsilon aim at."""
_MOST_CELLS = 1 << 20
"""Grid points of the sum, at most."""
_DEVIATIONS = 24.0
"""Width of the sum's window, in standard deviations; what lies outside is bounded and added."""
_TILTS = (1e-6, 1e6)
"""Range of the tilt, in 1 / nats: any is an upper bound, a close one is tight."""
_ROUNDING = 2e-15
"""Bound of one float64 operation's relative error, and of an FFT's for each doubling."""

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class LossDistribution:
    """Privacy losses of one coordinate that moves.

    Parameters
    ----------
    p : NDArray
        Probabilities of the outcomes that are possible before and after the move, float64.
    losses : NDArray
        Their privacy losses, in nats.
    lost : Fraction
        Probability of all other outcomes, whose loss counts as infinite.
    """

    p: Floats
    losses: Floats
    lost: Fraction

    @property
    def mean_square(self) -> float:
        """E[loss²], in squared nats."""
        return float((self.p * self.losses**2).sum())


@lru_cache(maxsize=64)
def loss_distribution(table: NoiseTable, shift: int) -> LossDistribution:
    """Losses of one draw of noise that is moved by `shift` counts, other than 0."""
    shift = abs(shift)  # the law is symmetric
    p, q = table.probabilities[shift:], table.probabilities[: len(table.weights) - shift]
    there = np.minimum(p, q) >= _ROUGH
    kept = sum(compress(table.weights[shift:], there))
    losses = np.log(p[there] / q[there])
    return LossDistribution(p[there], losses, Fraction(TOTAL - kept, TOTAL))


Parts = Iterable[tuple[LossDistribution, int]]
"""Kinds of independent coordinates, and how many there are of each, >= 1."""


def composed_delta(parts: Parts, epsilon: float) -> Fraction:
    """Delta at `epsilon` (nats, >= 0) of independent coordinates together; an upper bound.

    Exact but for rounding and the grid, which costs some `_SPLIT` of epsilon where losses do not
    lie on it.
    """
    return Composition(list(parts), COARSE).delta(epsilon)[0]


class Composition:
    """Independent coordinates, their losses on one grid of some `COARSE` or `FINE` points."""

    def __init__(self, parts: list[tuple[LossDistribution, int]], cells: int) -> None:
        self.lost = _lost(parts)
        if self.lost < 1 and parts:
            self.step = _step(parts, cells)
            self.laws = [(_OnGrid(part, self.step), times) for part, times in parts]
        else:
            self.step, self.laws = 1.0, []

    @property
    def largest(self) -> float:
        """Largest finite loss, in nats."""
        return max(sum(n * int(law.points[-1]) for law, n in self.laws) * self.step, 0.0)

    def delta(self, epsilon: float) -> tuple[Fraction, float]:
        """Return delta at `epsilon`, and how fast it falls."""
        if self.largest <= epsilon:
            return self.lost, 0.0
        found, slope = _Tilted(self.laws, self.step, epsilon).delta()
        return min(Fraction(1), self.lost + Fraction(found)), slope


def _lost(parts: list[tuple[LossDistribution, int]]) -> Fraction:
    """Probability that any coordinate's outcome is lost, rounded up."""
    kept = 0.0
    for part, times in parts:
        if not len(part.p) or part.lost >= 1:
            return Fraction(1)
        some = part.lost < Fraction(1, 2)
        one = math.log1p(-float(part.lost)) if some else math.log(float(1 - part.lost))
        kept += times * one
    return min(Fraction(1), Fraction(-math.expm1(kept) * (1 + 1e-12)))


def _step(parts: list[tuple[LossDistribution, int]], cells: int) -> float:
    """Choose the grid's step, in nats: any is an upper bound.

    So fine that the sum takes about so many cells, or that splits add next to nothing. The smallest
    loss, or a whole fraction of it, where that is fine enough: losses of one kind of discrete
    Laplace or Gaussian noise are its multiples, and none is split.
    """
    square = sum(times * part.mean_square for part, times in parts)
    each = 2 * math.sqrt(square / sum(times for _, times in parts))
    sizes = np.abs(np.concatenate([part.losses for part, _ in parts]))
    target = max(each * math.sqrt(_LEAST_SPLIT), _DEVIATIONS * math.sqrt(square) / cells)
    target = max(min(target, each * math.sqrt(_SPLIT)), 2 * float(sizes.max()) / _POINTS)
    if not target:  # nothing moves
        return 1.0
    unit = float(sizes[sizes > 1e-9 * sizes.max()].min())
    if unit <= target:
        return target
    beside = [(part.losses / unit) % 1 for part, _ in parts]
    split = sum(
        times * float((part.p * far * (1 - far)).sum())
        for (part, times), far in zip(parts, beside, strict=True)
    )
    if split * unit**2 <= _LEAST_SPLIT * square:
        return unit
    pieces = math.ceil(unit / target)
    return unit / (pieces + -pieces % _EVEN if pieces > _EVEN else pieces)


class _OnGrid:
    """One coordinate's losses on the grid: each outcome split between the points around its loss.

    Attributes
    ----------
    points : NDArray
        Whole multiples of the step, ascending, int64.
    losses, logs : NDArray
        Their losses, and the logarithms of their probabilities; float64.
    """

    def __init__(self, part: LossDistribution, step: float) -> None:
        raised = part.losses + _HAIR
        below = np.floor(raised / step)
        above = part.p * np.maximum(np.expm1(below * step - raised) / math.expm1(-step), 0)
        points = np.concatenate([below, below + 1]).astype(np.int64)
        first = points.min()
        mass = np.bincount(points - first, np.concatenate([part.p - above, above]))
        there = np.flatnonzero(mass > 0)
        self.points = there + first
        self.losses = self.points * step
        self.logs = np.log(mass[there])

    def tilted(self, theta: float) -> tuple[float, Floats]:
        """Return ``ln E e**(theta loss)``, and the law tilted by ``e**(theta loss)``."""
        exponents = self.logs + theta * self.losses
        top = exponents.max()
        weights = np.exp(exponents - top)
        total = weights.sum()
        return float(top + np.log(total)), weights / total


class _Tilted:
    """The law of a sum of losses, tilted towards those that exceed epsilon."""

    def __init__(self, laws: list[tuple[_OnGrid, int]], step: float, epsilon: float) -> None:
        self.laws, self.step, self.epsilon = laws, step, epsilon
        low, high = map(math.log, _TILTS)
        for _ in range(16):  # the tilt of the least Rényi bound: `most` below
            middle = (low + high) / 2
            theta = math.exp(middle)
            beyond = self.moments(theta)[1] - epsilon - math.log1p(1 / theta)
            low, high = (low, middle) if beyond > 0 else (middle, high)
        self.theta = math.exp(low)
        self.log_norm, self.mean, variance = self.moments(self.theta)
        self.deviation = math.sqrt(variance) + step

    def moments(self, theta: float) -> tuple[float, float, float]:
        """Return the sum's log-moment at `theta`, and the tilted sum's mean and variance."""
        log_norm = mean = variance = 0.0
        for law, times in self.laws:
            one, weights = law.tilted(theta)
            centre = float(weights @ law.losses)
            log_norm += times * one
            mean += times * centre
            variance += times * float(weights @ (law.losses - centre) ** 2)
        return log_norm, mean, variance

    def delta(self) -> tuple[float, float]:
        """Return E[(1 - e**(epsilon - loss))+] of the sum, and how fast it falls with epsilon.

        The first with what rounding and folding may hide.
        """
        lowest, highest = (sum(n * int(law.points[i]) for law, n in self.laws) for i in (0, -1))
        width = min(highest - lowest, _DEVIATIONS * self.deviation / self.step)
        cells = min(max(1 << math.ceil(width).bit_length(), COARSE), _MOST_CELLS)
        first, outside = lowest, 0.0
        if highest - lowest >= cells:
            first = round(self.mean / self.step) - cells // 2
            outside = self._outside(first * self.step, (first + cells) * self.step)
        sums = first + np.arange(cells)
        beyond = sums * self.step - self.epsilon
        sums, beyond = sums[beyond > 0], beyond[beyond > 0]
        scale = self.log_norm - self.theta * self.epsilon
        untilted = np.exp(scale - self.theta * beyond) * self._folded(cells)[sums % cells]
        found = float((untilted * -np.expm1(-beyond)).sum())
        slope = float((untilted * np.exp(-beyond)).sum())

        theta, count = self.theta, sum(times for _, times in self.laws)
        most = math.exp(scale + theta * math.log(theta) - (1 + theta) * math.log1p(theta))
        transform = 2 * _ROUNDING * (count + 1) * math.log2(cells) * math.sqrt(cells)
        largest = max(float(np.abs(law.losses).max()) for law, _ in self.laws)
        relative = _ROUNDING * count * (100 + theta * largest)
        return max(found + most * (transform + outside), 0.0) * (1 + relative), slope

    def _folded(self, cells: int) -> Floats:
        """Return the tilted sum's law modulo `cells`."""
        spectrum = np.ones(cells // 2 + 1, dtype=np.complex128)
        for law, times in self.laws:
            weights = np.bincount(law.points % cells, law.tilted(self.theta)[1], cells)
            spectrum *= _power(np.fft.rfft(weights), times)
        return np.fft.irfft(spectrum, cells)

    def _outside(self, low: float, high: float) -> float:
        """Bound the tilted sum's probability outside [low, high) (Chernoff)."""
        bounds = []
        for end in (low, high):
            best = (end - self.mean) / self.deviation**2  # of a normal law
            bounds.append(
                min(
                    self.moments(self.theta + t)[0] - self.log_norm - t * end
                    for t in best * 0.25 ** np.arange(12)
                )
            )
        return math.fsum(math.exp(min(bound, 0.0)) for bound in bounds)


def _power(values: NDArray[np.complex128], times: int) -> NDArray[np.complex128]:
    """``values**times`` by squaring: few roundings, each known."""
    power = np.ones_like(values)
    while times:
        if times & 1:
            power = power * values
        values, times = values * values, times >> 1
    return power
