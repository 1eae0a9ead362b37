"""Upper bounds of delta at an epsilon for noise tables and the moves they hide.

Exact for moves of one and two coordinates (hockey-stick divergence on the table's integers); by
privacy loss distributions for more; by bounds that hold for all moves at once for a ball. Losses of
independent coordinates add up, so their law is a convolution: each coordinate's losses are put on a
grid, from above ("connect the dots", Doroshenko et al. 2022), and convolved by FFT under an
exponential tilt, which makes float64's rounding small relative to delta, however small it is.
Proof notes: ``docs/proofs/noise.md``, ``docs/proofs/counts.md``,
``docs/proofs/clients.md``, ``docs/proofs/noise-shares.md``.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Context, Decimal, localcontext
from fractions import Fraction
from functools import cached_property, lru_cache
from itertools import accumulate, compress

import numpy as np
from numpy.typing import NDArray

from flwr_kld.kernel.arguments import finite, integer
from flwr_kld.kernel.law import TOTAL, NoiseTable, noise_sum
from flwr_kld.kernel.promise import Ball, Moves, check_shifts, l1_norm

_DOWN = Context(prec=60, rounding="ROUND_FLOOR")
_UP = Context(prec=60, rounding="ROUND_CEILING")
_SLACK = Fraction(1, 1 << 40)
"""Covers picking the optimal set by float64 comparison (a wrong pick understates by < 1e-12)."""


def exp_below(epsilon: float) -> Fraction:
    """Return a rational just below ``e**epsilon`` (relative error < 1e-57)."""
    # Decimal.exp is correctly rounded to nearest whatever the mode; one step down makes it a bound.
    return Fraction(_DOWN.next_minus(Decimal(epsilon).exp(_DOWN)))


def hockey_stick(table: NoiseTable, shifts: tuple[int, ...], epsilon: float) -> Fraction:
    """Smallest delta such that noise from `table` hides the integer move `shifts` at `epsilon`.

    It is the divergence ``sup_S P(S) - e**eps Q(S)``, P the law of independent noise on every
    coordinate and Q the same law moved by `shifts`, computed on the table's own integers.

    Parameters
    ----------
    table : NoiseTable
        The noise on every coordinate.
    shifts : tuple[int, ...]
        Moves of the coordinates, in counts: ``(1, -1)`` for replacing a record, ``(1,)`` for adding
        or removing one, ``(1, -1) * d`` for replacing one that is counted in d columns, ``(k,)``
        for a number of sensitivity k.
    epsilon : float
        In nats, >= 0.

    Returns
    -------
    Fraction
        An upper bound, exactly 0 where the table is pure at `epsilon`. For one and two coordinates
        it is otherwise at most 1e-12 plus the mass of the table's tail above the true divergence;
        for more, at most the divergence at ``0.9999 * epsilon`` and as little.

    Raises
    ------
    ValueError
        If an argument is out of range.
    """
    epsilon, shifts = finite("epsilon", epsilon, least=0, unit="nats"), check_shifts(shifts)
    if is_pure(table, sum(map(abs, shifts)), epsilon):
        return Fraction(0)
    if len(shifts) > 2:
        times = sorted(Counter(abs(shift) for shift in shifts if shift).items())  # one rounding
        return composed_delta([(loss_distribution(table, s), n) for s, n in times], epsilon)
    first = _shifted(table, abs(shifts[0]))  # the law is symmetric, so signs do not matter
    second = _shifted(table, abs(shifts[1])) if len(shifts) == 2 else _STILL
    lost = len(shifts) * Fraction(table.tail, TOTAL)
    return _two_coordinates(first, second, exp_below(epsilon), epsilon) + lost + _SLACK


def is_pure(table: NoiseTable, norm: int, epsilon: float) -> bool:
    """Whether noise from `table` hides every move of this l1 norm at `epsilon` with delta = 0."""
    ratio = table.step_ratio
    if ratio is None:
        return False
    # By logarithms, rounded up: the ratio's power has millions of digits where a move is far.
    most = _UP.next_plus(_UP.divide(ratio.numerator, ratio.denominator).ln(_UP))
    return _UP.multiply(most, norm) <= Decimal(epsilon)


def _loss(p: int, q: int) -> float:
    return math.log(p) - math.log(q) if q else math.inf


class _ShiftedLaw:
    """One coordinate's law and itself moved: all that does not depend on epsilon.

    Parameters
    ----------
    pairs : list[tuple[int, int]]
        Weights (P(k), P(k - shift)) for k inside the table, 0 where k - shift falls outside.
    """

    def __init__(self, pairs: list[tuple[int, int]]) -> None:
        self.pairs = pairs
        self.losses = np.array([_loss(p, q) for p, q in pairs])

    @cached_property
    def ordered(self) -> NDArray[np.float64]:
        """The losses, ascending."""
        return np.sort(self.losses)

    @cached_property
    def largest(self) -> tuple[list[int], list[int]]:
        """Sums of P and of Q over this many of the largest losses, none first."""
        falling = [self.pairs[i] for i in np.argsort(-self.losses)]
        p_sums, q_sums = (list(accumulate((w[i] for w in falling), initial=0)) for i in (0, 1))
        return p_sums, q_sums


_STILL = _ShiftedLaw([(TOTAL, TOTAL)])


@lru_cache(maxsize=8)
def _shifted(table: NoiseTable, shift: int) -> _ShiftedLaw:
    return _ShiftedLaw(list(zip(table.weights, (0,) * shift + table.weights, strict=False)))


def _two_coordinates(
    first: _ShiftedLaw, second: _ShiftedLaw, bound: Fraction, epsilon: float
) -> Fraction:
    """Sum of ``max(0, p p' - e**eps q q')`` over all pairs of cells, in O(n log n)."""
    # Above a threshold on the second coordinate's loss, everything counts.
    wanted = epsilon - first.losses
    count = (len(second.losses) - np.searchsorted(second.ordered, wanted, "right")).tolist()
    p_largest, q_largest = second.largest
    gain = sum(p * p_largest[n] for (p, _), n in zip(first.pairs, count, strict=True))
    cost = sum(q * q_largest[n] for (_, q), n in zip(first.pairs, count, strict=True))
    return Fraction(gain - bound * cost, TOTAL * TOTAL)


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


LossCounts = Iterable[tuple[LossDistribution, int]]
"""Kinds of independent coordinates, and how many there are of each, >= 1."""


def composed_delta(parts: LossCounts, epsilon: float) -> Fraction:
    """Delta at `epsilon` (nats, >= 0) of independent coordinates together; an upper bound.

    Exact but for rounding and the grid, which costs some `_SPLIT` of epsilon where losses do not
    lie on it.
    """
    return ComposedLosses(list(parts), COARSE).delta(epsilon)[0]


class ComposedLosses:
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


ORDERS = 1 + 1.15 ** np.arange(-8, 56)
"""Rényi orders, 1.3 to 2,200; a finer choice would save less than 1 % of epsilon."""
_FLOAT_SLACK = 2.0**-40
"""Times the order, covers float64 rounding of one log-moment (below 2e-13 times the order)."""


def pure_delta(law: NoiseTable, ball: Ball, grid: int, epsilon: float) -> Fraction:
    """Delta at which steps of at most ``e**(epsilon / l1)`` hide every move of `ball`.

    Within a core ``|k| <= K`` of the law, neighbouring weights differ by at most that factor;
    what lies outside, or within one move of the core's edge, is delta. Close to 0 for (sums of)
    discrete Laplace, useless for lighter tails.

    Parameters
    ----------
    law : NoiseTable
        The noise on every coordinate, in grid steps.
    ball : Ball
        Moves, in counts.
    grid : int
        Grid steps a count.
    epsilon : float
        In nats, > 0.
    """
    factor = exp_below(math.nextafter(epsilon / (ball.l1 * grid), 0))
    up, down = factor.numerator, factor.denominator
    core, weights = 0, law.weights[law.reach :]
    while core < law.reach:
        large, small = sorted((weights[core], weights[core + 1]), reverse=True)
        if large * down > small * up:
            break
        core += 1
    inner = core - ball.largest * grid
    inside = weights[0] + 2 * sum(weights[1 : inner + 1]) if inner >= 0 else 0
    return min(Fraction(1), ball.coordinates * (1 - Fraction(inside, TOTAL)))


def renyi_delta(law: NoiseTable, ball: Ball, grid: int, epsilon: float) -> Fraction:
    """Delta of every move of `ball`, from the law's own Rényi moments.

    A move of ``a`` counts on one coordinate has log-moment ``m(a) <= price |a|**norm``, price >= 0.
    Moments of independent coordinates add up: all moves of the ball pay at most price × power.
    Then

        delta <= e**(price power - (order - 1) epsilon) (1 - 1/order)**(order - 1) / order

    (Canonne, Kamath, Steinke 2020, Prop. 12) plus the mass where the table ends.
    Parameters are those of `pure_delta`.
    """
    longest = ball.largest * grid
    if longest >= len(law.weights):
        return Fraction(1)  # one client moves the sum beyond all noise
    lost = Fraction(law.tail + sum(law.weights[:longest]), TOTAL)
    rest = ORDERS - 1
    free = rest * np.log1p(-1 / ORDERS) - np.log(ORDERS) - rest * epsilon
    found = 0.0
    least = _least_prices(law, ball, grid) * ball.power + free
    for index in np.argsort(least):  # a few of them: no other order can give less
        if least[index] >= found:
            break
        price = _price(law, ball, grid, float(ORDERS[index]))
        found = min(found, price * ball.power + float(free[index]))
    best = math.exp(min(0.0, found + 1e-9))
    return min(Fraction(1), Fraction(best) + ball.coordinates * lost)


@lru_cache(maxsize=32)
def _least_prices(law: NoiseTable, ball: Ball, grid: int) -> NDArray[np.float64]:
    """Return what the shortest and the longest move ask of `_price` at each order."""
    ends = {1, ball.largest}
    return np.array([_priced(law, ball, grid, float(order), ends) for order in ORDERS])


@lru_cache(maxsize=256)
def _price(law: NoiseTable, ball: Ball, grid: int, order: float) -> float:
    """Return the price of a unit of ``|a|**norm`` at an order."""
    return _priced(law, ball, grid, order, range(1, ball.largest + 1))


def _priced(law: NoiseTable, ball: Ball, grid: int, order: float, lengths: Iterable[int]) -> float:
    """Return the price of a unit of ``|a|**norm`` in moves of some lengths, in counts."""
    log_law = np.log(law.probabilities)
    price = 0.0  # a negative price would be wrong: few moves pay `power` units
    for a in lengths:
        p, q = log_law[a * grid :], log_law[: -a * grid]
        terms = order * (p - q) + q
        top = terms.max()
        moment = float(top + np.log(np.exp(terms - top).sum()))
        price = max(price, (moment + _FLOAT_SLACK * order) / a**ball.norm)
    return price


_WIDTH = 4
"""Squared, of the Gaussian rounding in `gaussian_delta`: its error is below 1e-33."""
_AMISS = 1 << 24
"""Shares of 2**-128 by which a weight may differ from the ideal law's, and a tail's at most."""


def gaussian_delta(law: NoiseTable, ball: Ball, epsilon: float) -> Fraction:
    """Delta of every move of a ball, where `law` is a discrete Gaussian of many steps.

    Gaussian noise of variance ``σ² - 4`` that is rounded at random, by a discrete Gaussian around
    it of variance 4, has the law of discrete Gaussian noise but for a factor ``1 ± 1e-33`` (Poisson
    summation). So discrete Gaussian noise is made of Gaussian noise without another look at the
    data, and hides what that hides (Balle & Wang 2018, Theorem 8; its proof serves moves that are
    chosen adaptively). 1 where the law is another, or has few steps.
    Parameters are those of `pure_delta`; grid steps are counts.
    """
    gaussian = _gaussian(law)
    if gaussian is None:
        return Fraction(1)
    sigma, amiss = gaussian
    mu = math.sqrt(ball.squares / (sigma**2 - _WIDTH)) * (1 + 1e-12)
    lost = amiss * ball.coordinates * Fraction(1 + math.exp(min(epsilon, 700.0)))
    return min(Fraction(1), Fraction(ideal_gaussian_delta(mu, epsilon)) + lost)


def ideal_gaussian_delta(mu: float, epsilon: float) -> float:
    """Delta of Gaussian noise on real numbers that are moved by `mu` of its deviations, > 0."""
    near, far = epsilon / mu - mu / 2, epsilon / mu + mu / 2
    more, less = math.erfc(near / math.sqrt(2)), math.erfc(far / math.sqrt(2))
    found = (more - math.exp(min(epsilon, 700.0)) * less) / 2
    return max(found, 0.0) + 1e-12 * more


@lru_cache(maxsize=32)
def _gaussian(law: NoiseTable) -> tuple[float, Fraction] | None:
    """Return a discrete Gaussian's parameter, from below, and a table's total variation from it.

    None unless each weight is that law's, to 2**-104.
    """
    one_sigma = round(law.variance**0.5)
    if law.tail > _AMISS or not 30 <= one_sigma < law.reach:
        return None
    right = law.weights[law.reach :]
    with localcontext(prec=60):
        ratio = Decimal(right[1]) / right[one_sigma]
        curvature = 2 * ratio.ln() / (one_sigma**2 - 1)
        step, shrink = (-curvature / 2).exp(), (-curvature).exp()
        weight, amiss = right[1] / step, Decimal(0)
        for found in right:
            apart = abs(found - weight)
            if apart > _AMISS:
                return None
            amiss += apart
            weight *= step
            step *= shrink
        if weight > _AMISS:  # it ends too early
            return None
        amiss += weight / (1 - step) + 1  # all that is further out, and this arithmetic
        variation = (2 * Fraction(amiss) + law.tail) / TOTAL
        return float((1 / curvature).sqrt()) * (1 - 1e-12), variation


NO_PROTECTION = 40.0
"""Nats from which on a delivered epsilon is reported as infinite."""
_TINY = Fraction(1, 1 << 40)
"""Delta under which the finer of two bounds is no longer looked for."""


def delivered_delta(
    share: NoiseTable, honest: int, moves: Moves, epsilon: float, *, grid: int = 1
) -> Fraction:
    """Return an upper bound of delta at `epsilon` for the noise that `honest` shares make.

    Parameters
    ----------
    share : NoiseTable
        What each client added to every coordinate, in grid steps.
    honest : int
        Clients in the sum that added their share and told nobody its value. The others' noise
        counts for nothing.
    moves : Moves
        What has to be hidden, in counts.
    epsilon : float
        In nats, > 0.
    grid : int
        Grid steps a count, >= 1.

    Raises
    ------
    ValueError
        If an argument is out of range.
    """
    honest = integer("honest", honest, least=0, unit="clients")
    grid = integer("grid", grid, least=1, unit="steps")
    if not honest or epsilon >= NO_PROTECTION:
        return Fraction(1)
    return release_delta(noise_sum(share, honest), moves, epsilon, grid=grid)


def release_delta(law: NoiseTable, moves: Moves, epsilon: float, *, grid: int = 1) -> Fraction:
    """Return an upper bound of delta at `epsilon` for noise of this law: the least that is known.

    Parameters
    ----------
    law : NoiseTable
        Of the noise on every coordinate, in grid steps.
    moves, epsilon, grid
        As in `delivered_delta`.
    """
    around = _around(moves)
    if is_pure(law, around.l1 * grid, epsilon):
        return Fraction(0)
    pure = pure_delta(law, around, grid, epsilon)
    if pure <= _TINY:
        return pure
    if not isinstance(moves, Ball):
        return min(pure, hockey_stick(law, tuple(grid * s for s in moves), epsilon))
    ideal = gaussian_delta(law, moves, epsilon) if grid == 1 else Fraction(1)
    return min(pure, ideal if ideal < 1 else renyi_delta(law, moves, grid, epsilon))


def _around(moves: Moves) -> Ball:
    if isinstance(moves, Ball):
        return moves
    if not moves or 0 in moves:
        raise ValueError("shifts must be non-zero moves of one coordinate or more")
    return Ball(1, l1_norm(moves), max(map(abs, moves)))
