"""Hypotheses to learn, and predictors to run against a truth: what the predictor studies share."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from flwr_kld.domain.binned import Binned
from flwr_kld.kernel.law import SeededBits
from flwr_kld.papers.learners import ScorePredictor
from flwr_kld.predictors import BayesMixture, Hypotheses
from flwr_kld.predictors.laws import Laws
from flwr_kld.predictors.local_report import LocalReports
from flwr_kld.reference import Reference

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
_POINTS = 45
_BLOCK = 64


def dirichlet(hypotheses: int, labels: int, rng: np.random.Generator) -> Floats:
    """K laws drawn uniformly from the simplex."""
    masses = rng.exponential(size=(hypotheses, labels))
    return np.asarray(masses / masses.sum(axis=1, keepdims=True))


def drift(hypotheses: int, labels: int, rng: np.random.Generator) -> Floats:
    """Zipf's law, and versions of it with 30 % of the mass moved onto a random fifth of labels."""
    base = rng.permutation(1 / np.arange(1.0, labels + 1))
    base /= base.sum()
    towards = rng.random((hypotheses - 1, labels)) < 0.2
    towards[np.arange(hypotheses - 1), rng.integers(labels, size=hypotheses - 1)] = True
    moved = towards * np.sqrt(base)
    moved /= moved.sum(axis=1, keepdims=True)
    return np.vstack([base, 0.7 * base + 0.3 * moved])


FAMILIES = {"dirichlet": dirichlet, "drift": drift}


def hypotheses_of(table: Floats) -> Hypotheses:
    """Wrap K laws, [K, M], exactly as they are."""
    domain = Binned(np.arange(table.shape[1] - 2.0).tolist())  # the last label is 'missing'
    names = [f"f{j}" for j in range(len(table))]
    laws = [Reference(domain, law) for law in table]
    return Hypotheses(dict(zip(names, laws, strict=True)), floor=0.0)


class Learner(Protocol):
    """What is run against the truth: predicts, and learns from the next reports."""

    def predict(self) -> Floats:
        """Distribution of the next label, shape [M]."""
        ...

    def learn(self, count: int) -> None:
        """Take the reports of `count` more clients."""
        ...


class Mixture:
    """A `BayesMixture` whose clients' symbols are drawn from their exact law."""

    def __init__(self, predictor: BayesMixture, true: int, rng: np.random.Generator) -> None:
        self._predictor, self._rng = predictor, rng
        self.design = predictor.design()
        often = np.repeat(self.design.shares, np.diff(self.design.starts))
        self._cumulative = np.cumsum(often * self.design.law[:, true])
        self._round = 0

    def predict(self) -> Floats:
        """Distribution of the next label, shape [M]."""
        return self._predictor.predict()

    def learn(self, count: int) -> None:
        """Draw the rows of `count` reports and count them, in a round of their own."""
        starts = self.design.starts
        uniform = self._rng.random(count) * self._cumulative[-1]
        rows = np.searchsorted(self._cumulative, uniform, side="right")
        queries = np.searchsorted(starts, rows, side="right") - 1
        self._round += 1
        self._predictor.update(LocalReports(self._round, queries, rows - starts[queries]))
        self._predictor.settle(self._round)


class Scores:
    """One of the paper's algorithms, its clients' scores noised by their exact law."""

    def __init__(
        self, predictor: ScorePredictor, law: Floats, queries: int, rng: np.random.Generator
    ) -> None:
        self._predictor, self._rng, self._queries = predictor, rng, queries
        self._cumulative = np.cumsum(law)
        self._bits = SeededBits(int(rng.integers(2**62)))

    def predict(self) -> Floats:
        """Distribution of the next label, shape [M]."""
        return self._predictor.predict()

    def learn(self, count: int) -> None:
        """Draw labels, privatise their scores, and add them up."""
        labels = draw(self._cumulative, count, self._rng)
        asked = self._rng.integers(self._queries, size=count)
        for query in range(self._queries):
            own = labels[asked == query]
            if len(own):
                scores = self._predictor.query(query).answers(own, self._bits)
                self._predictor.update(query, scores)


