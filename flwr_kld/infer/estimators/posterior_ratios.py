"""The estimators of D_θ, of the population and of the cohort's own records: empirical Bayes.

1. r has a law, and which one is averaged over (`law_average`): many shapes of drift
   (`drift_shapes`), the best of them also with a free smooth factor (`free_law`); their mean is one
   level, or follows a line in ln Π that bends (`trend`).
2. A cell's count is Poisson with mean N Π r, and the law of its noise is known: both are taken
   exactly. A count that tells r more finely than the grid is read as it is, less the second-order
   bias of φ.
3. Sum of posterior means, T = Σ w E[φ(r) | y]. The sum S of N Π r over the cells is known, from N
   and the cells that are not scored: T is conditioned on it as if both were normal.
4. Var T: what the counts leave open of each r, of the law and of the trend. D_θ is at least 0, so
   what is stated is its distance from T where it is.
5. The cohort's own number is the mean of Σ w φ(h / (N Π)) under the same laws, given y, but every D
   is about as likely a priori: most shapes move little, and decisions rest on T alone. It exceeds T
   by what chance adds: a symbol of which nobody has a record may still be one that P has. Where
   other symbols are gone, so may these be. So the population's number is T and a part of that
   excess, the larger the more is gone, and both numbers state that the part is not known.

Records that come in clusters tell less: counts of design effect e vary e times as much. They are
taken as negative binomial, which sums over many clients are whose laws vary around one.

Derivation: ``docs/proofs/estimates.md``.

`_HALF_GONE`, the fraction of Π that is gone where symbols that nobody has are as likely gone as
not, was tuned: if it is halved or doubled, the root mean square error of the population's number is
.124 or .115 for .118 in the 24 questions of `drift_shapes`; the cohort's does not change. `_FAR`,
per nat, is by how much ln of a law's chance grows with its divergence where the cohort's number is
averaged: so every D is about as likely under the roots that `CAUTION` takes. Its error is .378 in
151 pairs of digits, and .198 in 130 mixtures of them, at ε = .05 to 1; halved: .437 and .173,
doubled: .321 and .267.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from flwr_kld.common.errors import EstimateUndefined
from flwr_kld.infer.estimators.design_effect import INDEPENDENT, DesignEffects
from flwr_kld.infer.estimators.free_law import RatioLaw
from flwr_kld.infer.estimators.law_average import CAUTION, Seen, likely_laws
from flwr_kld.infer.estimators.ratio_cells import RatioCells
from flwr_kld.infer.estimators.result import (
    Divergences,
    Estimate,
    above_zero,
    assemble,
    cohort_deviation,
    noise_deviation,
)
from flwr_kld.infer.estimators.score import (
    THETA,
    Floats,
    check_theta,
    score,
    score_ceiling,
    score_slope,
)
from flwr_kld.infer.estimators.trend import Counted, Trend, fit_trends

if TYPE_CHECKING:
    from flwr_kld.ask.noisy import NoisyCounts
    from flwr_kld.ask.plan import QueryPlan

_HALF_GONE = 0.1
_FAR = 1.25
_TOGETHER = 200  # Not tuned: cells of the columns that are in memory at once


def posterior_ratios(
    counts: NoisyCounts, *, theta: float = THETA, effects: DesignEffects = INDEPENDENT
) -> Divergences:
    """Estimate those of one column; `EstimateUndefined` of counts that nobody can have."""
    (found,) = divergences([counts], theta=theta, effects=[effects])
    if found is None:
        raise EstimateUndefined("the counts are too far from their number to be true")
    return found


def divergences(
    columns: Sequence[NoisyCounts], *, theta: float = THETA, effects: Sequence[DesignEffects]
) -> list[Divergences | None]:
    """Estimate D_θ of the population, about 0 of any undrifted cohort, and of the cohort itself.

    Of each column; None of counts that nobody can have. The likely design effect says what counts
    tell; its error allows for what it is on average.
    """
    theta = check_theta(theta)
    found: list[Divergences | None] = []
    cells = np.cumsum([0, *(column.plan.cells for column in columns)])
    first = 0
    while first < len(columns):
        last = max(
            int(np.searchsorted(cells, cells[first] + _TOGETHER, side="right")) - 1, first + 1
        )
        own = columns[first:last], effects[first:last]
        counted = list(map(_counted, *own))
        some = [
            None if trend is None else _Column.of(counts, theta, effect, read, trend)
            for counts, effect, read, trend in zip(*own, counted, fit_trends(counted), strict=True)
        ]
        laws = iter(likely_laws([one.seen for one in some if one is not None]))
        found += [None if one is None else one.read(next(laws)) for one in some]
        first = last
    return found


@dataclass(frozen=True, eq=False)
class _Column:
    """One column's counts, and what is made of them before laws are."""

    counts: NoisyCounts
    theta: float
    effects: DesignEffects
    cells: RatioCells
    seen: Seen

    @classmethod
    def of(
        cls,
        counts: NoisyCounts,
        theta: float,
        effects: DesignEffects,
        counted: Counted,
        trend: Trend,
    ) -> _Column:
        """Compute likelihoods about the trend."""
        scored = np.flatnonzero(counts.plan.weight > 0)
        rest, effect = counted.rest, counted.design_effect
        level, level_variance = _level(counts, rest, effect)
        cells = RatioCells(counts, scored, trend, level, theta, effects)
        seen = Seen(
            rows=cells.rows,
            groups=cells.groups,
            place_of=cells.place_of,
            rest=rest,
            rest_log_mean=trend.log_mean[len(scored) :],
            trend_evidence=trend.evidence,
            noise=counted.noise,
            level=level,
            level_variance=level_variance,
            design_effect=effect,
        )
        return cls(counts, theta, effects, cells, seen)

    def read(self, laws: Sequence[RatioLaw]) -> Divergences:
        """Return what the likely laws say."""
        counts, theta, effects, cells = self.counts, self.theta, self.effects, self.cells
        plan, noise, effect = counts.plan, counts.noise.variance, self.seen.design_effect
        scored = np.flatnonzero(plan.weight > 0)
        found = cells.read(laws, *_total(counts, scored, effect))
        chance = _chances(found.evidence)
        wide = _chances(found.evidence + _FAR * np.array([law.divergence for law in laws]))
        ratios, of_counts = found.of_ratios, found.of_counts
        excess, part = of_counts.value - ratios.value, found.gone / (found.gone + _HALF_GONE)
        values = ratios.value + part * excess
        value, own = float(chance @ values), float(wide @ of_counts.value)
        doubt = part * (1 - part) * excess**2
        variance = float(chance @ (ratios.variance + (values - value) ** 2 + doubt))
        ceiling = score_ceiling(theta)
        mean = np.full(len(scored), ceiling)
        if value <= ceiling * cells.weight.sum():
            mean = ratios.of_cells(cells.groups.of, chance * (1 - part))
            mean += of_counts.of_cells(cells.groups.of, chance * part)
        # Poisson and noise answer for the error in proportion to their variance in the counts.
        by_records = effect * cells.expected * np.exp(cells.log_means)
        hidden = float(cells.weight @ (noise / (noise + by_records)) / cells.weight.sum())
        privacy = variance * hidden
        # It is at least 1: where that is likely, its mean is above what is told of it.
        average = effects.likely + effects.doubt / 4
        sampling = max(average / effect, 1.0) * max(variance - privacy, 0.0)
        possible = above_zero(value, math.sqrt(sampling + privacy))
        known = float(wide @ (of_counts.variance + (of_counts.value - own) ** 2 + hidden * doubt))
        y = counts.values[scored]
        held = np.where(of_counts.direct, y, (found.count @ wide)[cells.groups.of])
        return Divergences(
            population=assemble(
                plan,
                mean=mean,
                sampling=math.sqrt(sampling * possible),
                privacy=math.sqrt(privacy * possible),
            ),
            cohort=assemble(
                plan,
                mean=of_counts.of_cells(cells.groups.of, wide),
                sampling=cohort_deviation(plan, counts.records, held / cells.expected, theta),
                privacy=math.sqrt(known),
            ),
        )


