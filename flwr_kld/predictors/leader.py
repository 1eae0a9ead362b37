"""The leading hypothesis, and how many lies its lead outlasts."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from flwr_kld.predictors.laws import Floats


@dataclass(frozen=True)
class Leader:
    """The hypothesis with the largest weight.

    Parameters
    ----------
    name : str
        Its name.
    index : int
        Its place among the hypotheses.
    weight : float
        Its weight for the next round.
    log_odds : float
        Of the leader against the runner-up, in nats.
    epsilon : float
        What one report can move any log-odds, in nats.
    """

    name: str
    index: int
    weight: float
    log_odds: float
    epsilon: float

    @classmethod
    def of(cls, names: tuple[str, ...], log_weights: Floats, epsilon: float) -> Leader:
        """Read the leader off log-weights, shape [K]; the first of equals."""
        best = int(np.argmax(log_weights))
        others = np.delete(log_weights, best)
        return cls(
            names[best],
            best,
            float(np.exp(log_weights[best])),
            float(log_weights[best] - others.max()),
            epsilon,
        )

    @property
    def outlasts(self) -> int:
        """Reports that may be replaced by any others without changing the leader.

        A report replaced moves log-odds by at most ``2 epsilon``: its own likelihood ratio is taken
        out and another put in.
        """
        return max(math.ceil(self.log_odds / (2 * self.epsilon)) - 1, 0)

    def certified_odds(self, lies: int) -> float:
        """Smallest log-odds that the honest reports can have had if `lies` were replaced, nats."""
        return self.log_odds - 2 * self.epsilon * lies
