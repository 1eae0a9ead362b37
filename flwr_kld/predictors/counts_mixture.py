"""The Bayesian mixture of the hypotheses, given noised histograms of clients' labels.

Where a trust model adds up labels, one client's share of the noise is small: the same question
needs a tenth of the reports that local privacy needs, and less. A histogram's likelihood is that of
counts which are independent and Poisson, plus the noise of the release. Without noise its ratios
are those of the labels themselves.
Proof note: ``docs/proofs/predictors.md``.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from scipy.optimize import nnls
from scipy.special import gammaln, logsumexp, xlogy

from flwr_kld.codec.model import Model, NotNegative, Real, Text
from flwr_kld.kernel.law import NoiseTable
from flwr_kld.predictors.hypotheses import Hypotheses
from flwr_kld.predictors.laws import Floats, Laws
from flwr_kld.predictors.mixture import Mixture, State
from flwr_kld.predictors.readouts import BETA
from flwr_kld.query.noisy import NoisyCounts

_FORMAT = 1
_DEVIATIONS, _BEYOND = 12, 30
"""Of a Poisson count from its mean, in standard deviations and records, at most."""


@dataclass(frozen=True)
class _Counted(Model, what="the stored counts of a predictor"):
    """A histogram, and what the hypotheses say of it."""

    round: NotNegative
    context: Text
    counts: list[int]  # Of each label
    labels: NotNegative  # That were counted, exactly
    evidence: list[Real]  # Log-likelihood under each hypothesis
    spread: Real  # v of `noise_bound`, in squared records
    reach: Real  # Its largest λ, a record


@dataclass(frozen=True)
class _State(Model, what="the stored state of a predictor"):
    format: NotNegative
    predictor: Text
    domain: Text
    hypotheses: list[Text]
    share: Real
    contexts: dict[str, Text]  # Fingerprints of the laws
    settled: tuple[NotNegative, list[Real]] | None
    swing: Real | None  # None if a round was not held to one label a client
    rounds: list[dict[str, Any]]


class CountsMixture(Mixture):
    """Learns from noised histograms of labels, one a round; parameters as of `Mixture`."""

    _swing = 0.0

    def __init__(self, hypotheses: Hypotheses, *, share: float = 0.01) -> None:
        super().__init__(hypotheses, share)
        self._rounds: list[_Counted] = []
        self._contexts: dict[str, str] = {}

    def update(self, round: int, counts: NoisyCounts, context: str = "", *, held: bool) -> None:
        """Take in the histogram of a round, later than all before; its number of labels is known.

        `held` says that no client can have counted more than one label.
        """
        laws = self.hypotheses.at(context)
        noise = counts.noise
        spread, reach = noise_bound(noise)
        evidence = log_likelihood(laws, counts.values, counts.records, noise)
        steep = float(np.abs(np.diff(np.log(noise.probabilities))).max())
        # A label replaced moves two counts by one, each for both hypotheses.
        self._swing = max(self._swing, 4 * steep if held else math.inf)
        self._contexts[context] = laws.fingerprint
        self._rounds.append(
            _Counted(
                round, context, counts.values.tolist(), int(counts.records), evidence.tolist(),
                spread, reach,
            )
        )  # fmt: skip

    def settle(self, before: int) -> None:
        """Fold all rounds below `before` into the weights: the state stays small."""
        for own in self._rounds:
            if own.round < before:
                self._settled = self._after(self._settled, own.round, np.array(own.evidence))
        self._rounds = [own for own in self._rounds if own.round >= before]

    @property
    def log_weights(self) -> Floats:
        """Log-weights for the round after the last one, shape [K]."""
        reached = self._settled
        for own in self._rounds:
            reached = self._after(reached, own.round, np.array(own.evidence))
        return self._log_prior if reached is None else self._before(reached, reached[0] + 1)

    @property
    def mixture(self) -> Floats:
        """Proportions of the hypotheses that fit the rounds not settled best, shape [K].

        By least squares: the noise is the same in all counts.
        """
        if not self._rounds:
            return np.asarray(np.exp(self._log_prior))
        labels = Counter[str]()
        for own in self._rounds:
            labels[own.context] += own.labels
        laws = [n * self.hypotheses.at(context).probabilities for context, n in labels.items()]
        counts = [
            np.sum([own.counts for own in self._of(context)], axis=0, dtype=np.float64)
            for context in labels
        ]
        found: Floats = nnls(np.hstack(laws).T, np.concatenate(counts))[0]
        total = float(found.sum())
        return np.asarray(found / total) if total > 0 else self.weights

    @property
    def refuted(self) -> bool:
        """Whether the rounds not settled refute every hypothesis, with an error of 1 % at most."""
        contexts = {own.context for own in self._rounds}
        return any(self._distances(context, BETA / len(contexts)).min() > 0 for context in contexts)

    def _of(self, context: str) -> Iterator[_Counted]:
        """Yield the rounds not settled of a context."""
        return (own for own in self._rounds if own.context == context)

    def _distances(self, context: str, beta: float) -> Floats:
        """Lower bounds on the total variation between the clients' law and each hypothesis."""
        laws, rounds = self.hypotheses.at(context), list(self._of(context))
        labels = sum(own.labels for own in rounds)
        if not labels:
            return np.zeros(laws.hypotheses)
        number = self._rounds[-1].round  # at all times at once: Σ 1 / (t (t + 1)) is 1
        beta = beta / (number * (number + 1)) / (laws.hypotheses * (laws.hypotheses - 1))
        return distances(
            laws,
            np.sum([own.counts for own in rounds], axis=0),
            labels,
            sum(own.spread for own in rounds),
            min(own.reach for own in rounds),
            beta,
        )

    def state(self) -> State:
        """Return all that was learnt, as JSON-able values."""
        settled = self._settled and (self._settled[0], self._settled[1].tolist())
        rounds = [asdict(own) for own in self._rounds]
        swing = self._swing if math.isfinite(self._swing) else None
        return asdict(_State(*self._set_up, self._contexts, settled, swing, rounds))

    def restore(self, state: State) -> None:
        """Take up a state that `state` returned.

        Raises `ValueError` if it is none, or of other hypotheses or another share.
        """
        told = _State.from_file(state)
        if (told.format, told.predictor, told.domain, told.hypotheses, told.share) != self._set_up:
            raise ValueError(
                "the stored predictor is set up differently: name it otherwise to begin anew"
            )
        self.hypotheses.require(told.contexts)
        k = len(told.hypotheses)
        rounds = [_Counted.from_file(own) for own in told.rounds]
        for own in rounds:
            sizes = [k, self.hypotheses.at(own.context).labels]
            if own.context not in told.contexts or [len(own.evidence), len(own.counts)] != sizes:
                raise ValueError("the stored counts belong to other hypotheses")
        if told.settled is not None and len(told.settled[1]) != k:
            raise ValueError("the stored weights belong to other hypotheses")
        self._rounds, self._contexts = rounds, told.contexts
        self._swing = math.inf if told.swing is None else told.swing
        self._settled = told.settled and (told.settled[0], np.array(told.settled[1]))

    @property
    def _set_up(self) -> tuple[int, str, str, list[str], float]:
        hypotheses = self.hypotheses
        domain, names = hypotheses.domain.fingerprint, list(hypotheses.names)
        return _FORMAT, "counts", domain, names, self._share


