"""What is known of the deciding half of a check before it is asked; all of it is public."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np

from flwr_kld.inference.estimators.score import Floats, check_theta, check_threshold
from flwr_kld.kernel import Guarantee, Unit
from flwr_kld.kernel.arguments import choice, keep, real, whole
from flwr_kld.kernel.count import MOST_RECORDS, MOVES, NUMBERS

_RARE = 7.0
"""Standard deviations of the noise in the clients' spread that a check allows for: it alarms at
levels where noise of exponential tails reaches so far."""
_USUAL = 12.0
"""Standard deviations of independent records within which a client's sum is never capped."""
_SPARE = 1.25
"""Records that a client counts by default, over the mean: all of them where clients are alike. More
would make bets over checks smaller, and the noise in the spread of clients larger."""


@dataclass(frozen=True)
class Deciding:
    """The deciding half: how much it will tell, and what it is held against."""

    clients: int  # That are going to be asked
    records: float  # That they count in all, about
    most_records: int  # That one of them counts
    # What is drawn from the population: clients, or records of these very clients
    by: Literal["client", "record"]
    guarantee: Guarantee  # Its unit and adjacency say how far a number moves
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
            by=choice("by", self.by, ("client", "record")),
            noise=real("noise", self.noise, least=0),
            threshold=check_threshold(self.threshold),
            outside=real("outside", self.outside, least=0, below=1),
            theta=check_theta(self.theta),
        )

    def variance_by_noise(self, score: Floats, sampling: Floats) -> Floats:
        """Predict what noise adds to the variance of the sum of scores, shape [..., cells].

        Its own, and what noise may well hide of the spread of the clients.
        """
        by_client, records = self.by == "client", self.most_records
        lowest, highest = np.maximum(-score.min(axis=-1), 0), np.maximum(score.max(axis=-1), 0)
        if by_client:
            lowest, highest = records * lowest, records * highest
            highest = np.minimum(highest, self.ceiling(lowest, sampling))
        extreme = np.maximum(lowest, highest)
        if self.guarantee.unit is Unit.RECORD:
            moves = np.ptp(score, axis=-1)
            square = 2 * extreme * moves if by_client else extreme**2
        else:
            most = 1 if by_client else records
            moves, square = most * extreme, most * extreme**2
        total = self.noise * moves / MOVES[NUMBERS.index("total")]
        variance: Floats = total**2 + _RARE * self.noise * square / MOVES[NUMBERS.index("squares")]
        return variance

    def ceiling(self, lowest: Floats, sampling: Floats) -> Floats:
        """Return where a client's sum is capped: as far above 0 as it can be below, or usual."""
        return np.maximum(lowest, _USUAL * np.sqrt(sampling / self.clients))


def default_most_records(records: float, clients: int) -> int:
    """Return how many records a client counts unless it is said: somewhat more than the mean."""
    mean = records / whole("clients", clients, least=1)
    return min(max(math.ceil(_SPARE * mean), 1), MOST_RECORDS)
