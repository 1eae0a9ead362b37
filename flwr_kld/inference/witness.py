"""The witness of a check: a public positive function of the cell, learnt from the first half.

Donsker and Varadhan (1983): ``KL(Π || M) >= Σ Π ln f - ln E_M f`` for *every* f > 0, with equality
at ``f = Π / M``. So a witness may be learnt from one half of a cohort and evaluated on the other,
and however bad it is, what it proves holds. PRIEST-KLD has no such bound.
Proof note: ``docs/proofs/lower-bound.md``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from flwr_kld.inference.deciding import Deciding
from flwr_kld.inference.estimators.posterior_counts import expected_shares
from flwr_kld.inference.estimators.score import Floats
from flwr_kld.query.plan import QueryPlan
from flwr_kld.query.scores import LARGEST_LOSS, LARGEST_SCORE, NUMBERS, Scores

if TYPE_CHECKING:
    from flwr_kld.counts.client_sums import ClientSums
    from flwr_kld.counts.noisy_counts import NoisyCounts

SLACK = 2.0**-40
"""Relative error that float64 sums over cells stay below."""
_LEAST = (1.1, 1.25, 1.5, 2.0, 3.0, 5.0, 8.0, 12.0, 20.0)
_MOST = (1.02, 1.05, *_LEAST)
"""Caps of 1 / f and of f. Where clients lost records, f is large, and a client that holds nothing
else could lose most: a low cap there makes bets larger."""
_POWERS = (1.0, 0.7, 0.5, 0.3, 0.1, 0.02)
"""Powers that f is raised to. The full one sees most nats; near a threshold of 0 a small one has
twice the ratio of signal to noise, as what the inequality loses is quadratic in ln f."""
_SURE = 6.0
"""Standard errors beyond the threshold at which a check finds a drift at any level in use: there
the witness is the one with the best bound."""
_STAKED = 1.2
"""Drift, in standard errors of a check's sum, on which bets grow fastest."""
_STAKES = np.geomspace(1.0, 0.02, 24)
_STEPS = 16
"""Sizes of a step that are tried, within 1 / 16 of each other: one fits the threshold well."""


@dataclass(frozen=True, eq=False)
class Witness:
    """f of each cell, in whole steps below 1. Everything in it is public.

    Parameters
    ----------
    plan : QueryPlan
        Of the first half.
    below : NDArray[np.int64]
        Shape [cells]: ``f = 1 - below · step``, which is positive.
    step : float
        In (0, 1).
    share : Floats
        Shape [cells], P as the first half had it. No guarantee over checks rests on it.
    deciding : Deciding
        What the second half is going to be.

    Raises
    ------
    ValueError
        If these do not fit together.
    """

    plan: QueryPlan
    below: NDArray[np.int64]
    step: float
    share: Floats
    deciding: Deciding

    def __post_init__(self) -> None:
        if not self.below.shape == self.share.shape == (self.plan.cells,):
            raise ValueError("a witness needs a value and a share for each cell")
        if not 0 < self.step < 1 or not (self.f > 0).all():
            raise ValueError("the values of a witness are positive, in steps below 1")

    @classmethod
    def from_counts(cls, noisy: NoisyCounts, deciding: Deciding) -> Witness:
        """Choose the witness by what is expected of the second half.

        The best f for the first half's posterior mean of P is ``1 / ((1 - θ) r + θ)``. Capped and
        raised to a power, it is the one with the best bound, if that is far beyond the threshold;
        else the one whose sum stands most standard errors above what the threshold allows.

        Parameters
        ----------
        noisy : NoisyCounts
            Of the first half.
        deciding : Deciding
            What the second half is going to be.
        """
        plan, theta = noisy.plan, deciding.theta
        share = expected_shares(noisy, theta=theta)
        mixed = (1 - theta) * share + theta * plan.mass
        inverse = plan.mass / np.maximum(mixed, np.finfo(float).tiny)
        best_bound, best_errors = (-math.inf, inverse), (-math.inf, inverse)
        for least in _LEAST:
            capped = np.clip(inverse, 1 / least, np.array(_MOST)[:, None])
            offers = np.stack([capped**power for power in _POWERS], axis=1).reshape(-1, plan.cells)
            bounds, errors = _expected(offers, plan.mass, share, deciding)
            best_bound = _better(best_bound, bounds, offers)
            best_errors = _better(best_errors, errors, offers)
        sure = best_bound[0] > deciding.threshold
        return cls._in_steps((best_bound if sure else best_errors)[1], plan, share, deciding)

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
        deciding, divergence = self.deciding, self.below + self._above
        lowest = max(-int(divergence.min()), 1) * (
            deciding.most_records if deciding.by == "client" else 1
        )
        largest = (1 - SLACK) * LARGEST_LOSS / lowest
        scores = Scores(
            divergence=tuple(divergence.tolist()),
            outside=_outside_scores(self.plan.outside, deciding.outside),
            stake=largest,
            most_records=deciding.most_records,
            by=deciding.by,
        )
        # Bets of λ on a drift of z deviations σ grow by λ z σ - λ² σ² / 2, less what noise costs.
        unit = scores.units(deciding.guarantee)[NUMBERS.index("log_wealth")]
        noise = (deciding.noise * float(unit)) ** 2
        stakes = largest * _STAKES * self.deviation / self.step
        growth = _STAKED * stakes - (stakes**2 + noise * _STAKES**2) / 2
        return replace(scores, stake=largest * float(_STAKES[np.argmax(growth)]))

    def query_plan(self) -> QueryPlan:
        """Return what the second half is asked."""
        return replace(self.plan, scores=self.scores)

    def hold(self, sums: ClientSums) -> None:
        """Refuse sums of other scores with a ValueError."""
        if sums.plan.scores != self.scores:
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


def _expected(
    offers: Floats, mass: Floats, share: Floats, deciding: Deciding
) -> tuple[Floats, Floats]:
    """Predict each offer's bound `_SURE` errors below the middle, and errors above the threshold.

    Shape [offers] both, of offers of shape [offers, cells].
    """
    theta, records, mean = deciding.theta, deciding.records, offers @ share
    score = _score(offers, mass, deciding)
    sampling = records * np.maximum(offers**2 @ share - mean**2, 0.0)
    error = np.sqrt(sampling + deciding.variance_by_noise(score)) / records
    mixture = (1 - theta) * (mean + _SURE * error) + theta * (offers @ mass)
    bound = np.log(offers) @ mass - np.log(mixture)
    return bound, score @ share / np.maximum(error, SLACK)


def _better(best: tuple[float, Floats], values: Floats, offers: Floats) -> tuple[float, Floats]:
    """Return the offer with the largest value, if it is larger than the best so far."""
    largest = int(np.argmax(values))
    return max(best, (float(values[largest]), offers[largest]), key=lambda offer: offer[0])


def _outside_scores(outside: NDArray[np.bool_], tolerated: float) -> tuple[int, ...]:
    """Score records outside the reference up and others down: at what is tolerated, at most 0."""
    if not outside.any():
        return (0,) * len(outside)
    down = math.ceil(tolerated * LARGEST_SCORE)
    up = min(down * (1 - tolerated) / tolerated, LARGEST_SCORE) if down else LARGEST_SCORE
    return tuple(np.where(outside, math.floor(up), -down).tolist())
