"""Finds published counts that honest clients cannot have: a client lies, or counts wrongly.

Sums over clients cannot be checked part by part. What does not add up beyond anything that the
noise explains is not a ground to decide on. Lies within what clients may hold cannot be told from
data: ``docs/threat-model.md``.

`_UNLIKELY` was chosen: noise alone passes a margin in one of L counts with probability below
2 e^-21. Of 1,000 counts a lie must be 28 times the e-folding length of the noise; half lets one of
17 and refuses an honest check in 18,000, twice needs 49.
"""

from __future__ import annotations

import math

from flwr_kld.ask.noisy import NoisyCounts
from flwr_kld.infer.estimators.score import THETA, score_ceiling

_UNLIKELY = 21.0


def contradiction(noisy: NoisyCounts, clients: int, most_records: int = 0) -> str | None:
    """Say what is impossible in one exchange's counts; None if nothing is."""
    values, records = noisy.values, noisy.records
    deviation = math.sqrt(noisy.noise.variance)
    margin = (_UNLIKELY + math.log(values.size)) * tail(deviation)
    of_all = margin * math.sqrt(values.size)
    total = float(values.sum(dtype=float))
    if float(values.min()) < -margin:
        return f"a count is {values.min()}, and noise has a standard deviation of {deviation:.3g}"
    if abs(total - records) > of_all:
        return f"the counts add up to {total:.0f}, and their number is given as {records:.0f}"
    if most_records and records > clients * most_records + of_all:
        return (
            f"there are {records:.0f} records, and {clients} clients count at most "
            f"{most_records} each"
        )
    return None


def tail(deviation: float) -> float:
    """Return in how many records the tail of discrete Laplace noise falls e-fold: the heaviest."""
    # Its variance is ``1 / (2 sinh²(ε / 2))``, and its tail ``e^(-ε t)``.
    return 1 / (2 * math.asinh(1 / (math.sqrt(2) * deviation))) if deviation > 0 else 0.0


def impossible_estimate(estimate: float, error: float) -> str | None:
    """Say that an estimate is far outside of what D_θ can be, [0, ln(1/θ)]; None if it is not."""
    margin = _UNLIKELY * 3.2 / math.sqrt(2) * error
    most = score_ceiling(THETA)
    if -margin <= estimate <= margin + most:
        return None
    return f"the estimate is {estimate:.3f} nats, and must be in [0, {most:.3f}]"
