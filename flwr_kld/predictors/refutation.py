"""Whether reports refute every hypothesis: the maximum-likelihood mixture foretells them better.

Each round of reports is foretold by the mixture that fits the rounds before it. Its likelihood over
that of a hypothesis, multiplied over the rounds, has mean 1 at any time if that hypothesis is true
in all of them, whatever was asked; it exceeds ``1 / beta`` with probability `beta` at most (Ville
1939). The posterior must be outdone as well: it follows a truth that changes from one hypothesis to
another, which refutes each of them and calls for no mixture.
Proof note: ``docs/proofs/bayes-mixture.md``.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import logsumexp

from flwr_kld.predictors.design import Integers
from flwr_kld.predictors.laws import Floats
from flwr_kld.predictors.mixture_weights import mixture_weights

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
        """Log-likelihoods of the reports: foretold by mixtures, posterior, of each hypothesis [K].

        The mixture is fitted anew whenever the number of rounds has doubled.
        """
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
        """Fit the mixture, unless it is known: counts only add up, so their sum tells them."""
        reports = sum(int(kept.counts.sum()) for kept in rounds)
        key = rounds[0].number, rounds[-1].number, reports
        fits[key] = self._fits[key] if key in self._fits else likeliest(rounds)
        return fits[key]


def likeliest(rounds: Sequence[KeptRound]) -> Floats:
    """Return the proportions of the hypotheses that explain some rounds best, shape [K]."""
    counts = np.concatenate([kept.counts for kept in rounds])
    return mixture_weights(counts, np.vstack([kept.law for kept in rounds]))
