"""The smallest drift that the lower bound will find: both halves of checks that nobody has run."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial

import numpy as np
from scipy.special import ndtri

from flwr_kld.inference.allowance import Allowance
from flwr_kld.inference.deciding import Deciding, default_most_records
from flwr_kld.inference.decision import LIKELY
from flwr_kld.inference.witness import Witness
from flwr_kld.kernel.count import MOST_RECORDS
from flwr_kld.kernel.law import SeededBits
from flwr_kld.kernel.release import Release
from flwr_kld.planner.deciding_half import DecidingHalf
from flwr_kld.planner.drift import Drift, Law, Path, Shape
from flwr_kld.planner.setting import Setting, draw_cohorts, published
from flwr_kld.query.plan import QueryPlan
from flwr_kld.search import root

_WITNESSES = 8
"""First halves that are drawn."""
USUAL: tuple[Shape, ...] = ("spread", "tilted", "vanishing", "one symbol")
"""Shapes of drifts that a quiet check would have seen."""
_FEW_WITNESSES, _ERROR = 4, 0.05
"""First halves that are drawn for each drift, and what so few may be off by."""
_HALVED = 3
"""Divergences that are tried."""
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
    half = Half(plan, setting.event, deciding_of(setting), setting.sums_event, setting.level)
    return half.power(law, setting.clustering, clients=clients, witnesses=witnesses or _WITNESSES)


@dataclass(frozen=True)
class Half:
    """What is public of both halves of a check, whoever answers."""

    plan: QueryPlan  # Of the first half
    event: Release  # Of its counts
    deciding: Deciding  # The second half
    sums_event: Release  # Of its sums
    level: float  # Confidence of the lower bound

    def power(
        self, law: Law, design_effect: float, *, clients: float = 1.0, witnesses: int
    ) -> float:
        """Probability that the bound exceeds the threshold, over so many first halves."""
        # Shapes: law [domain.size].
        p = np.asarray(np.bincount(self.plan.cell_of, law, self.plan.cells), dtype=np.float64)
        generator, bits = np.random.default_rng(0), SeededBits(0)
        records = max(round(self.deciding.records), 2)
        effect = min(design_effect, records / 2)
        power = []
        for h in draw_cohorts(p / p.sum(), records, effect, witnesses, generator):
            first = published(h, self.plan, self.event, bits)
            witness = Witness.from_counts(first, self.deciding)
            half = DecidingHalf(witness, self.sums_event, p, self.level, design_effect, clients)
            power.append(half.power(generator, bits))
        return float(np.mean(power))

    def quiet_from(self, most: float, design_effect: float, hidden: Allowance) -> float | None:
        """Return the same of D_θ from the law that a reference which is a sample was drawn from.

        The drifts that are forecast are away from the reference as it was counted.
        """
        found = self.seen_from(most - math.sqrt(hidden.by_drift * most), design_effect)
        return None if found is None else hidden.at_most(found)

    def seen_from(self, most: float, design_effect: float) -> float | None:
        """Return D_θ from which on drifts of the usual shapes are seen, in nats, within `most`.

        With probability `LIKELY` or more. None if some of them are not even there.
        """
        drifts = [Drift(self.plan.reference, shape) for shape in USUAL]
        theta, low, found = self.deciding.theta, self.deciding.threshold, None

        def seen(divergence: float) -> bool:
            return all(
                self.power(drift.at(divergence, theta), design_effect, witnesses=_FEW_WITNESSES)
                >= LIKELY + _ERROR
                for drift in drifts
                if divergence <= drift.largest(theta)
            )

        x = most
        for _ in range(_HALVED if most > low else 0):
            if seen(x):
                found = x
            elif found is None:
                return None
            else:
                low = x
            x = (low + found) / 2
        return found


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
        usual = default_most_records(setting.total, setting.answering)
        most = min(setting.most_records or usual, most)
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
