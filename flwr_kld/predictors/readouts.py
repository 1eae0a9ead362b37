"""Reads the posterior and the reports: the leader, mixtures, and whether no hypothesis fits."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp

from flwr_kld.predictors.designs import Integers
from flwr_kld.predictors.laws import Floats


@dataclass(frozen=True)
class Leader:
    """The hypothesis with the largest weight."""

    name: str  # Name of the leading candidate
    index: int  # Its place among the hypotheses
    weight: float  # Its weight for the next round
    log_odds: float  # Of the leader against the runner-up, in nats
    # Most nats by which one report moves any log-odds, if a lie takes the place of the truth
    swing: float

    @classmethod
    def of(cls, names: tuple[str, ...], log_weights: Floats, swing: float) -> Leader:
        """Read the leader off log-weights, shape [K]; the first of equals."""
        best = int(np.argmax(log_weights))
        others = np.delete(log_weights, best)
        return cls(
            names[best],
            best,
            float(np.exp(log_weights[best])),
            float(log_weights[best] - others.max()),
            swing,
        )

    @property
    def outlasts(self) -> int:
        """Reports that may be replaced by any others without changing the leader."""
        return max(math.ceil(self.log_odds / self.swing) - 1, 0)


_MOST_STEPS = 1000
_GAP = 0.01
_LEAST = 1e-3
"""Of what EM gives a hypothesis: an extrapolation takes no more of it away."""


def mixture_weights(counts: NDArray[np.int64], law: Floats) -> Floats:
    """Maximise ``Σ n ln Σ_j v_j Q_j`` over the simplex by EM, extrapolated."""
    # Plain EM crawls where the reports hardly tell hypotheses apart; squared extrapolation
    # (Varadhan, Roland 2008), kept only where it is better, takes tens of steps. It stops within a
    # hundredth of a nat of the maximum, or after 1,000 steps: the objective is concave, and ``N ln
    # max_j g_j`` bounds what is left, with g the mean ratios of the step.
    # Shapes: counts [rows], law [rows, K].
    weights = np.full(law.shape[1], 1 / law.shape[1])
    total = counts.sum()
    if not total:
        return weights
    share = counts / total

    def ratios(v: Floats) -> Floats:
        return np.asarray((share / (law @ v)) @ law)

    for _ in range(_MOST_STEPS):
        gains = ratios(weights)
        if total * np.log(gains.max()) < _GAP:
            break
        once = weights * gains
        twice = once * ratios(once)
        first, second = once - weights, twice - 2 * once + weights
        stretch = np.linalg.norm(first) / max(float(np.linalg.norm(second)), 1e-300)
        far = np.maximum(weights + 2 * stretch * first + stretch**2 * second, _LEAST * twice)
        far /= far.sum()
        better = share @ np.log(law @ far) >= share @ np.log(law @ twice)
        weights = far if better else twice
    return np.asarray(weights / weights.sum())


BETA = 0.01
"""Chance that hypotheses are refuted of which one is true."""


@dataclass(frozen=True, eq=False)
class KeptRound:
    """Reports of one round."""

    number: int  # Of the round
    log_weights: Floats  # Posterior before it, shape [K]
    counts: Integers  # How often each (query, symbol) was reported, shape [rows]
    law: Floats  # Its likelihood under each hypothesis, shape [rows, K]


class Refutation:
    """The test, and the fits that it needed last: the next one has most of them in common."""

    def __init__(self) -> None:
        self._fits: dict[tuple[int, int, int], Floats] = {}

    def of(self, rounds: Sequence[KeptRound]) -> bool:
        """Say whether rounds, in order, refute every hypothesis at ``1 - BETA``."""
        if not rounds:
            return False
        foretold, posterior, alone = self.likelihoods(rounds)
        return bool(foretold - max(posterior, alone.max()) > -math.log(BETA))

    def likelihoods(self, rounds: Sequence[KeptRound]) -> tuple[float, float, Floats]:
        """Log-likelihoods of the reports: foretold by mixtures, posterior, of each hypothesis."""
        fits: dict[tuple[int, int, int], Floats] = {}
        fit = np.exp(rounds[0].log_weights)
        foretold = posterior = 0.0
        alone = np.zeros_like(fit)
        for seen, kept in enumerate(rounds):
            if seen and not seen & (seen - 1):
                fit = self._fit(rounds[:seen], fits)
            evidence = kept.counts @ np.log(kept.law)
            foretold += float(kept.counts @ np.log(kept.law @ fit))
            posterior += float(logsumexp(kept.log_weights + evidence))
            alone += evidence
        self._fits = fits
        return foretold, posterior, alone

    def _fit(self, rounds: Sequence[KeptRound], fits: dict[tuple[int, int, int], Floats]) -> Floats:
        """Fit the mixture, unless it is known: counts only add up, so their sum identifies them."""
        reports = sum(int(kept.counts.sum()) for kept in rounds)
        key = rounds[0].number, rounds[-1].number, reports
        fits[key] = self._fits[key] if key in self._fits else likeliest(rounds)
        return fits[key]


def likeliest(rounds: Sequence[KeptRound]) -> Floats:
    """Return the proportions of the hypotheses that explain some rounds best, shape [K]."""
    counts = np.concatenate([kept.counts for kept in rounds])
    return mixture_weights(counts, np.vstack([kept.law for kept in rounds]))
