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
from collections.abc import Sequence
from fractions import Fraction
from functools import cache, cached_property, lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp

from flwr_kld.common.search import edge
from flwr_kld.kernel import Guarantee
from flwr_kld.kernel.arguments import finite, integer
from flwr_kld.kernel.delta import exp_below
from flwr_kld.kernel.law import TOTAL, BitSource, sample, uniform_128
from flwr_kld.kernel.promise import check_epsilon_delta
from flwr_kld.predictors.laws import Floats, Laws
from flwr_kld.trust.calibration import calibrated_laplace

_BITS = 80
_PRECISION = 1e-6


def composed_delta(ratio: Fraction, copies: int, epsilon: float) -> Fraction:
    """Smallest delta, from above, of `copies` mechanisms of likelihood ratio at most `ratio`."""
    # Randomised response composes worst (Kairouz, Oh, Viswanath 2015); this takes the place of the
    # paper's Lemma 2 and of the noise of its Lemma 3, about twice what Lemma 2 asks for:
    # ``Σ_l C(k, l) max(0, r**(k-l) - e**epsilon r**l) / (1 + r)**k``, with r rounded up and
    # ``e**epsilon`` down.
    one = 1 << _BITS
    r = math.ceil(ratio * one)
    bound = exp_below(epsilon)
    excess: Fraction = Fraction(0)
    for lies in range(copies + 1):
        likely = r ** (copies - lies) * one**lies
        unlikely = r**lies * one ** (copies - lies)
        excess += math.comb(copies, lies) * max(Fraction(0), likely - bound * unlikely)
    return excess / Fraction((one + r) ** copies)


@lru_cache(maxsize=32)
def epsilon_each(copies: int, epsilon: float, delta: float) -> float:
    """Largest epsilon of each of `copies` mechanisms that are (epsilon, delta)-private together."""
    epsilon, delta = check_epsilon_delta(epsilon, delta)
    copies = integer("copies", copies, least=1)
    return edge(
        lambda each: composed_delta(exp_below(each), copies, epsilon) <= delta,
        epsilon / copies,
        epsilon + math.sqrt(2 * math.log(2 / max(delta, 1e-300))),
        within=_PRECISION,
    )


_FRACTION = 32
_ONE = 1 << _FRACTION


class ScoreNoise:
    """Privatises the score of a label under one hypothesis."""

    # The paper adds continuous Laplace noise to a real number, which floating point cannot do
    # privately. Here the score is rounded at random to one of the two grid points next to it, so
    # its mean is kept, and discrete Laplace noise comes from a table checked for the largest move.

    def __init__(self, scores: Floats, epsilon: float) -> None:
        """Take the scores of all labels in grid steps, shape [M]."""
        self.fixed = np.rint(scores * _ONE).astype(np.int64)  # in 2**-32 of a step
        low, high = int(self.fixed.min()) >> _FRACTION, -(-int(self.fixed.max()) >> _FRACTION)
        self.moves = max(high - low, 1)
        self.table = calibrated_laplace(Guarantee(epsilon), moves=(self.moves,)).table
        self.low, self.high = low - self.table.reach, high + self.table.reach

    def draw(self, labels: NDArray[np.int64], bits: BitSource) -> NDArray[np.int64]:
        """Noised scores of labels [n], in grid steps, int64 [n]."""
        fixed = self.fixed[labels]
        chance = (bits.words(len(labels)) >> np.uint64(64 - _FRACTION)).astype(np.int64)
        rounded = (fixed >> _FRACTION) + (chance < (fixed & (_ONE - 1)))
        noised = rounded + sample(self.table, len(labels), bits)
        return np.asarray(np.clip(noised, self.low, self.high))


class ScoreQuery:
    """Asks for the noised scores of one or of all hypotheses."""

    def __init__(self, resampling: Resampling, noises: Sequence[ScoreNoise]) -> None:
        self.resampling = resampling
        self.noises = noises

    def answers(self, labels: NDArray[np.int64], bits: BitSource) -> NDArray[np.int64]:
        """Privatise labels [n], each on its own: noised scores, shape [n, scores]."""
        mapped = self.resampling.apply(labels, bits)
        return np.stack([noise.draw(mapped, bits) for noise in self.noises], axis=1)


_ROUNDING = 1e-9


# Clipping (section 4.2): labels are split into cells so that log-likelihoods have a bounded range.
# Eq. (3) and (7) claim ``N' <= KM`` and with it a range of ``ln(KT)``, but only ``N' < (K + 1) M``
# holds, and noise of scale ``ln(KT) / epsilon`` is not epsilon-private (M = 6: 1.019 where 1 is
# claimed). Here each hypothesis' range is computed from its own numbers.


