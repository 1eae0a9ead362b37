"""The upper confidence limit of D_θ: what can be excluded, whatever the drift looks like.

The score of a ratio r = P / Π lies below a polynomial in 1 - r. Powers of 1 - r have unbiased
estimates from noisy counts, so the polynomials' sum over cells estimates D_θ or more, for every P;
records that hang together in clients only raise it, since the polynomials are convex. The limit
adds standard errors to that sum. The normal law makes the level asymptotic. Proof note:
``docs/proofs/decisions.md``.

Numbers that were tuned. Of 800 limits (no drift and four drifts of 2, 20, 150 and 600 symbols), 3
are below the truth, and they are .120 nats above it on average.

========  ===============  =========================================================================
number    unit             meaning, and what a half or twice as much does
========  ===============  =========================================================================
_FAR      standard errors  above the reference from which on a ratio is scored as it is read: the
                           score is convex, so that raises its mean: 3, .114 / 3, .122
_CHANCE   standard errors  above the reference that give no variance, as polynomials are steep
                           there: 3, .124 / 3, .119
_SPENT    part             of the error probability that the normal law is given: where few cells
                           carry the sum, it and its error are small together: 2, .139 / if it is
                           all, 8, .106
_STEPS    of nats          on both sides of a trade between what is given up and what is estimated:
                           no change; without it 3, .126
_SIGNAL   standard errors  above which a sum is not taken for chance: 16 % of sums without a drift
                           are, under the normal law, .003 %, and 2 % as it is
========  ===============  =========================================================================

`_DEGREES` are the even ones, and `_FACTORS` of records or epsilon are those that are proposed.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING

import numpy as np
import scipy
from numpy.typing import NDArray

from flwr_kld.infer.estimators.score import THETA, Floats, check_level, check_theta, in_blocks
from flwr_kld.infer.unbiased_powers import HIGHEST, UnbiasedPowers
from flwr_kld.kernel.arguments import finite

if TYPE_CHECKING:
    from flwr_kld.ask.noisy import NoisyCounts
    from flwr_kld.ask.plan import QueryPlan
    from flwr_kld.kernel.law import NoiseTable

_DEGREES = tuple(range(2, HIGHEST + 1, 2))
_FAR = 8.0
_CHANCE = 2.0
_SPENT = 0.6
_STEPS = np.append(np.logspace(-3, 1, 33), np.inf)
_FACTORS = (1.5, 2, 3, 4, 5, 6, 8, 10, 15, 20, 30, 50, 100, 200)
_SIGNAL = 2.0
EPSILON = "epsilon= of the ServerApp's trust model"
"""Where the noise is set, for whoever wants less of it."""


@dataclass(frozen=True)
class UpperLimit:
    """D_θ of the population over the whole domain is at most `value`, with confidence `level`."""

    value: float  # In nats, within ``[0, ln(1/θ)]``
    level: float  # One-sided confidence; asymptotic, in the number of records
    # The sum of polynomials, in nats: unbiased for D_θ or more. About 0 without a drift.
    excess: float
    error: float  # Its standard error, in nats
    _design: _Design

    def resolves(self, wanted: float) -> str:
        """Say what would bring the limit down to a wanted value, in nats, if nothing drifted."""
        wanted = finite("wanted", wanted, above=0, unit="nats")
        design, ways = self._design, []
        moved = self.excess > max(_SIGNAL * self.error, wanted / 2)
        if moved and design.margin(self.level) <= wanted:
            return "a look at the next checks: something may have moved, or it is chance"
        if design.theta == 0:
            return "theta=0.01: at theta=0 one unseen symbol makes D infinite"
        changes: tuple[tuple[str, Callable[[float], _Design]], ...] = (
            ("records", design.with_records),
            (
                EPSILON,
                lambda k: replace(design, powers=design.powers.scaled(1 / k)),
            ),
        )

        def first(tried: Sequence[float], changed: Callable[[float], _Design]) -> float | None:
            """Return the first number that is enough, if any: all those after it are."""
            place = bisect_left(tried, True, key=lambda k: changed(k).margin(self.level) <= wanted)
            return tried[place] if place < len(tried) else None

        for what, changed in changes:
            if enough := first(_FACTORS, changed):
                ways.append(f"{enough:g} times the {what}")
        sizes = [len(design.weight)]
        while sizes[-1] > 2:
            sizes.append(int(sizes[-1] * 0.8))
        if symbols := int(first(sizes[:-1], lambda k: design.even(int(k))) or 0):
            rounding = 10 ** max(len(str(symbols)) - 2, 0)
            ways.append(f"at most {symbols // rounding * rounding:,} symbols of like frequency")
        return " or ".join(ways) or "a larger threshold or resolution, or fewer symbols"


def upper_limit(
    noisy: NoisyCounts, *, theta: float = THETA, level: float = 0.95, design_effect: float = 1.0
) -> UpperLimit:
    """Limit D_θ of the population from above, for every alternative."""
    theta, level = check_theta(theta), check_level(level)
    effect = finite("design_effect", design_effect, least=1)
    design = _Design.of(noisy.plan, noisy.noise, noisy.records, theta, effect)
    if theta == 0:
        return UpperLimit(math.inf, level, math.inf, math.inf, design)
    scored, counts = noisy.plan.weight > 0, noisy.values.astype(np.float64)
    excess, variance = design.excess(counts[scored], float(counts[~scored].sum()))
    value = max(excess, 0.0) + design.above(variance, level)
    ceiling = -math.log(theta)
    return UpperLimit(min(value, ceiling), level, excess, math.sqrt(variance), design)


def usual_margin(
    plan: QueryPlan, noise: NoiseTable, records: float, *, theta: float = THETA
) -> Callable[[float], float]:
    """Return about the limit without a drift, in nats, as a function of the noise, in times it."""
    design = _Design.of(plan, noise, records, theta, 1.0)

    def margin(times: float) -> float:
        return replace(design, powers=design.powers.scaled(times)).margin(0.95)

    return margin


@dataclass(frozen=True, eq=False)
class _Design:
    """What a check asks and how exactly; everything but the counts."""

    # `expected`, `weight` and `unasked` have one number for each scored cell: ``N Π``, the weight,
    # and its variance over the plan's own draws by its square. `others` is the number of other
    # cells if every symbol has its own: then they count what the scored ones lost; otherwise None.

    expected: Floats
    weight: Floats
    unasked: Floats
    others: int | None
    records: float
    powers: UnbiasedPowers
    theta: float
    effect: float

    @classmethod
    def of(
        cls, plan: QueryPlan, noise: NoiseTable, records: float, theta: float, effect: float
    ) -> _Design:
        """Read a plan and the law of the noise."""
        powers = UnbiasedPowers.of(noise)
        scored = plan.weight > 0
        weight, unasked = plan.weight[scored], 1 - plan.inclusion[scored]
        others = None if unasked.any() else plan.cells - len(weight)
        expected = records * plan.mass[scored]
        return cls(expected, weight, unasked, others, records, powers, theta, effect)

    def even(self, symbols: int) -> _Design:
        """Return that of a domain of this many symbols, all of the same frequency."""
        each = np.ones(symbols)
        return replace(
            self,
            expected=self.records / symbols * each,
            weight=each / symbols,
            unasked=0 * each,
            others=0,
        )

    def with_records(self, factor: float) -> _Design:
        """Return that of this many times the records."""
        return replace(self, expected=self.expected * factor, records=self.records * factor)

    @property
    def _noise(self) -> float:
        return float(self.powers.covariance[1, 1])

    def _majorant(self, degree: int) -> Floats:
        """Coefficients b_k of a polynomial in x = 1 - r that is above the score for all r >= 0."""
        # The score is ``-ln(1 - (1 - θ) x) = Σ ((1 - θ) x)**k / k``; the last coefficient makes
        # both equal at x = 1.
        k = np.arange(1, degree)
        b = np.concatenate([[0.0], (1 - self.theta) ** k / k, [0.0]])
        b[-1] = -math.log(self.theta) - b.sum()
        if self.others is not None:
            b[1] = 0.0
        return b

    def _variance(self, x: Floats, expected: Floats, b: Floats) -> Floats:
        """Of the estimate of ``Σ b_k x**k`` at the ratio 1 - x, by Taylor around it; exact."""
        degree = len(b) - 1
        mean = self.effect * expected * np.maximum(1 - x, 0)
        powers = np.arange(degree + 1)[:, None]
        d = _slopes(tuple(b.tolist())) @ x**powers * (-1 / expected) ** powers
        covariances = self.powers.covariances(mean, degree)
        return np.asarray(np.einsum("kc,kc->c", np.einsum("klc,lc->kc", covariances, d), d))

    @cached_property
    def _degree(self) -> NDArray[np.int64]:
        """Degree of each scored cell: the one whose estimate varies least without a drift."""
        ends = np.log(self.expected.min()), np.log(self.expected.max())
        grid = np.exp(np.linspace(*ends, 1 + math.ceil(10 * (ends[1] - ends[0]))))
        none = np.zeros_like(grid)
        each = [self._variance(none, grid, self._majorant(m)) for m in _DEGREES]
        best = np.array(_DEGREES)[np.argmin(each, axis=0)]
        return np.asarray(best[np.searchsorted(grid, self.expected, side="right") - 1])

    @cached_property
    def _by_degree(self) -> list[tuple[NDArray[np.int64], Floats]]:
        """Cells of each degree, and their polynomial."""
        return [
            (np.flatnonzero(self._degree == m), self._majorant(m)) for m in np.unique(self._degree)
        ]

    @cached_property
    def _rest(self) -> float:
        """Variance of what the other cells say of D_θ, where every symbol has its cell."""
        return ((1 - self.theta) / self.records) ** 2 * (self.others or 0) * self._noise

    def excess(self, y: Floats, elsewhere: float) -> tuple[float, float]:
        """Return the sum over scored cells with counts `y`, and its variance."""
        total, variance, unasked = 0.0, self._rest, 0.0
        if self.others is not None:
            total = (1 - self.theta) * elsewhere / self.records
            variance += (1 - self.theta) ** 2 * max(elsewhere, 0.0) / self.records**2
        for cells, b in self._by_degree:
            at, w, kept = self.expected[cells], self.weight[cells], self._kept[cells]
            value, spread, x = self._read(y[cells], at, b)
            lost = (1 - kept) * (1 - self.theta if self.others is not None else 0.0)
            value = kept * value + (1 - kept) * -math.log(self.theta) - lost * x
            error = self.effect * np.maximum(y[cells], 0) + self._noise
            spread = kept**2 * spread + lost * (2 * kept + lost) * error / at**2
            total += float(w @ value)
            variance += float(w**2 @ spread)
            unasked += float((w**2 * self.unasked[cells]) @ (value**2 - spread))
        return total, max(variance, self.null) + max(unasked, 0.0)

    def _read(self, y: Floats, at: Floats, b: Floats) -> tuple[Floats, Floats, Floats]:
        """Return each cell's estimate of the polynomial, its variance, and ``1 - r``."""
        degree = len(b) - 1
        c = self.powers.estimates(y, at, max(degree, 3))
        power = [(-1) ** k * c[k] / at**k for k in range(len(c))]
        x, a, error = power[1], 1 - self.theta, self.effect * np.maximum(y, 0) + self._noise
        value = np.asarray(sum(b[k] * power[k] for k in range(1, degree + 1)))
        if degree == 2:
            spread = self._unbiased_variance(power, at, b)
        else:
            chance = _CHANCE * np.sqrt(self.effect * at + self._noise) / at
            seen = 1 - np.maximum(y, 0) / at
            spread = self._variance(np.where(seen < 0, np.minimum(seen + chance, 0), seen), at, b)
        far = x < -_FAR * np.sqrt(self.effect * at + self._noise) / at
        linear, r = a - b[1], 1 - x[far]
        value[far] = -np.log(a * r + self.theta) - linear * x[far]
        spread[far] = (linear - a / (a * r + self.theta)) ** 2 * error[far] / at[far] ** 2
        return value, spread, x

    def _unbiased_variance(self, power: list[Floats], at: Floats, b: Floats) -> Floats:
        """`_variance` of a quadratic, from unbiased powers of x: counts may be all noise."""
        _, one, two, three = power
        of, seen = self.powers.covariance, self.effect * at
        slope = b[1] ** 2 + 4 * b[1] * b[2] * one + 4 * b[2] ** 2 * two
        slope_x = b[1] ** 2 * one + 4 * b[1] * b[2] * two + 4 * b[2] ** 2 * three
        first = (seen * (slope - slope_x) + of[1, 1] * slope) / at**2
        mixed = -2 * (b[1] + 2 * b[2] * one) * b[2] * of[1, 2] / at**3
        left = 1 - 2 * one + two  # r², and 1 - x is r
        second = 2 * seen**2 * left + 4 * seen * (1 - one) * of[1, 1] + of[2, 2]
        return np.asarray(first + mixed + b[2] ** 2 * second / at**4)

    @cached_property
    def _null_variances(self) -> Floats:
        """Variance of each scored cell's estimate without a drift."""
        found = np.zeros_like(self.expected)
        for cells, b in self._by_degree:
            at = self.expected[cells]
            found[cells] = self._variance(np.zeros_like(at), at, b)
        return found

    @cached_property
    def _kept(self) -> Floats:
        """Fraction of each cell that is estimated; for the rest the worst score is taken."""
        # Minimises ``Σ w (1 - kept) ln(1/θ) + z √(Σ w² kept² V)`` at about a z: the best fractions
        # are ``min(1, t / (w V))``.
        spread, ceiling = self.weight * self._null_variances, -math.log(self.theta)
        most = ceiling / np.maximum(spread, 1e-300)
        costs = []
        for some in in_blocks(_STEPS, len(spread)):
            kept = np.minimum(1.0, some[:, None] * most)
            costs.append(
                ceiling * ((1 - kept) @ self.weight) + 2 * np.sqrt(kept**2 @ (self.weight * spread))
            )
        return np.asarray(np.minimum(1.0, _STEPS[np.argmin(np.concatenate(costs))] * most))

    @cached_property
    def _given_up(self) -> float:
        """What the cells that are not estimated add, in nats."""
        return -math.log(self.theta) * float(self.weight @ (1 - self._kept))

    @cached_property
    def null(self) -> float:
        """Variance of the sum without a drift."""
        return self._rest + float((self._kept * self.weight) ** 2 @ self._null_variances)

    @cached_property
    def _growth(self) -> float:
        """Most by which the variance grows with the sum, in nats: by counts that chance hid."""
        few = self._degree == 2
        error = (self.effect * self.expected + self._noise) / self.expected**2
        worst = np.max((self._kept * self.weight * error)[few], initial=0.0)
        sampled = np.max(self.weight[self.unasked > 0], initial=0.0)
        return 4 * float(self._majorant(2)[2] * worst) - math.log(self.theta) * float(sampled)

    def above(self, variance: float, level: float) -> float:
        """Return the largest d with ``d <= z √(variance + growth d)``, and a bit as N is fixed."""
        z = -float(scipy.special.ndtri(_SPENT * (1 - level)))
        half = z * z * self._growth / 2
        return (
            half + math.sqrt(half * half + z * z * variance) - math.log(self.theta) / self.records
        )

    def margin(self, level: float) -> float:
        """Return about the limit of a check without a drift, in nats: three times the variance."""
        return self._given_up + self.above(3 * self.null, level)


@lru_cache(maxsize=16)
def _slopes(b: tuple[float, ...]) -> Floats:
    """``binom(i, k) b_i`` at [k, i - k]: times powers of x, the Taylor series of ``Σ b_i x**i``."""
    found = np.zeros((len(b), len(b)))
    for i in range(1, len(b)):
        for k in range(1, i + 1):
            found[k, i - k] = math.comb(i, k) * b[i]
    return found
