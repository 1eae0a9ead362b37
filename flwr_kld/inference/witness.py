"""The witness of the lower bound: a public positive function of the symbol, of few values.

Donsker and Varadhan (1983): ``KL(Π || M) >= Σ Π ln f - ln E_M f`` for *every* f > 0, with equality
at ``f = Π / M``. So a witness may be learnt from one half of a cohort and evaluated on the other,
and however bad it is, the bound holds. PRIEST-KLD has no such bound.
Proof note: ``docs/proofs/lower-bound.md``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtrit

from flwr_kld.arguments import real, whole
from flwr_kld.inference.estimators.score import Floats, check_theta
from flwr_kld.inference.levels import best_levels
from flwr_kld.inference.shares import expected_shares
from flwr_kld.query.plan import HEAD, QueryPlan
from flwr_kld.query.selection import MOST_GROUPS

if TYPE_CHECKING:
    from flwr_kld.counts.noisy_counts import NoisyCounts
    from flwr_kld.privacy.table import NoiseTable

GROUPS = MOST_GROUPS
"""Groups of the second half by default; 6 to 16 give bounds within 3 % of each other, and more of
them make the alarm over checks faster."""
FIXED_POINT = 1 << 16
"""Steps of 1 in a witness's values. They cost nothing: only levels are sent."""
_MOST_LEVELS = 10
_CAPS = (1.25, 1.5, 2.0, 3.0, 5.0, 8.0, 12.0, 20.0)
"""Choices of F. Less than 1.25 would help no bound: it is the noise that F pays for."""
SLACK = 2.0**-46
"""Relative error that a handful of float64 operations stay below."""


