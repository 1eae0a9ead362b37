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
_SPLIT = 1e-4
"""Share of the losses' mean square that splitting them may add: twice that of epsilon."""
_POINTS = 1 << 17
"""Grid points of one coordinate, at most."""
_CELLS = 1 << 12, 1 << 20
"""Grid points of all coordinates' sum: least and most."""
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


def composed_delta(parts: Iterable[tuple[LossDistribution, int]], epsilon: float) -> Fraction:
    """Delta at `epsilon` of independent coordinates together; an upper bound.

    Parameters
    ----------
    parts : iterable of (LossDistribution, int)
        Kinds of coordinates, and how many there are of each, >= 1.
    epsilon : float
        In nats, >= 0.

    Returns
    -------
    Fraction
        At most 1; exact but for the grid, which costs some `_SPLIT` of epsilon where losses do not
        lie on it, and for rounding.
    """
    parts = list(parts)
    lost = 1 - math.prod(((1 - part.lost) ** times for part, times in parts), start=Fraction(1))
    if not parts:
        return lost
    if any(not len(part.p) for part, _ in parts):
        return Fraction(1)
    step = _step(parts)
    laws = [(_OnGrid(part, step), times) for part, times in parts]
    if sum(times * int(law.points[-1]) for law, times in laws) * step <= epsilon:
        return lost
    return min(Fraction(1), lost + Fraction(_Tilted(laws, step, epsilon).delta()))


def _step(parts: list[tuple[LossDistribution, int]]) -> float:
    """Choose the grid's step, in nats: any is an upper bound.

    A whole fraction of the smallest loss, where that is fine enough: losses of one kind of discrete
    Laplace or Gaussian noise are its multiples, and none is split.
    """
    square = sum(times * part.mean_square for part, times in parts)
    sizes = np.abs(np.concatenate([part.losses for part, _ in parts]))
    target = max(
        2 * math.sqrt(_SPLIT * square / sum(times for _, times in parts)),
        2 * float(sizes.max()) / _POINTS,
    )
    if not target:  # nothing moves
        return 1.0
    unit = float(sizes[sizes > 1e-9 * sizes.max()].min())
    return unit / math.ceil(unit / target) if unit > target else target


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

    def delta(self) -> float:
        """E[(1 - e**(epsilon - loss))+] of the sum, with what rounding and folding may hide."""
        lowest, highest = (sum(n * int(law.points[i]) for law, n in self.laws) for i in (0, -1))
        width = min(highest - lowest, _DEVIATIONS * self.deviation / self.step)
        cells = min(max(1 << math.ceil(width).bit_length(), _CELLS[0]), _CELLS[1])
        first, outside = lowest, 0.0
        if highest - lowest >= cells:
            first = round(self.mean / self.step) - cells // 2
            outside = self._outside(first * self.step, (first + cells) * self.step)
        sums = first + np.arange(cells)
        beyond = sums * self.step - self.epsilon
        sums, beyond = sums[beyond > 0], beyond[beyond > 0]
        scale = self.log_norm - self.theta * self.epsilon
        gain = np.exp(scale - self.theta * beyond) * -np.expm1(-beyond)
        found = float(gain @ self._folded(cells)[sums % cells])

        theta, count = self.theta, sum(times for _, times in self.laws)
        most = math.exp(scale + theta * math.log(theta) - (1 + theta) * math.log1p(theta))
        transform = 2 * _ROUNDING * (count + 1) * math.log2(cells) * math.sqrt(cells)
        largest = max(float(np.abs(law.losses).max()) for law, _ in self.laws)
        relative = _ROUNDING * count * (100 + theta * largest)
        return (found + most * (transform + outside)) * (1 + relative)

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
                    for t in best * 0.5 ** np.arange(6)
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
