"""What one check says against "D_θ is at most the threshold", before any variance is known."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from flwr_kld.arguments import keep, real, several
from flwr_kld.inference.estimators.score import Floats, check_theta
from flwr_kld.inference.witness import SLACK, Witness, in_groups

if TYPE_CHECKING:
    from flwr_kld.counts.noisy_counts import NoisyCounts


@dataclass(frozen=True)
class Evidence:
    """One check's excess over what the threshold allows. Public.

    Parameters
    ----------
    excess : tuple[float, ...]
        Of each group, in standard deviations as they were predicted before the second half was
        asked. If D_θ is at most the threshold, each has a mean of at most 0.
    spread : float
        Variance of the groups around their common E_P f, over its prediction. It sizes the bets of
        later checks.
    threshold : float
        In nats.

    Raises
    ------
    ValueError
        If there are fewer than two groups, or a number is not finite.
    """

    excess: tuple[float, ...]
    spread: float
    threshold: float

    def __post_init__(self) -> None:
        keep(
            self,
            excess=tuple(real("excess", group) for group in several("excess", self.excess)),
            spread=real("spread", self.spread, least=0),
            threshold=real("threshold", self.threshold, unit="nats"),
        )
        if len(self.excess) < 2:
            raise ValueError("evidence needs at least two groups")

    @classmethod
    def of(
        cls, witness: Witness, noisy: NoisyCounts, *, theta: float, threshold: float
    ) -> Evidence:
        """Hold the second half against ``D_θ <= threshold``.

        Then ``E_P f`` is at least ``m = (e^(Σ Π ln f - threshold) - θ E_Π f) / (1 - θ)`` (Donsker
        and Varadhan), so in each group ``Σ (m - f)`` over its records has a mean of at most 0,
        however many records the group has; noise on the counts leaves that mean as it is.

        Parameters are those of `lower_confidence_bound`, and the threshold in nats, >= 0.

        Raises
        ------
        ValueError
            If an argument is out of range, or the counts are not those of the witness.
        """
        theta, threshold = check_theta(theta), check_threshold(threshold)
        counts, f = in_groups(noisy, len(witness.values)), witness.f
        groups, size = counts.shape[1], counts.sum(axis=0)

        def predicted(short: Floats) -> float:
            """Variance of a group's ``Σ short`` if records are independent."""
            sampling = noisy.records / groups * float(witness.share @ short**2)
            return float(sampling + noisy.noise.variance * (short @ short))

        least = math.exp(witness.log_mean - threshold) * (1 - SLACK)
        short = (least - theta * witness.reference_mean) / (1 - theta) - SLACK - f
        mean = float(f @ counts.sum(axis=1)) / max(int(size.sum()), 1)
        around = (mean - f) @ counts
        ought, varies = predicted(short), predicted(mean - f)
        excess = short @ counts / math.sqrt(ought) if ought > 0 else np.zeros(groups)
        spread = float(around @ around) / (groups - 1) / varies if varies > 0 else 1.0
        return cls(tuple(excess.tolist()), spread, threshold)


def check_threshold(threshold: float) -> float:
    """Return a threshold as Python's number; ValueError unless it is finite and at least 0."""
    return real("threshold", threshold, least=0, unit="nats")
