"""Parts of a report, and Flower's metrics, from what was published: post-processing only."""

from __future__ import annotations

import math
from typing import Any, Literal

from flwr_kld.ask.noisy import NoisyCounts, NoisyLabels
from flwr_kld.ask.plan import QueryPlan
from flwr_kld.infer.allowance import allowance
from flwr_kld.infer.estimators.design_effect import INDEPENDENT, DesignEffects
from flwr_kld.infer.estimators.posterior_ratios import as_counted
from flwr_kld.infer.estimators.result import Divergences
from flwr_kld.infer.figures.calibration import calibration
from flwr_kld.infer.figures.figures import figures
from flwr_kld.infer.verdict import Outcome, Verdict
from flwr_kld.kernel.release import Release
from flwr_kld.report.column import ColumnReport, Reading, drifted
from flwr_kld.report.envelope import Protection
from flwr_kld.report.explanation import (
    cell_counts,
    histogram,
    moves,
    outside_fraction,
    unlisted,
)
from flwr_kld.report.report import Compared, Report
from flwr_kld.trust import Trust

_LEVEL = 0.95
"""Confidence with which chance in a reference is limited."""
_FALSE = 0.05
"""Probability that a report says of any column that moved nowhere what moved in it."""


def read(
    published: NoisyCounts,
    found: Divergences | None,
    *,
    effects: DesignEffects = INDEPENDENT,
) -> Reading:
    """Return what follows from the published values alone; what is `found` is estimated already."""
    hidden, outside = 0.0, outside_fraction(published, effects)
    cohort = as_counted(published) if found is None else found.cohort
    population = None if found is None else found.population
    if population is not None:
        # Of a reference that is a sample, chance alone may have put as much there.
        allowed = allowance(published.plan.reference, level=_LEVEL)
        hidden = allowed.above(population.value) - population.value
    return Reading(
        estimate=cohort.value,
        error=cohort.error,
        records=published.records,
        population_estimate=None if population is None else population.value,
        population_deviation=(
            None if population is None else math.hypot(population.error.total, hidden)
        ),
        outside=outside,
    )


def column_report(
    published: NoisyCounts,
    reading: Reading,
    verdict: Verdict | None,
    *,
    columns: int,
    effects: DesignEffects,
    draws: Literal["client", "record"],
    unit: str = "",
    description: str = "",
) -> ColumnReport:
    """Return what is reported of one of a table's columns."""
    counts = cell_counts(published, effects.average, draws)
    level = 1 - _FALSE / columns
    return ColumnReport(
        reading,
        verdict,
        moved=moves(published, effects=effects, level=level, unit=unit),
        unlisted=unlisted(published, effects=effects, level=level),
        histogram=histogram(published, effects),
        figures=figures(published, effects),
        calibration=calibration(published, effects),
        counts=counts,
        unit=unit,
        description=description,
    )


def compared(plan: QueryPlan) -> Compared:
    """Return what a plan compared."""
    return Compared(
        domain=plan.reference.domain.fingerprint,
        reference=plan.reference.fingerprint,
        plan=plan.fingerprint,
        cells=plan.cells,
    )


def protection(
    published: NoisyCounts | NoisyLabels, trust: Trust, aggregation: str, *, hides_parts: bool
) -> Protection:
    """Return how a release was protected."""
    return Protection(
        trust=trust.name,
        aggregation=aggregation,
        mechanism=published.event.mechanism,
        private=published.private,
        noise=published.deviation,
        visibility=trust.visibility(hides_parts),
    )


def epsilon_delivered(event: Release) -> float:
    """Return the epsilon that a release's noise delivers, in nats."""
    return event.guarantee.epsilon if event.delivered is None else event.delivered


def metrics(report: Report) -> dict[str, Any]:
    """Return a report's ``kld.*`` metrics for Flower's Result."""
    reading, verdict, population = report.reading, report.verdict, report.reading.of_population
    values = {
        "kld.population": population and population.value,
        "kld.population_error": population and population.deviation,
        "kld.estimate": reading.estimate,
        "kld.error": reading.deviation,
        "kld.epsilon": report.guarantee.epsilon,
        "kld.delta": report.guarantee.delta,
        "kld.survivors": report.cohort.survivors,
        "kld.asked": report.cohort.asked,
        "kld.records": reading.records,
        "kld.seconds": report.cost.seconds,
        "kld.private": int(report.protection.private),
        "kld.lower_bound": report.lower_bound,
        "kld.upper_limit": report.upper_limit,
        "kld.outside": reading.outside and reading.outside.share,
        "kld.outside_lower": verdict and verdict.outside and verdict.outside.lower,
        "kld.drift": verdict and int(verdict.outcome is Outcome.DRIFT),
        "kld.epsilon_left": report.cost.left,
    }
    if report.is_table:
        values["kld.columns_drifted"] = len(drifted(report.columns))
    for name, column in report.columns.items() if report.is_table else ():
        of_population = column.reading.of_population
        values[f"kld.population.{name}"] = None if of_population is None else of_population.value
    return {name: value for name, value in values.items() if value is not None}
