"""Hypotheses to learn, and predictors to run against a truth: what the predictor studies share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.special import rel_entr

from flwr_kld.kernel.law import SeededBits
from flwr_kld.predictors import BayesMixture, Hypotheses
from flwr_kld.predictors.designs import Design
from flwr_kld.predictors.laws import Laws
from flwr_kld.predictors.tally import LocalReports, RowCounts
from flwr_kld.reference import Reference
from flwr_kld.simulations.studies.papers.learners import ScorePredictor
from flwr_kld.table.binned import Binned

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
_POINTS = 45


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
    """A `BayesMixture` whose clients' symbols are drawn from their exact law.

    `truth` is the weight of each hypothesis in the law of labels, shape [K].
    """

    def __init__(
        self,
        predictor: BayesMixture,
        truth: Floats,
        rng: np.random.Generator,
    ) -> None:
        self._predictor, self._truth, self._rng = predictor, truth, rng
        self._round = 0

    def predict(self) -> Floats:
        """Distribution of the next label, shape [M]."""
        return self._predictor.predict()

    def learn(self, count: int) -> None:
        """Let so many clients report, in a round of their own."""
        self.report(count)

    def report(self, count: int) -> tuple[Design, RowCounts]:
        """Draw the reports of a round; return what was asked, and what was answered."""
        self._round += 1
        design = self._predictor.design(round=self._round)
        chances = np.repeat(design.shares, np.diff(design.starts)) * (design.law @ self._truth)
        counts = self._rng.multinomial(count, chances / chances.sum())
        rows = np.repeat(np.arange(len(counts)), counts)
        places = np.searchsorted(design.starts, rows, side="right") - 1
        queries = places + self._predictor.numbers(self._round)[0]
        reports = LocalReports(self._round, queries, rows - design.starts[places])
        self._predictor.update(reports)
        self._predictor.settle(self._round)
        return design, RowCounts.of(rows)


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


def draw(cumulative: Floats, count: int, rng: np.random.Generator) -> Integers:
    """Draw labels from a cumulated law."""
    found = np.searchsorted(cumulative, rng.random(count) * cumulative[-1], side="right")
    return np.asarray(found, dtype=np.int64)


def divergences(laws: Laws) -> Floats:
    """``KL(f_i || f_j)`` in nats, shape [K, K]; infinite where f_j misses a label of f_i."""
    table = laws.probabilities
    return np.array([rel_entr(law, table).sum(axis=1) for law in table])


def affinities(design: Design) -> Floats:
    """Bhattacharyya coefficient of one report between hypotheses, shape [K, K]."""
    often = np.repeat(design.shares, np.diff(design.starts))[:, None]
    roots = np.sqrt(design.law * often)
    return np.asarray(np.minimum(roots.T @ roots, 1.0))


def kl_risk_bound(design: Design) -> Floats:
    """Bound the cumulative KL-risk for each true hypothesis, however long; without share.

    If hypothesis j is true, and the mixture predicts before each report, then for every T

        E Σ_{t=1}^T KL(f_j || p_t)  <=  Σ_{i≠j} min(½ KL(f_j || f_i), 1) / (1 - BC_ij),

    with BC_ij the Bhattacharyya coefficient of one report.
    """
    price = np.minimum(divergences(design.laws) / 2, 1)
    with np.errstate(divide="ignore", invalid="ignore"):
        terms = np.where(price == 0, 0.0, price / (1 - affinities(design)))
    return np.asarray(terms.sum(axis=1))


def divergence(law: Floats, predicted: Floats) -> float:
    """``KL(law || predicted)`` in nats."""
    return float(rel_entr(law, predicted).sum())


@dataclass(frozen=True)
class Trajectory:
    """Divergences of a learner's predictions from the truth, over time."""

    times: Integers  # Ascending from 1: the prediction for report t has seen t - 1 reports
    kl: Floats  # At those times

    def risk(self, horizon: int) -> float:
        """``Σ_{t<=T} KL_t`` in nats, linear in ln t between the times."""
        every = np.log(np.arange(1, horizon + 1))
        return float(np.interp(every, np.log(self.times), self.kl).sum())


def total_variation(law: Floats, predicted: Floats) -> float:
    """Half of ``Σ |law - predicted|``."""
    return float(np.abs(law - predicted).sum() / 2)


def run(
    learner: Learner,
    law: Floats,
    horizon: int,
    *,
    every: int = 0,
    apart: Callable[[Floats, Floats], float] = divergence,
) -> Trajectory:
    """Let a learner predict, and learn from, `horizon` reports in turn."""
    times = np.unique(np.rint(np.geomspace(1, horizon, _POINTS))).astype(np.int64)
    if every:
        times = np.arange(1, horizon + 1, every)
    kl = []
    for now, then in zip(times, [*times[1:], 0], strict=True):
        kl.append(apart(law, learner.predict()))
        if then:
            learner.learn(int(then - now))
    if every:  # a prediction stands for the whole round
        held = np.minimum(times + every - 1, horizon)
        times = np.ravel(np.column_stack([times, held]))
        kl = np.repeat(kl, 2).tolist()
    return Trajectory(times, np.array(kl))
