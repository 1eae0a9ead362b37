"""The smallest drift that the lower bound will find, by checks that nobody has run."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

import numpy as np
from scipy.special import ndtr, ndtri

from flwr_kld.inference.allowance import Allowance
from flwr_kld.inference.deciding import Deciding, default_most_records
from flwr_kld.inference.decision import LIKELY
from flwr_kld.inference.whole_cohort import WholeCohort, whole_cohort
from flwr_kld.inference.witness import Witness
from flwr_kld.kernel.count import MOST_RECORDS
from flwr_kld.kernel.law import SeededBits
from flwr_kld.kernel.release import Release
from flwr_kld.planner.deciding_half import DecidingHalf
from flwr_kld.planner.delay import Growth
from flwr_kld.planner.drift import Drift, Law, Path, Shape
from flwr_kld.planner.setting import Setting, draw_cohorts, published
from flwr_kld.query.noisy import NoisyCounts
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
_YEARLY = 1e-2 / 365
"""Level of a single check where a year of them errs with 5 %, a fifth of it for single ones."""
_SPREAD = 0.5
"""Standard deviation of a forecast test's quantile, at least: few cohorts tell it badly."""
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
    return check_of(setting, plan).power(
        law, setting.clustering, clients=clients, witnesses=witnesses or _WITNESSES
    )


def check_of(setting: Setting, plan: QueryPlan) -> Half | Whole:
    """Return what is public of a setting's check of one column."""
    if setting.about == "the population":
        deciding = deciding_of(setting)
        return Half(plan, setting.event, deciding, setting.sums_event, setting.level)
    return whole_of(setting, plan)


def whole_of(setting: Setting, plan: QueryPlan) -> Whole:
    """Return the check of a setting that is about its own clients."""
    return Whole(
        plan,
        setting.event,
        setting.total,
        _threshold_of(setting),
        setting.theta,
        setting.level,
        error=min(_YEARLY, 1 - setting.level),
    )


def _threshold_of(setting: Setting) -> float:
    if setting.threshold is None:
        raise ValueError("a check without a threshold decides nothing")
    return setting.threshold


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

    @property
    def threshold(self) -> float:
        """That is tested, in nats."""
        return self.deciding.threshold

    @property
    def theta(self) -> float:
        """θ of D_θ."""
        return self.deciding.theta

    @property
    def sizes(self) -> tuple[float, ...]:
        """Public numbers that the power rests on."""
        return self.deciding.clients, self.deciding.records, self.deciding.most_records


@dataclass(frozen=True)
class Whole:
    """What is public of a check whose counts decide, about the clients that answer."""

    plan: QueryPlan
    event: Release  # Of the counts
    records: float
    threshold: float  # That is tested, in nats
    theta: float
    level: float  # Confidence of the lower bound
    error: float  # With which a single check may alarm

    def power(
        self, law: Law, design_effect: float = 1.0, *, clients: float = 1.0, witnesses: int
    ) -> float:
        """Probability that the bound exceeds the threshold, by so many cohorts that are drawn."""
        # How clients differ is no chance here. The statistic is nearly normal.
        found = list(self._tests(law, witnesses))
        quantile = np.array([one.quantile(self.threshold) for one in found])
        above = quantile.mean() - found[0].needed(self.level)
        spread = max(float(quantile.std(ddof=1)), _SPREAD) if len(found) > 1 else 1.0
        return float(ndtr(above / spread))

    def growth(self, law: Law) -> Growth:
        """Forecast what a check adds to the logarithm of the evidence under a law over symbols."""
        found = [one.log_evidence(self.threshold) for one in self._tests(law, _WITNESSES)]
        return Growth(float(np.mean(found)), max(float(np.std(found, ddof=1)), _SPREAD))

    def _tests(self, law: Law, cohorts: int) -> Iterator[WholeCohort]:
        p = np.asarray(np.bincount(self.plan.cell_of, law, self.plan.cells), dtype=np.float64)
        generator, bits = np.random.default_rng(0), SeededBits(0)
        records = max(round(self.records), 2)
        for h in draw_cohorts(p / p.sum(), records, 1.0, cohorts, generator):
            yield self.read(published(h, self.plan, self.event, bits))

    def read(self, counts: NoisyCounts) -> WholeCohort:
        """Read a cohort's counts."""
        return whole_cohort(counts, theta=self.theta, threshold=self.threshold, error=self.error)

    @property
    def sizes(self) -> tuple[float, ...]:
        """Public numbers that the power rests on."""
        return (self.records,)


def seen_from(check: Half | Whole, most: float, *, design_effect: float) -> float | None:
    """Return D_θ from which on drifts of the usual shapes are seen, in nats, within `most`.

    With probability `LIKELY` or more. None if some of them are not even there.
    """
    drifts = [Drift(check.plan.reference, shape) for shape in USUAL]
    theta, low, found = check.theta, check.threshold, None

    def seen(divergence: float) -> bool:
        return all(
            check.power(drift.at(divergence, theta), design_effect, witnesses=_FEW_WITNESSES)
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


def quiet_from(
    check: Half | Whole, most: float, hidden: Allowance, *, design_effect: float
) -> float | None:
    """Return the same of D_θ from the law that a reference which is a sample was drawn from.

    The drifts that are forecast are away from the reference as it was counted.
    """
    away = most - math.sqrt(hidden.by_drift * most)
    found = seen_from(check, away, design_effect=design_effect)
    return None if found is None else hidden.at_most(found)


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
    usual = default_most_records(setting.total, setting.answering)
    most = min(setting.most_records or usual, setting.trust.most_records or MOST_RECORDS)
    return Deciding(
        clients=setting.answering,
        records=setting.total,
        most_records=min(most, MOST_RECORDS),
        guarantee=setting.trust.guarantee,
        noise=math.sqrt(setting.sums_event.noise.variance),
        threshold=_threshold_of(setting),
        theta=setting.theta,
    )
