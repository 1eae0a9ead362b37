"""What one check says against "D_θ is at most the threshold", before any variance is known."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from flwr_kld.bounds.witness import SLACK, Witness, in_groups
from flwr_kld.estimate.score import check_theta

if TYPE_CHECKING:
    from flwr_kld.counts import NoisyCounts


@dataclass(frozen=True)
class Evidence:
    """One check's excess over what the threshold allows. Public.

    Parameters
    ----------
    excess : tuple[float, ...]
        Of each group, in standard deviations as they were predicted before the second half was
        asked. If D_θ is at most the threshold, each has a mean of at most 0.
    threshold : float
        In nats.

    Raises
    ------
    ValueError
        If there are fewer than two groups, or a number is not finite.
    """

    excess: tuple[float, ...]
    threshold: float

    def __post_init__(self) -> None:
        if len(self.excess) < 2:
            raise ValueError("evidence needs at least two groups")
        if not all(map(math.isfinite, (*self.excess, self.threshold))):
            raise ValueError("evidence must be finite")

    @classmethod
    def of(
        cls, witness: Witness, noisy: NoisyCounts, *, theta: float, threshold: float
    ) -> Evidence:
        """Hold the second half against ``D_θ <= threshold``.

        Then ``E_P f`` is at least ``m = (e^(Σ Π ln f - threshold) - θ E_Π f) / (1 - θ)`` (Donsker
        and Varadhan), so in each group ``Σ (m - f)`` over its records has a mean of at most 0,
        however many records the group has; noise on the counts leaves that mean as it is.

        Parameters are those of `certified_lower_bound`, and the threshold in nats, >= 0.

        Raises
        ------
        ValueError
            If an argument is out of range, or the counts are not those of the witness.
        """
        check_theta(theta)
        check_threshold(threshold)
        counts = in_groups(noisy, len(witness.values))
        groups = counts.shape[1]
        least = math.exp(witness.log_mean - threshold) * (1 - SLACK)
        short = (least - theta * witness.reference_mean) / (1 - theta) - SLACK - witness.f
        sampling = noisy.records / groups * float(witness.share @ short**2)
        predicted = math.sqrt(sampling + noisy.noise.variance * float(short @ short))
        excess = short @ counts / predicted if predicted > 0 else np.zeros(groups)
        return cls(tuple(excess.tolist()), threshold)


def check_threshold(threshold: float) -> None:
    """Raise ValueError unless ``0 <= threshold < inf``."""
    if not 0 <= threshold < math.inf:
        raise ValueError(f"a threshold must be at least 0 nats, got {threshold}")
