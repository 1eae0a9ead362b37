"""Forecasts what a check of a given setting reports, finds and costs."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from scipy.special import ndtri

from flwr_kld.ask.noisy import noise_in_counts
from flwr_kld.ask.partition import Partition
from flwr_kld.ask.plan import QueryPlan
from flwr_kld.common.report_views import Viewed
from flwr_kld.infer.alarm import RESOLUTION
from flwr_kld.infer.allowance import SHARE, Allowance, allowance, rows_needed
from flwr_kld.infer.divergence import skewed_divergence
from flwr_kld.infer.drift import Drift, Law, Shape
from flwr_kld.infer.estimators.design_effect import Clients, DesignEffects, Spread, spread
from flwr_kld.infer.estimators.posterior_ratios import posterior_ratios
from flwr_kld.infer.estimators.score import THETA, check_threshold
from flwr_kld.infer.one_thread import one_thread
from flwr_kld.infer.power import Estimating, draw_cohorts, published
from flwr_kld.kernel.arguments import instance
from flwr_kld.kernel.law import SeededBits
from flwr_kld.planner.allotment import allot
from flwr_kld.planner.detection import smallest_drift
from flwr_kld.planner.setting import Setting
from flwr_kld.reference import Reference
from flwr_kld.table.table import Table

_PROMISED = 0.9
"""Probability with which a check says "no alarm" where that is promised, if no column moved."""
_COHORTS = 24
"""The relative error of a predicted deviation is about ``1 / sqrt(2 · 24)`` = 14 %."""


@dataclass(frozen=True, repr=False)
class Forecast(Viewed):
    """One row of a plan."""

    setting: Setting  # What was forecast
    noise: float  # Standard deviation in each cell, in records
    # Root mean square distance of the estimate from the population's D_θ where that is the
    # threshold, in nats
    error: float
    # Least divergence that is found with probability 0.8, in nats; None if none is, or if the
    # setting has no threshold
    smallest: float | None
    # D_θ from which on drifts of all usual shapes are seen by a check that says "no alarm" where
    # nothing drifted; None if it would be inconclusive, or the setting has no threshold
    seen_from: float | None
    # About how many records of the reference the threshold needs; None if its law is known exactly,
    # or the setting has no threshold
    reference_records: int | None = None
    # Of a table: the column that is the hardest to check, which the divergences are of
    column: str | None = None
    # Of a table: each column's own, that one first. Noise, epsilon and seconds are those of
    # all columns together.
    columns: dict[str, Forecast] = field(default_factory=dict)

    @property
    def by_column(self) -> tuple[Forecast, ...]:
        """Forecast of each column of a table, the hardest first; else this one alone."""
        return tuple(self.columns.values()) or (self,)

    @property
    def summary(self) -> str:
        """The least drift that such a check finds, in one line."""
        check = f"A check of {self.setting.clients:,} clients at ε = {self.setting.epsilon:g}"
        if self.setting.threshold is None:
            return f"{check} decides nothing: no threshold is set."
        if self.smallest is None:
            return f"{check} finds no drift."
        every = " in every column" if self.columns else ""
        return f"{check} finds drifts from {self.smallest:.3g} nats on{every}."

    def to_dict(self) -> dict[str, Any]:
        """Return one flat, JSON-able row: the setting, then the forecast, without `columns`."""
        apart = ("setting", "columns")
        own = {name: value for name, value in vars(self).items() if name not in apart}
        return {**self.setting.to_dict(), **own}


@one_thread()
def forecast(
    reference: Reference,
    setting: Setting,
    *,
    drift: Shape = "spread",
    design_effects: Mapping[str, float] | None = None,
) -> Forecast:
    """Say what a check will do, without asking anybody. Takes a few seconds; deterministic.

    Of a table, each column is forecast against its own reference, with the noise that hides a
    record in all of them, and found at its part of the rate of false alarms (Bonferroni). The
    table's own thresholds go before the setting's.

    Parameters
    ----------
    reference : Reference
        Π.
    setting : Setting
        How to check. Its trust model is bound to the columns of a table.
    drift : {"spread", "tilted", "vanishing", "one symbol"}
        How a drift is shaped: what hides in many small movements takes more to find. The columns of
        a table drift each by itself.
    design_effects : Mapping[str, float], optional
        Each column's own; by default the setting's holds in all.

    Raises
    ------
    ValueError
        If a drift is out of reach, or a threshold is.
    """
    instance("reference", reference, Reference, "a Reference, and come first")
    instance("setting", setting, Setting, "a Setting(clients=…, records=…, trust=…)")
    query = Partition(setting.cells).draw(reference, np.random.default_rng(0))
    thresholds = _thresholds(setting, query)
    allowed = {name: nats + RESOLUTION for name, nats in thresholds.items()}
    steps = allot(setting.trust, query, allowed, drawn=setting.drawn)
    setting = replace(setting, trust=setting.trust.over(steps))
    query = query.allotted(steps.first(len(query.columns)))
    if not reference.is_table:
        (name,) = reference.columns
        return _forecast(_alike(setting, name, design_effects), query, drift)
    found = [
        _forecast(
            _alike(replace(setting, threshold=thresholds.get(name)), name, design_effects),
            own, drift, column=name,
        )
        for name, own in query.columns.items()
    ]  # fmt: skip
    found.sort(key=_difficulty, reverse=True)
    return replace(found[0], columns={str(one.column): one for one in found})


def _thresholds(setting: Setting, query: QueryPlan) -> dict[str, float]:
    """Return the threshold of each column, its own or the setting's; none if none decides."""
    if setting.threshold is None:
        return {}
    domain = query.reference.domain
    own = domain.thresholds if isinstance(domain, Table) else {}
    thresholds = dict.fromkeys(query.columns, setting.threshold) | dict(own)
    return {name: check_threshold(nats) for name, nats in thresholds.items()}


