"""The smallest drift that the lower bound will find: both halves of checks that nobody has run."""

from __future__ import annotations

import math
from functools import partial

import numpy as np
from scipy.special import ndtri

from flwr_kld.inference.deciding import Deciding, default_most_records
from flwr_kld.inference.witness import Witness
from flwr_kld.kernel.count import MOST_RECORDS
from flwr_kld.kernel.law import SeededBits
from flwr_kld.planner.deciding_half import DecidingHalf
from flwr_kld.planner.drift import Law, Path
from flwr_kld.planner.setting import Setting, draw_cohorts, published
from flwr_kld.query.plan import QueryPlan
from flwr_kld.search import root

_WITNESSES = 8
"""First halves that are drawn."""
_SMALLEST = 1e-4
"""Nats below which nobody looks."""
_NEAR = 0.15
"""Relative distance of drifts between which the quantile of the power is taken for linear."""
_RARE = 1e-9


def power_of(
    setting: Setting,
    plan: QueryPlan,
    law: Law,
    *,
    clients: float = 1.0,
    witnesses: int | None = None,
) -> float:
    """Probability that the lower bound exceeds the threshold; deterministic."""
    # Shapes: law [domain.size].
    deciding = deciding_of(setting)
    p = np.asarray(np.bincount(plan.cell_of, law, plan.cells), dtype=np.float64)
    generator, bits = np.random.default_rng(0), SeededBits(0)
    power = []
    for h in draw_cohorts(p, setting.total, setting.clustering, witnesses or _WITNESSES, generator):
        first = published(h, plan, setting.event, bits)
        witness = Witness.from_counts(first, deciding)
        power.append(DecidingHalf(witness, setting, p, clients).power(generator, bits))
    return float(np.mean(power))


def smallest_drift(setting: Setting, plan: QueryPlan, drift: Path) -> float | None:
    """Least D_θ of the population, in nats, that is found with the setting's power.

    None if even the largest is not.
    """

    def excess(log_divergence: float, witnesses: int | None = None) -> float:
        law = drift.at(math.exp(log_divergence), setting.theta)
        power = power_of(setting, plan, law, clients=drift.clients, witnesses=witnesses)
        return float(ndtri(min(max(power, _RARE), 1 - _RARE)) - ndtri(setting.power))

    least, most = max(_SMALLEST, setting.threshold or 0.0), drift.largest(setting.theta)
    if least >= most:
        return None
    low, high = math.log(least), math.log(most)
    # Where one witness finds it, all of them do, about; between two steps they are all but linear.
    ends = excess(low, 1), excess(high, 1)
    x = low if ends[0] >= 0 else high
    if ends[0] < 0 < ends[1]:
        x = root(partial(excess, witnesses=1), low, high, within=_NEAR)
    here = excess(x)
    while True:
        step = min(max(x - math.copysign(_NEAR, here), low), high)
        if step == x:
            return least if x == low else None
        there = excess(step)
        if (here < 0) is not (there < 0):
            return math.exp(x + (step - x) * here / (here - there))
        x, here = step, there


def deciding_of(setting: Setting) -> Deciding:
    """Return what a check knows of its second half when it learns the witness."""
    if setting.threshold is None:
        raise ValueError("a check without a threshold decides nothing")
    most = min(setting.trust.most_records or MOST_RECORDS, MOST_RECORDS)
    if setting.by == "client":
        most = min(default_most_records(setting.total, setting.answering), most)
    return Deciding(
        clients=setting.answering,
        records=setting.total,
        most_records=most,
        by=setting.by,
        guarantee=setting.trust.guarantee,
        noise=math.sqrt(setting.sums_event.noise.variance),
        threshold=setting.threshold,
        theta=setting.theta,
    )
