"""Weights over hypotheses that can become true later, and what they say: of both predictors.

Fixed share: none is ever given up (Herbster, Warmuth 1998). After each round every weight gives a
fraction to the prior. In log-odds the step is non-expansive (Birkhoff 1957), so what one report can
move is still bounded by its own epsilon.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import Any

import numpy as np
from scipy.special import logsumexp

from flwr_kld.kernel.arguments import instance, real
from flwr_kld.predictors.hypotheses import Hypotheses
from flwr_kld.predictors.laws import Floats
from flwr_kld.predictors.readouts import Leader
from flwr_kld.predictors.selection import Selected, select

State = dict[str, Any]
"""JSON-able."""
Reached = tuple[int, Floats]
"""A round, and the log-weights after its reports."""


class Mixture(ABC):
    """Learns in rounds which of K hypotheses clients' labels follow.

    Parameters
    ----------
    hypotheses : Hypotheses
        The K candidates.
    share : float
        In [0, 1): how much of its weight each hypothesis gives to all of them after a round, so
        that a change of the truth is followed within rounds. 0 assumes that the truth never
        changes.
    """

    def __init__(self, hypotheses: Hypotheses, share: float) -> None:
        self.hypotheses = instance(
            "hypotheses", hypotheses, Hypotheses, "Hypotheses({…}), of candidates by name"
        )
        self._share = real("share", share, least=0, below=1)
        k = len(hypotheses.names)
        self._log_prior = np.full(k, -math.log(k))
        self._settled: Reached | None = None

    @property
    @abstractmethod
    def log_weights(self) -> Floats:
        """Log-weights for the round after the last one with reports, shape [K]."""

    @property
    @abstractmethod
    def mixture(self) -> Floats:
        """Proportions of the hypotheses that fit the rounds not settled best, shape [K]."""

    @property
    @abstractmethod
    def refuted(self) -> bool:
        """Whether the rounds not settled refute every hypothesis: then `predict` is `mixture`'s."""

    @property
    @abstractmethod
    def _swing(self) -> float:
        """Most nats by which a report replaced moves log-odds."""

    @abstractmethod
    def _distances(self, context: str, beta: float) -> Floats:
        """Lower bounds on the total variation between the clients' law and each hypothesis."""

    @property
    def weights(self) -> Floats:
        """Weight of each hypothesis for the next label, shape [K], summing to 1."""
        return np.asarray(np.exp(self.log_weights))

    @property
    def leader(self) -> Leader:
        """The leading hypothesis and its odds."""
        return Leader.of(self.hypotheses.names, self.log_weights, self._swing)

    def predict(self, context: str = "") -> Floats:
        """Distribution of the next label, shape [M]: by the weights, or `mixture` if `refuted`."""
        proportions = self.mixture if self.refuted else self.weights
        return proportions @ self.hypotheses.at(context).probabilities

    def select(
        self, context: str = "", *, factor: float = 3.0, confidence: float = 0.95
    ) -> Selected:
        """Name one hypothesis, with a total-variation guarantee that needs none to be true.

        It speaks of the law that labels of the context had in the rounds not settled.

        Parameters
        ----------
        factor : float
            At least 1: what the best hypothesis' distance is multiplied by. A larger factor needs
            fewer reports for the same slack.
        confidence : float
            In (0, 1).

        Raises
        ------
        ValueError
            If a parameter is out of range, or hypotheses have no law in the context.
        """
        factor = real("factor", factor, least=1)
        confidence = real("confidence", confidence, above=0, below=1)
        apart = self._distances(context, 1 - confidence)
        best, slack = select(self.hypotheses.at(context), self.log_weights, apart, factor)
        name = self.hypotheses.names[best]
        return Selected(name, best, factor, slack, float(apart.min()), confidence)

    def _before(self, reached: Reached | None, number: int) -> Floats:
        """Log-weights before a round, given those after an earlier one."""
        last, weights = reached or (number, self._log_prior)
        if self._share == 0 or number == last:
            return weights
        kept = (number - last) * math.log1p(-self._share)
        given = math.log(-math.expm1(kept))
        return np.asarray(np.logaddexp(weights + kept, self._log_prior + given))

    def _after(self, reached: Reached | None, number: int, evidence: Floats) -> Reached:
        """Add what a round's reports say, given the round before."""
        weights = self._before(reached, number) + evidence
        return number, np.asarray(weights - logsumexp(weights))