class Resampling:
    """What is public of the paper's random map h_t: now and then a uniform cell's label."""

    def __init__(self, cells: NDArray[np.int64], horizon: int) -> None:
        self.cells = cells
        self.horizon = integer("horizon", horizon, least=2)
        self.resampled = -(-(1 << 64) // self.horizon)
        """``2**64`` times the probability of a replacement, rounded up: ⌈2**64 / T⌉."""

    @property
    def labels(self) -> int:
        """M."""
        return len(self.cells)

    @property
    def total(self) -> int:
        """N', the number of cells."""
        return int(self._ends[-1])

    def apply(self, labels: NDArray[np.int64], bits: BitSource) -> NDArray[np.int64]:
        """Map labels [n], of which about n/T are replaced by the label of a uniform cell."""
        mapped = np.array(labels)
        for i in np.flatnonzero(bits.words(len(mapped)) < np.uint64(self.resampled)):
            cell = uniform_below(self.total, bits)
            mapped[i] = np.searchsorted(self._ends, cell, side="right")
        return mapped

    @cached_property
    def _ends(self) -> NDArray[np.int64]:
        return np.cumsum(self.cells)


class Clipping:
    """What the random map h_t makes of the hypotheses. Public."""

    def __init__(self, laws: Laws, horizon: int) -> None:
        self.laws = laws
        self.horizon = horizon
        largest = laws.labels * laws.probabilities.max(axis=0)
        whole = np.ceil(largest - _ROUNDING)  # 1 + 1e-16 stands for 1
        self.cells: NDArray[np.int64] = np.maximum(whole, 1).astype(np.int64)
        """``c_y = ⌈M max_j f_j(y)⌉``, at least 1, shape [M]."""
        self.resampling = Resampling(self.cells, horizon)
        """The map h_t itself, which clients apply."""

    @property
    def total(self) -> int:
        """N', the number of cells."""
        return self.resampling.total

    @cached_property
    def scores(self) -> Floats:
        """``ln(M p̄_j)`` in any of a label's cells, nats, shape [K, M]; at most about 0."""
        kept = (1 - 1 / self.horizon) * self.laws.probabilities / self.cells
        return np.asarray(np.log(self.laws.labels * (kept + 1 / (self.horizon * self.total))))

    @property
    def ranges(self) -> Floats:
        """Δ_j, how far a hypothesis' score varies over the labels, nats, shape [K]."""
        return np.asarray(self.scores.max(axis=1) - self.scores.min(axis=1))

    @property
    def widest(self) -> float:
        """``ln((K + 1) T)``: larger than any range, for any laws."""
        return math.log((self.laws.hypotheses + 1) * self.horizon)

    def predict(self, weights: Floats) -> Floats:
        """p̂: the weighted mixture after h_t, gathered from cells to labels (line 6), shape [M]."""
        mixed = weights @ self.laws.probabilities
        uniform = self.cells / self.total
        return np.asarray((1 - 1 / self.horizon) * mixed + uniform / self.horizon)


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
        steps = self._step * gains
        return np.asarray(np.exp(steps - logsumexp(steps)))

    def predict(self) -> Floats:
        """Distribution of the next label (lines 5 and 6), shape [M]."""
        return self._clipping.predict(self.weights)

    def _build_noise(self, arm: int) -> ScoreNoise:
        return ScoreNoise(self._clipping.scores[arm] / self._grid, self._each)


class LocallyPrivateWMA(ScorePredictor):
    """Algorithm 1, (epsilon, delta): a report holds all hypotheses' noised log-likelihoods."""

    def __init__(self, laws: Laws, epsilon: float, *, delta: float = 1e-6, horizon: int) -> None:
        k, horizon = laws.hypotheses, integer("horizon", horizon, least=2)
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

    def __init__(
        self, laws: Laws, epsilon: float, *, horizon: int, rate: float | None = None
    ) -> None:
        """Take a rate for mean scores instead of the paper's for sums: post-processing."""
        k, horizon = laws.hypotheses, integer("horizon", horizon, least=2)
        epsilon, _ = check_epsilon_delta(epsilon, 0.0)
        self._own = None if rate is None else finite("rate", rate, above=0)
        super().__init__(
            laws,
            horizon,
            each=epsilon,
            arms=np.arange(k)[:, None],
            rate=math.sqrt(2 * k * math.log(k) / horizon),
        )

    @property
    def weights(self) -> Floats:
        """As the paper has them; at an own rate, of the estimated log-likelihoods of all labels.

        The paper adds a large constant to each answer, and answers differ in number: at its own
        rate this is nearly all that weights show.
        """
        if self._own is None:
            return super().weights
        means = self._grid * self._sums / np.maximum(self._counts, 1)
        steps = self._own * means * self._counts.sum()
        return np.asarray(np.exp(steps - logsumexp(steps)))


def kl_risk(hypotheses: int, epsilon: float, horizon: int, *, delta: float = 0.0) -> float:
    """Bound the KL-risk of Algorithm 2 (Theorem 5), or of Algorithm 1 at a delta (Theorem 4)."""
    log_kt = math.log(hypotheses * horizon)
    noise = log_kt / epsilon
    if delta:
        copies = math.sqrt(2 * hypotheses * math.log(1 / delta))
        noise *= 2 * copies + math.sqrt(hypotheses * epsilon)
    scale = log_kt + 2 * noise * (2 * math.log(horizon) + math.log(hypotheses))
    regret = 2 * horizon * math.log(hypotheses) * (1 if delta else hypotheses)
    return scale * math.sqrt(regret) + 4 * log_kt


def uniform_below(bound: int, bits: BitSource) -> int:
    """Return a uniform integer in 0 .. bound - 1, for ``1 <= bound <= 2**128``.

    Numbers in the last, incomplete run of `bound` are drawn again, so no value is favoured.
    """
    complete = TOTAL - TOTAL % bound
    while (number := uniform_128(bits)) >= complete:
        pass
    return number % bound