@dataclass(frozen=True, eq=False)
class Witness:
    """f of each cell, in few levels. Everything in it is public.

    Parameters
    ----------
    plan : QueryPlan
        Of the first half.
    level_of : NDArray[np.int32]
        Shape [plan.cells], in 0..L-1: the level of each cell; no level is empty.
    values : tuple[Fraction, ...]
        f of each level, in fixed point, > 0.
    share : Floats
        Shape [L], P of each level as the first half had it. Good guesses make the alarm faster;
        no guarantee rests on them.

    Raises
    ------
    ValueError
        If these do not fit together.
    """

    plan: QueryPlan
    level_of: NDArray[np.int32]
    values: tuple[Fraction, ...]
    share: Floats

    def __post_init__(self) -> None:
        used = np.unique(self.level_of)
        levels = len(self.values)
        if self.level_of.shape != (self.plan.cells,) or self.share.shape != (levels,):
            raise ValueError("a witness needs a level for each cell and a share for each level")
        if not np.array_equal(used, np.arange(levels)):
            raise ValueError("the levels of a witness are numbered from 0, and none is empty")
        if any(value <= 0 or FIXED_POINT % value.denominator for value in self.values):
            raise ValueError("the values of a witness are positive and in fixed point")

    @classmethod
    def from_counts(
        cls,
        noisy: NoisyCounts,
        *,
        theta: float = 0.01,
        bound: float = 20.0,
        groups: int = GROUPS,
        level: float = 0.95,
        next_noise: NoiseTable | None = None,
        next_records: float | None = None,
    ) -> Witness:
        """Choose the witness whose bound is expected to be best.

        The best f for the first half's posterior mean of P is ``1 / ((1 - θ) r + θ)``. Noise on L
        levels in J groups costs in proportion to ``sqrt(J Σ f²)``: the number of levels and the cap
        F ≤ `bound`, ``1 / F <= f <= F``, are those with the largest expected bound. The cells
        outside the reference are the last level, by themselves: their share is wanted, too.

        Parameters
        ----------
        noisy : NoisyCounts
            Of the first half, one group.
        theta : float
            In [0, 1).
        bound : float
            Largest F, > 1.
        groups : int
            J >= 2.
        level : float
            Of the bound that is to come.
        next_noise, next_records
            Of the second half; by default those of the first.

        Raises
        ------
        ValueError
            If an argument is out of range.
        """
        theta, level = check_theta(theta), check_level(level)
        groups, bound = whole("groups", groups, least=2), real("bound", bound, above=1)
        plan = noisy.plan
        if noisy.values.shape != (plan.cells,):
            raise ValueError("a witness is learnt from counts in one group")
        records = noisy.records if next_records is None else next_records
        noise = groups * (next_noise or noisy.noise).variance / records**2
        quantile = float(stdtrit(groups - 1, level))
        shares = expected_shares(noisy, theta=theta)
        mixed = (1 - theta) * shares + theta * plan.mass
        caps = np.array([cap for cap in _CAPS if cap < bound] + [bound])[:, None]
        inside = ~plan.outside
        offers = []
        for inner in best_levels(plan.mass[inside], mixed[inside], _MOST_LEVELS):
            level_of = np.full(plan.cells, inner.max() + 1, dtype=np.int32)
            level_of[inside] = inner
            pi, p, m = (np.bincount(level_of, x) for x in (plan.mass, shares, mixed))
            f = np.clip(pi / np.maximum(m, np.finfo(float).tiny), 1 / caps, caps)
            if not inside.all():  # the last level may tell something, or be the mean of the others
                mean = f[:, :-1] @ p[:-1] / max(float(p[:-1].sum()), np.finfo(float).tiny)
                silent = np.column_stack([f[:, :-1], np.clip(mean, 1 / caps[:, 0], caps[:, 0])])
                f = np.concatenate([f, silent])
            mean = f @ p
            variance = (f**2 @ p - mean**2) / records + noise * ((f - mean[:, None]) ** 2).sum(1)
            mixture = (1 - theta) * mean + theta * (f @ pi)
            error = (1 - theta) * np.sqrt(np.maximum(variance, 0.0)) / mixture
            expected = np.log(f) @ pi - np.log(mixture) - quantile * error
            offers.append((float(expected.max()), level_of, f[expected.argmax()], p))
        # One level bounds 0 and learns nothing: what is below 0 today may add up over checks.
        _, level_of, f, p = max(offers[1:] or offers, key=lambda offer: offer[0])
        values = tuple(Fraction(math.ceil(x * FIXED_POINT), FIXED_POINT) for x in f.tolist())
        return cls(plan, level_of, values, np.asarray(p, dtype=np.float64))

    def query_plan(self) -> QueryPlan:
        """Return what the second half is asked: the cells, merged by level."""
        levels = len(self.values)
        return QueryPlan(
            self.plan.reference,
            self.level_of[self.plan.cell_of],
            weight=np.zeros(levels),  # counted, not scored
            inclusion=np.ones(levels),
            stratum=np.full(levels, HEAD),
        )

    @property
    def outside(self) -> NDArray[np.bool_]:
        """Which level, if any, counts the records outside the reference; shape [L]."""
        outside = np.zeros(len(self.values), dtype=bool)
        outside[self.level_of[self.plan.outside]] = True
        return outside

    @cached_property
    def f(self) -> Floats:
        """The values as float64, which holds them exactly; shape [L]."""
        return np.array([float(value) for value in self.values])

    @cached_property
    def mass(self) -> Floats:
        """Π of each level, each correctly rounded; shape [L]."""
        level_of = self.level_of[self.plan.cell_of]
        by_level = self.plan.reference.probabilities[np.argsort(level_of, kind="stable")]
        ends = np.cumsum(np.bincount(level_of, minlength=len(self.values)))[:-1]
        mass = np.array([math.fsum(part.tolist()) for part in np.split(by_level, ends)])
        normal: Floats = mass / math.fsum(mass.tolist())
        return normal

    @cached_property
    def log_mean(self) -> float:
        """``Σ Π ln f`` in nats, rounded downwards."""
        terms = self.mass * np.log(self.f)
        return math.fsum(terms.tolist()) - SLACK * (1 + math.fsum(np.abs(terms).tolist()))

    @cached_property
    def reference_mean(self) -> float:
        """``E_Π f``, rounded upwards."""
        return math.fsum((self.mass * self.f).tolist()) * (1 + SLACK)


def check_level(level: float) -> float:
    """Return a confidence as Python's number; ValueError unless it is in [0.5, 1)."""
    return real("level", level, least=0.5, below=1)


def in_groups(noisy: NoisyCounts, levels: int) -> NDArray[np.int64]:
    """Read counts of a query over levels as [levels, groups].

    Raises
    ------
    ValueError
        If they are not of that many levels, or in fewer than two groups.
    """
    if noisy.plan.cells != levels or len(noisy.values) % levels:
        raise ValueError(f"the counts are not those of a witness of {levels} levels")
    if len(noisy.values) < 2 * levels:
        raise ValueError("a lower bound needs counts in at least two groups")
    return noisy.values.reshape(levels, -1)