def log_likelihood(laws: Laws, counts: Any, labels: float, noise: NoiseTable) -> Floats:
    """``Σ_y ln P(counts_y)`` under each hypothesis, shape [K]: Poisson counts, plus the noise."""
    # Which true counts are summed over does not depend on the noisy one: so a step of that one
    # changes no likelihood by more than the noise's own does.
    total = np.zeros(laws.hypotheses)
    for count, column in zip(np.asarray(counts).tolist(), laws.probabilities.T, strict=True):
        means, place = np.unique(labels * column, return_inverse=True)
        far = _DEVIATIONS * np.sqrt(means) + _BEYOND
        first = np.floor(np.maximum(means - far, 0))
        true = first[:, None] + np.arange(int(2 * far.max()) + 1)
        poisson = xlogy(true, means[:, None]) - means[:, None] - gammaln(true + 1)
        total += logsumexp(poisson + log_noise(noise, count - true), axis=1)[place]
    return total


def log_noise(noise: NoiseTable, at: Floats) -> Floats:
    """``ln P(Z = k)``; beyond the table it falls as between its last two."""
    log, distance = np.log(noise.probabilities[noise.reach :]), np.abs(at).astype(np.int64)
    beyond = np.maximum(distance - noise.reach, 0)
    return np.asarray(log[np.minimum(distance, noise.reach)] + beyond * (log[-1] - log[-2]))


def noise_bound(noise: NoiseTable) -> tuple[float, float]:
    """Return v and λ₀ such that ``ln E exp(λ Z) <= λ² v / 2`` for all ``|λ| <= λ₀``."""
    # Z is symmetric, so E exp(λZ) - 1 = Σ λ^2k E Z^2k / (2k)! over k >= 1, of which no term is more
    # than (λ/λ₀)² of what it is at λ₀; and ln(1 + x) <= x.
    reach = 1 / (2 * math.sqrt(noise.variance))
    ratio = noise.tail_ratio / 2**64
    if ratio > 0:
        reach = min(reach, -math.log(ratio) / 2)
    at = float(noise.probabilities @ np.expm1(reach * noise.support))
    if ratio > 0:
        beyond = noise.tail / 2**128 * (1 - ratio) / (1 - ratio * math.exp(reach))
        at += beyond * math.exp(reach * (noise.reach + 1))
    return 2 * at / reach**2, reach


def distances(
    laws: Laws, counts: Floats, labels: int, spread: float, reach: float, beta: float
) -> Floats:
    """Lower bounds on ``TV(P, f_i)``, shape [K], each pair's wrong with chance `beta` at most.

    Scheffé's set of each pair is counted, less its share of all counts: these are known to add up
    to the number of labels, so that half of the noise goes.
    """
    found = np.zeros(laws.hypotheses)
    log = math.log(2 / beta)
    for i, law in enumerate(laws.probabilities):
        inside = law > laws.probabilities  # [K, M]
        weights = inside - inside.mean(axis=1, keepdims=True)
        beyond = np.abs(weights @ counts - labels * (weights @ law))
        variance = labels / 4 + spread * (weights**2).sum(axis=1)
        slope = np.minimum(np.sqrt(2 * log / variance), reach)
        radius = slope * variance / 2 + log / slope
        found[i] = max(0.0, float(((beyond - radius) / labels).max()))
    return np.asarray(np.minimum(found, 1.0))