def _chances(evidence: Floats) -> Floats:
    """Return how likely each law is, shape [K]."""
    chance = np.exp(CAUTION * (evidence - evidence.max()))
    return np.asarray(chance / chance.sum())


def as_counted(counts: NoisyCounts) -> Estimate:
    """Read D_θ of the cohort off counts that fit no law, as if they had no noise."""
    plan, scored = counts.plan, counts.plan.weight > 0
    expected = counts.records * plan.mass[scored]
    ratio = np.maximum(counts.values[scored], 0) / expected
    by_noise = score_slope(ratio, THETA) ** 2 * counts.noise.variance / expected**2
    return assemble(
        plan,
        mean=score(ratio, THETA),
        sampling=cohort_deviation(plan, counts.records, ratio, THETA),
        privacy=noise_deviation(plan, by_noise),
    )


def _total(
    counts: NoisyCounts, scored: NDArray[np.int64], effect: float
) -> tuple[float, float, float]:
    """Return the records in the scored cells as N and the other cells tell, and two variances.

    That of noise; and of chance, if it is N P that is told.
    """
    others = float(counts.values.sum() - counts.values[scored].sum())
    total = max(counts.records - others, 1.0)
    # A total that is itself the sum of the noisy cells tells nothing of their noise.
    cells = len(counts.values)
    noise = counts.noise.variance * (cells - len(scored) if counts.total_is_known else cells)
    return total, noise, effect * max(others, 0.0) * min(total / counts.records, 1.0)


def _rest(plan: QueryPlan) -> NDArray[np.int64]:
    """Cells that count many symbols of the reference together."""
    impossible = plan.reference.probabilities == 0
    outside = np.bincount(plan.cell_of, impossible, plan.cells) > 0
    return np.flatnonzero((plan.weight == 0) & ~outside)


def _level(counts: NoisyCounts, rest: Counted, effect: float) -> tuple[float, float]:
    """Return ln of the mean of r over all symbols that are counted, and its variance."""
    plan = counts.plan
    inside = np.concatenate([np.flatnonzero(plan.weight > 0), _rest(plan)])
    total, *variances = _total(counts, inside, effect)
    expected = counts.records * plan.mass[plan.weight > 0].sum() + rest.expected.sum()
    return math.log(total / expected), (sum(variances) + effect * total) / total**2


def _counted(counts: NoisyCounts, effects: DesignEffects) -> Counted:
    """Return what a trend is fitted to: the single symbols, then the remainders of the tail."""
    plan, effect = counts.plan, max(effects.likely, 1.0)
    scored = np.flatnonzero(plan.weight > 0)
    total, by_noise, by_chance = _total(counts, scored, effect)
    mass = counts.records * plan.reference.probabilities
    read = np.concatenate([scored, _rest(plan)])
    log_mass = np.log(np.where(mass > 0, mass, 1.0))
    expected, logs, squares = (
        np.bincount(plan.cell_of, x, plan.cells)[read] for x in (mass, mass * log_mass, mass**2)
    )
    return Counted(
        value=counts.values[read].astype(np.float64),
        expected=expected,
        log_symbol=logs / expected,
        crowding=squares / expected**2,
        total=total,
        total_variance=by_noise + by_chance,
        design_effect=effect,
        noise=counts.noise.variance,
        singles=len(scored),
    )
