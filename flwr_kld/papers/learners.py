"""The two algorithms of the paper: locally privatised weighted majority, and locally private EXP3.

Sima, Wu, Milenkovic, Szpankowski, "Online Distribution Learning with Local Private Constraints",
sections 4 and 5. Baselines, kept faithful: their risk stays near that of the uniform mixture for
horizons up to 100,000. Corrected: noise scales follow from each hypothesis' own range; in
Algorithm 1, the learning rate is the one of its Lemma 1 (the listing prints that of Algorithm 2),
and composition is exact, where Lemma 3 spends about twice the noise that its Lemma 2 asks for.
Labels are a study's own: clients of a federation answer `BayesMixture` only.
Proof note: ``docs/proofs/papers.md``.
"""

from __future__ import annotations

import math
from functools import cache

import numpy as np
from numpy.typing import NDArray

from flwr_kld.kernel.arguments import whole
from flwr_kld.kernel.promise import check_epsilon_delta
from flwr_kld.papers.clipping import Clipping
from flwr_kld.papers.composition import epsilon_each
from flwr_kld.papers.noised_scores import ScoreNoise, ScoreQuery
from flwr_kld.predictors.fixed_share import normalised
from flwr_kld.predictors.laws import Floats, Laws

_LEVELS = 16
"""Grid steps that the widest possible range of scores is cut into. Rounding to them is unbiased and
adds less than 1 % to the variance of the noise for epsilon up to 4."""


class ScorePredictor:
    """What both share: exponential weights on sums of noised scores, for a known horizon."""

    def __init__(
        self, laws: Laws, horizon: int, *, each: float, arms: NDArray[np.int64], rate: float
    ) -> None:
        k = laws.hypotheses
        self._each = each
        self._arms = arms  # shape [queries, scores]: the hypotheses whose scores a query asks for
        self._clipping = Clipping(laws, horizon)
        # The paper's ln(KT) is no bound on the scores' range, see `Clipping`.
        widest = self._clipping.widest
        self._grid = widest / _LEVELS
        # c'(γ) of eq. (9) and (13) with γ = ln T: but for probability 1/T no noise exceeds it.
        self._offset = widest / each * (2 * math.log(horizon) + math.log(k))
        self._step = rate / (widest + 2 * self._offset)  # η c(γ)
        self._sums = np.zeros(k, dtype=np.int64)
        self._counts = np.zeros(k, dtype=np.int64)
        self._noise = cache(self._build_noise)

    def query(self, number: int) -> ScoreQuery:
        """Return a query by its number."""
        return ScoreQuery(
            self._clipping.resampling, [self._noise(int(arm)) for arm in self._arms[number]]
        )

    def update(self, query: int, scores: NDArray[np.int64]) -> None:
        """Add the noised scores of clients who were asked one query, shape [n, scores]."""
        self._sums[self._arms[query]] += scores.sum(axis=0)
        self._counts[self._arms[query]] += len(scores)

    @property
    def weights(self) -> Floats:
        """Weight of each hypothesis for the next report, shape [K], summing to 1."""
        gains = self._grid * self._sums - self._offset * self._counts
        return np.asarray(np.exp(normalised(self._step * gains)))

    def predict(self) -> Floats:
        """Distribution of the next label (lines 5 and 6), shape [M]."""
        return self._clipping.predict(self.weights)

    def _build_noise(self, arm: int) -> ScoreNoise:
        return ScoreNoise(self._clipping.scores[arm] / self._grid, self._each)


class LocallyPrivateWMA(ScorePredictor):
    """Algorithm 1, (epsilon, delta): a report holds all hypotheses' noised log-likelihoods."""

    def __init__(self, laws: Laws, epsilon: float, *, delta: float = 1e-6, horizon: int) -> None:
        k, horizon = laws.hypotheses, whole("horizon", horizon, least=2)
        epsilon, delta = check_epsilon_delta(epsilon, delta)
        if not delta:
            raise ValueError("Algorithm 1 needs delta > 0: for delta = 0 use PureLocalEXP3")
        super().__init__(
            laws,
            horizon,
            each=epsilon_each(k, epsilon, delta),
            arms=np.arange(k)[None, :],
            rate=math.sqrt(2 * math.log(k) / horizon),
        )


class PureLocalEXP3(ScorePredictor):
    """Algorithm 2, pure epsilon: a report holds the noised log-likelihood of one hypothesis."""

    def __init__(self, laws: Laws, epsilon: float, *, horizon: int) -> None:
        k, horizon = laws.hypotheses, whole("horizon", horizon, least=2)
        epsilon, _ = check_epsilon_delta(epsilon, 0.0)
        super().__init__(
            laws,
            horizon,
            each=epsilon,
            arms=np.arange(k)[:, None],
            rate=math.sqrt(2 * k * math.log(k) / horizon),
        )
