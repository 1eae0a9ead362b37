"""Weak learners: tell the data from the present model, a little.

A shallow decision tree with smoothed log odds in its leaves is the default; the paper's (equation
13) is a small dense network, through scikit-learn.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from flwr_kld._extras import require
from flwr_kld.integral.base import Floats
from flwr_kld.kernel.arguments import keep, real, several, whole


class WeakLearnerError(RuntimeError):
    """A weak learner failed. Says in which round, never with which data."""


class Classifier(Protocol):
    """A function from points to the log odds that they come from the data."""

    def __call__(self, features: Floats) -> Floats:
        """Return one number for each point; features [n, d], numbers [n]."""
        ...


class WeakLearner(Protocol):
    """Learns to tell two weighted sets of the same points apart."""

    def fit(self, features: Floats, target: Floats, model: Floats, records: int) -> Classifier:
        """Fit a classifier."""
        # Shapes: features [n, d], target [n], model [n].
        ...


_LEAST_GAIN = 1e-9


@dataclass(frozen=True)
class Tree:
    """Decision trees that maximise the likelihood of 'data or model?'.

    Over a thousand times faster than the paper's network (equation 13), and as good under Algorithm
    1 but for the ring (a drop of .32 against .36 at epsilon = 1), in
    ``simulations/studies/integral.py``.

    Parameters
    ----------
    depth : int
        Levels of splits, 1 to 16. Default 8.
        With 6, the ring at epsilon = 10 ends 5.6 % below the exact optimum; with 8, 3.8 %.
    bins : int
        Cuts of a feature with many values, by quantiles, 2 or more. Default 64.
    prior : float
        Records of data, and as many of the model, that each leaf is believed to hold before it
        holds any, 1e-6 to 1e9. Default 5.
    """

    depth: int = 8
    bins: int = 64
    prior: float = 5.0

    def __post_init__(self) -> None:
        keep(
            self,
            depth=whole("depth", self.depth, least=1, most=16),
            bins=whole("bins", self.bins, least=2),
            prior=real("prior", self.prior, least=1e-6, most=1e9, unit="records"),
        )

    def fit(self, features: Floats, target: Floats, model: Floats, records: int) -> FittedTree:
        """Grow a tree; parameters as of `WeakLearner.fit`."""
        cuts = [_cuts(column, self.bins) for column in features.T]
        binned = [
            np.searchsorted(cut, column, side="right")
            for cut, column in zip(cuts, features.T, strict=True)
        ]
        prior = self.prior / records
        node = np.zeros(len(features), dtype=np.int64)
        splits = []
        for level in range(self.depth):
            feature, place = _best_splits(node, 1 << level, binned, cuts, target, model, prior)
            if (feature < 0).all():
                break  # no split helps, nor would one further down
            going = np.zeros(len(features), dtype=np.bool_)
            for j, column in enumerate(binned):
                here = feature[node] == j
                going |= here & (column > place[node])
            threshold = np.array(
                [cuts[j][k] if j >= 0 else np.inf for j, k in zip(feature, place, strict=True)]
            )
            splits.append((np.maximum(feature, 0), threshold))
            node = 2 * node + going
        leaves = 1 << len(splits)
        masses = [np.bincount(node, mass, leaves) + prior for mass in (target, model)]
        return FittedTree(splits, np.log(masses[0] / masses[1]))


class FittedTree:
    """A tree as tables: one comparison a level, for all points at once."""

    def __init__(self, splits: list[tuple[NDArray[np.int64], Floats]], log_odds: Floats) -> None:
        self._splits = splits
        self._log_odds = log_odds

    def __call__(self, features: Floats) -> Floats:
        """Return each point's log odds; features [n, d], log odds [n]."""
        rows = np.arange(len(features))
        node = np.zeros(len(features), dtype=np.int64)
        for feature, threshold in self._splits:
            node = 2 * node + (features[rows, feature[node]] >= threshold[node])
        return self._log_odds[node]


def _cuts(column: Floats, bins: int) -> Floats:
    """Thresholds of one feature: half way between all values, or at quantiles."""
    values = np.unique(column)
    if len(values) <= bins:
        middles: Floats = (values[1:] + values[:-1]) / 2
        return middles
    return np.unique(np.quantile(column, np.linspace(0, 1, bins + 1)[1:-1]))


