"""The witness of a check: a public positive function of the cell, learnt before it is asked.

Donsker and Varadhan (1983): ``KL(Π || M) >= Σ Π ln f - ln E_M f`` for *every* f > 0, with equality
at ``f = Π / M``. So a witness may be learnt from one half of a cohort, and from earlier checks, and
evaluated on the other half: however bad it is, what it proves holds. PRIEST-KLD has no such bound.
Proof note: ``docs/proofs/decisions.md``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from flwr_kld.inference.deciding import Deciding
from flwr_kld.inference.estimators.score import Floats
from flwr_kld.inference.recent_checks import RecentChecks
from flwr_kld.kernel.count import LARGEST_SCORE, Scores
from flwr_kld.query.plan import QueryPlan

if TYPE_CHECKING:
    from flwr_kld.query.noisy import ClientSums, NoisyCounts

SLACK = 2.0**-40
"""Relative error that float64 sums over cells stay below."""
_LEAST = (1.1, 1.25, 1.5, 2.0, 3.0, 5.0, 8.0, 12.0, 20.0)
_MOST = (1.02, 1.05, *_LEAST)
"""Caps of 1 / f and of f. Where clients lost records, f is large, and a client that holds nothing
else could lose most: a low cap there makes bets larger."""
_POWERS = (1.0, 0.7, 0.5, 0.3, 0.1, 0.02)
"""Powers that f is raised to. The full one sees most nats; near a threshold of 0 a small one has
twice the ratio of signal to noise, as what the inequality loses is quadratic in ln f."""
_STEPS = 16
"""Sizes of a step that are tried, within 1 / 16 of each other: one fits the threshold well."""


@dataclass(frozen=True, eq=False)
class Witness:
    """f of each cell, in whole steps below 1. Everything in it is public."""

    plan: QueryPlan  # Of the first half
    below: NDArray[np.int64]  # Shape [cells]: ``f = 1 - below · step``, which is positive
    step: float  # In (0, 1)
    share: Floats  # Shape [cells], P as it was expected. No guarantee over checks rests on it.
    deciding: Deciding  # What the second half is going to be

    def __post_init__(self) -> None:
        if not self.below.shape == self.share.shape == (self.plan.cells,):
            raise ValueError("a witness needs a value and a fraction for each cell")
        if not 0 < self.step < 1 or not (self.f > 0).all():
            raise ValueError("the values of a witness are positive, in steps below 1")

    @classmethod
    def from_counts(
        cls, noisy: NoisyCounts, deciding: Deciding, recent: RecentChecks | None = None
    ) -> Witness:
        """Choose the witness by what is expected of the second half.

        The best f for the posterior mean of P is ``1 / ((1 - θ) r + θ)``. Capped and raised to a
        power, it is the one with the best bound, if that is sure to be beyond the threshold. Else
        it is the one whose sum is the largest part of what a check needs to find it.
        """
        plan, theta = noisy.plan, deciding.theta
        share = (recent or RecentChecks()).shares(noisy, theta=theta)
        mixed = (1 - theta) * share + theta * plan.mass
        inverse = plan.mass / np.maximum(mixed, np.finfo(float).tiny)
        rows = [_offers(inverse, least) for least in _LEAST]  # few at a time: each has all cells
        found = np.concatenate([_expected(f, plan.mass, share, deciding) for f in rows], axis=1)
        bounds, parts = found
        best = int(np.argmax(bounds if bounds.max() > deciding.threshold else parts))
        row, place = divmod(best, len(rows[0]))
        return cls._in_steps(rows[row][place], plan, share, deciding)

    @classmethod
    def _in_steps(cls, f: Floats, plan: QueryPlan, share: Floats, deciding: Deciding) -> Witness:
        """Round f to steps, of the size that wastes least at the threshold."""
        reach = max(np.abs(_score(f, plan.mass, deciding)).max(), np.abs(1 - f).max(), 2.0**-20)
        smallest = float(reach) * (1 + 2 / _STEPS) / LARGEST_SCORE
        offers = [
            cls(plan, np.rint((1 - f) / step).astype(np.int64), step, share, deciding)
            for step in (smallest * (1 + i / _STEPS**2) for i in range(_STEPS))
        ]
        return min(offers, key=lambda witness: witness._wasted)

    @cached_property
    def scores(self) -> Scores:
        """What clients of the second half add up: ``least(threshold) - f`` in steps.

        Rounded down, so its mean is at most 0 if D_θ is at most the threshold.
        """
        divergence = self.below + self._above
        lowest, highest = min(int(divergence.min()), 0), max(int(divergence.max()), 0)
        most, variance = self.deciding.most_records, (self.deviation / self.step) ** 2
        ceiling = self.deciding.ceiling(
            np.array(-most * lowest), np.array(variance), np.array(highest - lowest)
        )
        return Scores(
            divergence=tuple(divergence.tolist()),
            outside=_outside_scores(self.plan.outside, self.deciding.outside),
            ceiling=min(most * highest, math.ceil(float(ceiling))),
            most_records=most,
        )

    def query_plan(self) -> QueryPlan:
        """Return what the second half is asked."""
        return self.plan.scored((self.scores,))

    def hold(self, sums: ClientSums) -> None:
        """Refuse sums of other scores with a ValueError."""
        if sums.plan.scores != (self.scores,):
            raise ValueError("the sums are not those of this witness")

    def least(self, threshold: float) -> float:
        """Return the least that ``E_P f`` can be if D_θ is at most this many nats, rounded down.

        ``Σ Π ln f - D_θ <= ln((1 - θ) E_P f + θ E_Π f)`` (Donsker and Varadhan).
        """
        theta = self.deciding.theta
        reached = math.exp(self.log_mean - threshold) * (1 - SLACK)
        return (reached - theta * self.reference_mean) / (1 - theta) - SLACK

    def divergence(self, mean: float) -> float:
        """Return the least that D_θ can be if ``E_P f`` is at most this, rounded down."""
        theta, f = self.deciding.theta, self.f
        most = min(max(mean, float(f.min())), float(f.max()))
        whole = (1 - theta) * most + theta * self.reference_mean
        return self.log_mean - math.log(whole * (1 + SLACK)) - SLACK

    @cached_property
    def f(self) -> Floats:
        """Values of the cells, shape [cells]."""
        return np.asarray(1 - self.below * self.step, dtype=np.float64)

    @cached_property
    def log_mean(self) -> float:
        """``Σ Π ln f`` in nats, rounded downwards."""
        terms = self._mass * np.log(self.f)
        return math.fsum(terms.tolist()) - SLACK * (1 + math.fsum(np.abs(terms).tolist()))

    @cached_property
    def reference_mean(self) -> float:
        """``E_Π f``, rounded upwards."""
        return math.fsum((self._mass * self.f).tolist()) * (1 + SLACK)

    @cached_property
    def deviation(self) -> float:
        """Standard deviation of f over records, as the first half had them, times √records."""
        variance = float(self.share @ self.f**2 - (self.share @ self.f) ** 2)
        return math.sqrt(max(variance, 0.0) * self.deciding.records)

    @cached_property
    def _mass(self) -> Floats:
        return np.asarray(self.plan.mass / math.fsum(self.plan.mass.tolist()), dtype=np.float64)

    @property
    def _above(self) -> int:
        """By how many steps `least` at the threshold is above 1, rounded down."""
        return math.floor((self.least(self.deciding.threshold) - 1) / self.step)

    @property
    def _wasted(self) -> float:
        """What this rounding loses, in f."""
        return self.least(self.deciding.threshold) - 1 - self._above * self.step


def _score(f: Floats, mass: Floats, deciding: Deciding) -> Floats:
    """Score records by f at the threshold, before it is rounded; shape [..., cells], as f."""
    reached = np.exp(np.log(f) @ mass - deciding.threshold)
    least = (reached - deciding.theta * (f @ mass)) / (1 - deciding.theta)
    return np.asarray(least[..., None] - f)


def _offers(inverse: Floats, least: float) -> Floats:
    """Cap f from below at 1 / least, and in several ways from above; shape [offers, cells]."""
    capped = np.clip(inverse, 1 / least, np.array(_MOST)[:, None])
    powers = np.stack([capped**power for power in _POWERS], axis=1)
    return np.asarray(powers.reshape(-1, len(inverse)))


def _expected(offers: Floats, mass: Floats, share: Floats, deciding: Deciding) -> Floats:
    """Predict what offers come to, shape [2, offers], of offers of shape [offers, cells].

    The bound on D_θ that they are sure to give, and their sum as a part of what is needed.
    """
    theta, records, mean = deciding.theta, deciding.records, offers @ share
    score = _score(offers, mass, deciding)
    sampling = records * np.maximum(offers**2 @ share - mean**2, 0.0)
    expected = records * (score @ share)
    needed = deciding.needed(score, sampling, expected)
    mixture = (1 - theta) * (mean + needed / records) + theta * (offers @ mass)
    bound = np.log(offers) @ mass - np.log(mixture)
    return np.stack([bound, expected / np.maximum(needed, SLACK)])


def _outside_scores(outside: NDArray[np.bool_], tolerated: float) -> tuple[int, ...]:
    """Score records outside the reference up and others down: at what is tolerated, at most 0."""
    if not outside.any():
        return (0,) * len(outside)
    down = math.ceil(tolerated * LARGEST_SCORE)
    up = min(down * (1 - tolerated) / tolerated, LARGEST_SCORE) if down else LARGEST_SCORE
    return tuple(np.where(outside, math.floor(up), -down).tolist())