def _alike(setting: Setting, name: str, design_effects: Mapping[str, float] | None) -> Setting:
    """Return a setting with the design effect of a column."""
    if design_effects is None:
        return setting
    return replace(setting, design_effect=design_effects.get(name, 1.0))


def _forecast(
    setting: Setting,
    query: QueryPlan,
    drift: Shape,
    column: str | None = None,
) -> Forecast:
    """Forecast a plan of one column; where it is of a table, at its part of the rate."""
    moves = Drift(query.reference, drift)
    threshold = setting.threshold or 0.0
    excluded = threshold + RESOLUTION
    if column is not None:  # not every column can drift as far as others are allowed to
        threshold = min(threshold, moves.largest)
    own = replace(setting, level=1 - (1 - setting.level) / setting.trust.allotment.columns)
    law = moves.at(threshold)
    decides = setting.threshold is not None
    smallest = seen = None
    if decides:  # against what is tolerated and what the reference cannot tell
        tested = _hidden(query, own).above(setting.threshold or 0.0)
        own = replace(own, threshold=tested)
        smallest = smallest_drift(own, query, moves)
        seen = _seen_from(setting, query, excluded)
    return Forecast(
        setting=setting,
        noise=math.sqrt(noise_in_counts(setting.event, query).variance),
        error=expected_error(setting, query, law),
        smallest=smallest,
        seen_from=seen,
        reference_records=rows_needed(
            query.reference, setting.threshold or 0.0, RESOLUTION,
            level=setting.level,
        ) if decides else None,
        column=column,
    )  # fmt: skip


def _seen_from(setting: Setting, query: QueryPlan, most: float) -> float | None:
    """Return from which D_θ on a check sees drifts if nothing drifted, in nats."""
    apart = -float(ndtri((1 - _PROMISED) / setting.trust.allotment.columns))
    effect = _reported_design_effect(setting, query, apart) if setting.drawn else 1.0
    check = Estimating(query, setting.event, setting.total, effect, setting.threshold or 0.0)
    if check.above(query.reference.probabilities) > -apart:
        return None
    return check.seen_from(most, _hidden(query, setting))


def _reported_design_effect(setting: Setting, query: QueryPlan, apart: float) -> float:
    """Return about the largest design effect that a check will report."""
    h = (setting.total * query.mass).round().astype(np.int64)
    counts = replace(published(h, query, setting.event, SeededBits(0)), alike=(0.0,))
    noise = spread(counts, Clients(setting.records - 1)).noise
    known = Spread(setting.design_effect + apart * noise, noise)
    return max(DesignEffects.of(known, setting.records).average, setting.design_effect)


def _hidden(query: QueryPlan, setting: Setting) -> Allowance:
    """Return the allowance for the reference's sampling error, at its share of the level."""
    level = 1 - SHARE * (1 - setting.level)
    return allowance(query.reference, level=level)


def _difficulty(row: Forecast) -> tuple[float, float]:
    return math.inf if row.smallest is None else row.smallest, row.error


def expected_error(setting: Setting, plan: QueryPlan, law: Law) -> float:
    """Try the estimator on cohorts drawn from a law, shape [domain.size]; deterministic."""
    truth = max(skewed_divergence(plan.reference.probabilities, law, THETA), 0.0)
    generator, bits = np.random.default_rng(0), SeededBits(0)
    found = []
    for _ in range(_COHORTS):
        (h,) = draw_cohorts(law, setting.total, setting.design_effect, 1, generator)
        in_cells = np.bincount(plan.cell_of, h, plan.cells).astype(np.int64)
        found.append(posterior_ratios(published(in_cells, plan, setting.event, bits)).cohort.value)
    return float(np.sqrt(np.mean((np.array(found) - truth) ** 2)))