class AdaHedge:
    """Laplace noise on one random hypothesis' clipped log-likelihood ratio, fed to AdaHedge.

    De Rooij, van Erven, Grünwald, Koolen 2014: no horizon and no scale to set. Blocks of 64 reports
    are one loss. Noise is continuous: a baseline for simulation, not for protecting anybody.
    """

    def __init__(
        self, laws: Laws, true: int, epsilon: float, clip: float, rng: np.random.Generator
    ) -> None:
        self._laws, self._rng = laws, rng
        self._cumulative = np.cumsum(laws.probabilities[true])
        ratios = np.maximum(laws.probabilities / laws.mean, np.finfo(float).tiny)
        self._scores = np.clip(np.log(ratios), -clip, clip)
        self._scale = (self._scores.max(axis=1) - self._scores.min(axis=1)) / epsilon
        self._losses = np.zeros(laws.hypotheses)
        self._gap = 0.0

    def predict(self) -> Floats:
        """Distribution of the next label, shape [M]."""
        return np.asarray(self._weights()[0] @ self._laws.probabilities)

    def learn(self, count: int) -> None:
        """Draw noised scores, block by block."""
        for first in range(0, count, _BLOCK):
            size = min(_BLOCK, count - first)
            labels = draw(self._cumulative, size, self._rng)
            arms = self._rng.integers(len(self._losses), size=size)
            noise = self._rng.laplace(size=size) * self._scale[arms]
            scores = self._scores[arms, labels] + noise
            loss = -len(self._losses) * np.bincount(arms, scores, len(self._losses))
            weights, rate = self._weights()
            if math.isinf(rate):
                mixed = float(loss[weights > 0].min())
            else:
                low = loss.min()
                mixed = low - math.log(weights @ np.exp(-rate * (loss - low))) / rate
            self._gap += max(0.0, float(weights @ loss) - mixed)
            self._losses += loss

    def _weights(self) -> tuple[Floats, float]:
        rate = math.log(len(self._losses)) / self._gap if self._gap else math.inf
        above = self._losses - self._losses.min()
        weights = np.exp(-rate * above) if self._gap else (above == 0).astype(np.float64)
        return weights / weights.sum(), rate


def draw(cumulative: Floats, count: int, rng: np.random.Generator) -> Integers:
    """Draw labels from a cumulated law."""
    found = np.searchsorted(cumulative, rng.random(count) * cumulative[-1], side="right")
    return np.asarray(found, dtype=np.int64)


@dataclass(frozen=True)
class Trajectory:
    """Divergences of a learner's predictions from the truth, over time."""

    times: Integers  # Ascending from 1: the prediction for report t has seen t - 1 reports
    kl: Floats  # At those times
    tv: Floats

    def risk(self, horizon: int) -> float:
        """``Σ_{t<=T} KL_t`` in nats, linear in ln t between the times."""
        return self._sum(self.kl, horizon)

    def mean_tv(self, horizon: int) -> float:
        """``Σ_{t<=T} TV_t / T``."""
        return self._sum(self.tv, horizon) / horizon

    def _sum(self, values: Floats, horizon: int) -> float:
        every = np.log(np.arange(1, horizon + 1))
        return float(np.interp(every, np.log(self.times), values).sum())


def run(learner: Learner, law: Floats, horizon: int, *, every: int = 0) -> Trajectory:
    """Let a learner predict, and learn from, `horizon` reports in turn."""
    times = np.unique(np.rint(np.geomspace(1, horizon, _POINTS))).astype(np.int64)
    if every:
        times = np.arange(1, horizon + 1, every)
    kl, tv = [], []
    for now, then in zip(times, [*times[1:], 0], strict=True):
        predicted = learner.predict()
        some = law > 0
        kl.append(float(law[some] @ np.log(law[some] / predicted[some])))
        tv.append(float(np.maximum(law - predicted, 0).sum()))
        if then:
            learner.learn(int(then - now))
    if every:  # a prediction stands for the whole round
        held = np.minimum(times + every - 1, horizon)
        times = np.ravel(np.column_stack([times, held]))
        kl, tv = np.repeat(kl, 2).tolist(), np.repeat(tv, 2).tolist()
    return Trajectory(times, np.array(kl), np.array(tv))