def _best_splits(
    node: NDArray[np.int64],
    nodes: int,
    binned: list[NDArray[np.int64]],
    cuts: list[Floats],
    target: Floats,
    model: Floats,
    prior: float,
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Feature and cut of each node's best split, 2 x [nodes]; feature -1 where none helps."""
    best = np.full(nodes, _LEAST_GAIN)
    feature, place = np.full(nodes, -1), np.zeros(nodes, dtype=np.int64)
    for j, (column, cut) in enumerate(zip(binned, cuts, strict=True)):
        if not len(cut):
            continue
        index, width = node * (len(cut) + 1) + column, len(cut) + 1
        below_p, below_q = (
            np.bincount(index, mass, nodes * width).reshape(nodes, width).cumsum(axis=1)
            for mass in (target, model)
        )
        p, q = below_p[:, -1:], below_q[:, -1:]
        below_p, below_q = below_p[:, :-1], below_q[:, :-1]
        gain = _log_likelihood(below_p + prior, below_q + prior)
        gain += _log_likelihood(p - below_p + prior, q - below_q + prior)
        gain -= _log_likelihood(p + 2 * prior, q + 2 * prior)
        light = np.minimum(below_p + below_q, p - below_p + q - below_q) <= 2 * prior
        gain[light] = 0.0
        at = gain.argmax(axis=1)
        value = gain[np.arange(nodes), at]
        better = value > best
        best[better], feature[better], place[better] = value[better], j, at[better]
    return feature, place


def _log_likelihood(p: Floats, q: Floats) -> Floats:
    """Log likelihood of 'data or model?' in a leaf of masses p and q, all positive."""
    both = p + q
    likelihood: Floats = p * np.log(p / both) + q * np.log(q / both)
    return likelihood


@dataclass(frozen=True)
class Network:
    """Three layers of 25 tanh units, a sigmoid, cross-entropy, Nesterov's accelerated descent.

    As in the paper, it is trained on samples: `samples` points drawn from the data and as many from
    the model. The paper names no batch size; scikit-learn's (200) is taken.

    Parameters
    ----------
    samples : int
        Points drawn from either side. Default 10,000.
    epochs : int
        Default 750.
    rate : float
        Learning rate. Default 0.01.
    units : tuple[int, ...]
        Width of each layer. Default (25, 25, 25).
    seed : int
        Of training. It protects nobody, and need not.
    """

    samples: int = 10_000
    epochs: int = 750
    rate: float = 0.01
    units: tuple[int, ...] = (25, 25, 25)
    seed: int = 0

    def __post_init__(self) -> None:
        keep(
            self,
            samples=whole("samples", self.samples, least=1),
            epochs=whole("epochs", self.epochs, least=1),
            rate=real("rate", self.rate, above=0),
            units=tuple(whole("units", width, least=1) for width in several("units", self.units)),
            seed=whole("seed", self.seed, least=0, most=2**32 - 1),
        )

    def fit(
        self, features: Floats, target: Floats, model: Floats, records: int
    ) -> Callable[[Floats], Floats]:
        """Train a network; parameters as of `WeakLearner.fit`.

        Raises `ImportError` if scikit-learn is not installed.
        """
        del records
        neural = require("sklearn.neural_network", extra="integral")
        generator = np.random.default_rng(self.seed)
        rows = np.concatenate(
            [generator.choice(len(mass), self.samples, p=mass) for mass in (target, model)]
        )
        is_data = np.repeat([1, 0], self.samples)
        centre, spread = features.mean(axis=0), features.std(axis=0) + 1e-12
        network: Any = neural.MLPClassifier(
            self.units, activation="tanh", solver="sgd", alpha=0.0, learning_rate_init=self.rate,
            max_iter=self.epochs, nesterovs_momentum=True, n_iter_no_change=self.epochs,
            random_state=self.seed,
        )  # fmt: skip
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that it has not converged after the paper's epochs
            network.fit((features[rows] - centre) / spread, is_data)

        def log_odds(points: Floats) -> Floats:
            no, yes = network.predict_log_proba((points - centre) / spread).T
            odds: Floats = yes - no
            return odds

        return log_odds
