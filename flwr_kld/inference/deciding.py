"""What is known of the deciding half of a check before it is asked; all of it is public."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from flwr_kld.inference.estimators.score import Floats, check_theta
from flwr_kld.kernel import Guarantee
from flwr_kld.kernel.arguments import keep, real, whole
from flwr_kld.kernel.count import MOST_RECORDS, MOVES, NUMBERS

_SMALLEST = 1e-9
"""Loss that is taken for none."""
_LEVEL = 1e-6
"""Probability of an error at which a check is sure to find what it expects to."""
_LOSSES = 0.9 * np.geomspace(1.0, 0.02, 9)
"""Parts of the wealth that a bet stakes: the worst client can lose so much."""
_USUAL = 12.0
"""Standard deviations of independent records within which a client's sum is never capped."""
_LET_IN = 0.25
"""Noise in the squares, over those of independent records, that is let in to see large sums."""
_SPARE = 1.25
"""Records that a client counts by default, over the mean: all of them where clients are alike. More
would make bets over checks smaller, and the noise in the spread of clients larger."""


@dataclass(frozen=True)
class Deciding:
    """The deciding half: how much it will tell, and what it is held against."""

    clients: int  # That are going to be asked
    records: float  # That they count in all, about
    most_records: int  # That one of them counts
    guarantee: Guarantee  # What it protects says how far a number moves
    noise: float  # Standard deviation of the noise in each number, in steps
    threshold: float  # Nats of D_θ that are tolerated
    outside: float = 0.0  # Fraction of records outside the reference that is tolerated, in [0, 1)
    theta: float = 0.01  # θ of D_θ, in [0, 1)

    def __post_init__(self) -> None:
        keep(
            self,
            clients=whole("clients", self.clients, least=1),
            records=real("records", self.records, above=0),
            most_records=whole("most_records", self.most_records, least=1, most=MOST_RECORDS),
            noise=real("noise", self.noise, least=0),
            threshold=real("threshold", self.threshold, least=0, unit="nats"),
            outside=real("outside", self.outside, least=0, below=1),
            theta=check_theta(self.theta),
        )

    def needed(self, score: Floats, sampling: Floats, expected: Floats) -> Floats:
        """Predict which sum of scores a check finds, at levels down to `_LEVEL`; shape [...].

        By the best bet that the worst client cannot lose, of scores of shape [..., cells], and of
        the variance by independent records and the expected sum, of shape [...].
        """
        lowest = self.most_records * np.maximum(-score.min(axis=-1), 0)
        highest = self.most_records * np.maximum(score.max(axis=-1), 0)
        moves = np.ptp(score, axis=-1)
        extreme = np.minimum(highest, self.ceiling(lowest, sampling, moves))
        extreme = np.maximum(lowest, extreme)
        if self.guarantee.protects == "record":
            square = 2 * extreme * moves
        else:
            moves, square = extreme, extreme**2
        noise = self.noise * moves / MOVES[NUMBERS.index("total")]
        noise_in_squares = self.noise * square / MOVES[NUMBERS.index("squares")]
        squares = sampling + expected**2 / self.clients
        loss = _LOSSES[:, None] / np.maximum(lowest, _SMALLEST)
        half = curvature(_LOSSES)[:, None] * loss / 2
        by_noise = loss * noise**2 / 2 + half**2 * loss * noise_in_squares**2 / 2
        needed: Floats = np.min(-math.log(_LEVEL) / loss + half * squares + by_noise, axis=0)
        return needed

    def ceiling(self, lowest: Floats, sampling: Floats, moves: Floats) -> Floats:
        """Return where a client's sum is capped: as far above 0 as it can be below, or usual.

        Higher where records are hidden and the noise in the squares, which grows with it, stays
        small beside them: clients who drift far have large sums, and the spread is to show them.
        """
        usual = np.maximum(lowest, _USUAL * np.sqrt(sampling / self.clients))
        if self.guarantee.protects != "record":
            return usual
        noise = 2 * self.noise * np.maximum(moves, _SMALLEST) / MOVES[NUMBERS.index("squares")]
        return np.maximum(usual, _LET_IN * sampling / np.maximum(noise, _SMALLEST))


def curvature(loss: Floats) -> Floats:
    """Return c of a bet whose largest loss is in (0, 1): it costs c / 2 times its square, c > 1."""
    return np.asarray(2 * (-np.log1p(-loss) - loss) / loss**2)


def default_most_records(records: float, clients: int) -> int:
    """Return how many records a client counts unless it is said: somewhat more than the mean."""
    mean = records / whole("clients", clients, least=1)
    return min(max(math.ceil(_SPARE * mean), 1), MOST_RECORDS)
