"""The leading hypothesis, and how many lies its lead outlasts."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from flwr_kld.predictors.laws import Floats


@dataclass(frozen=True)
class Leader:
    """The hypothesis with the largest weight."""

    name: str  # Name of the leading candidate
    index: int  # Its place among the hypotheses
    weight: float  # Its weight for the next round
    log_odds: float  # Of the leader against the runner-up, in nats
    # Most nats by which one report moves any log-odds, if a lie takes the place of the truth
    swing: float

    @classmethod
    def of(cls, names: tuple[str, ...], log_weights: Floats, swing: float) -> Leader:
        """Read the leader off log-weights, shape [K]; the first of equals."""
        best = int(np.argmax(log_weights))
        others = np.delete(log_weights, best)
        return cls(
            names[best],
            best,
            float(np.exp(log_weights[best])),
            float(log_weights[best] - others.max()),
            swing,
        )

    @property
    def outlasts(self) -> int:
        """Reports that may be replaced by any others without changing the leader."""
        return max(math.ceil(self.log_odds / self.swing) - 1, 0)

    def certified_odds(self, lies: int) -> float:
        """Smallest log-odds that the honest reports can have had if `lies` were replaced, nats."""
        return self.log_odds - self.swing * lies
