"""The paper's weak learner: a small dense network (equation 13), through scikit-learn."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from flwr_kld._extras import require
from flwr_kld.integral.base import Floats
from flwr_kld.kernel.arguments import keep, real, several, whole


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

    Raises
    ------
    ValueError
        If a number is out of range.
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

        Raises
        ------
        ImportError
            If scikit-learn is not installed.
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
