"""Builds the parts of a statistics report: each column by itself, from one exchange."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from flwr_kld.ask.noisy import NoisyCounts
from flwr_kld.infer.estimators.design_effect import DesignEffects
from flwr_kld.infer.figures.groups import counts_by
from flwr_kld.infer.figures.statistics import ColumnStatistics, column_statistics
from flwr_kld.infer.one_thread import one_thread
from flwr_kld.reference import Reference
from flwr_kld.report.cohort_release import CohortRelease
from flwr_kld.report.column import CellCounts
from flwr_kld.report.statistics_report import DescribedColumn, reference_of_counts
from flwr_kld.table.base import Domain
from flwr_kld.table.rounded import RoundedNumbers
from flwr_kld.table.rounded_table import own_domain
from flwr_kld.table.table import Table


@one_thread()
def described(measured: CohortRelease) -> dict[str, DescribedColumn]:
    """Describe each column of what was released, in the table's order."""
    of_column = measured.columns
    table = measured.published.plan.reference.domain
    units, descriptions = (
        (table.units, table.descriptions) if isinstance(table, Table) else ({}, {})
    )
    found = {}
    for place, (name, one) in enumerate(of_column.items()):
        counts = one.published
        effects = one.effects
        kept = CellCounts(
            *_of_symbols(counts),
            effects.average,
            "client" if measured.asked.drawn else "record",
        )
        found[name] = DescribedColumn(
            place,
            _statistics(one, counts, effects),
            kept,
            _groups(name, of_column, table),
            units.get(name, ""),
            descriptions.get(name, ""),
        )
    return found


def _of_symbols(counts: NoisyCounts) -> tuple[tuple[int, ...], float]:
    """Return the count of each symbol of the column's own domain, and the most noise in one."""
    domain, values = counts.plan.reference.domain, counts.values[counts.plan.cell_of]
    cells = 1
    if isinstance(domain, RoundedNumbers):
        cells = domain.intervals + 1
        values = np.add.reduceat(values, np.unique(domain.bin_of, return_index=True)[1])
    return tuple(values.tolist()), math.sqrt(cells * counts.noise.variance)


def _groups(
    name: str, of_column: Mapping[str, CohortRelease], table: Domain
) -> dict[str, ColumnStatistics]:
    """Describe each group of the records in a column that is read by one."""
    if not isinstance(table, Table) or table.by is None or name not in table.by_group:
        return {}
    measured = of_column[name]
    effects = measured.effects_within(of_column[table.by].published)
    records = measured.published.records
    return {
        group: _statistics(measured, counts, effects.of_part(counts.records / records))
        for group, counts in counts_by(measured.published, table.by)
    }


def _statistics(
    measured: CohortRelease, counts: NoisyCounts, effects: DesignEffects
) -> ColumnStatistics:
    if not measured.asked.drawn:  # what was counted is not a sample of itself
        effects = DesignEffects(0.0)
    return column_statistics(counts, effects)


def reference_of(measured: CohortRelease, columns: Mapping[str, DescribedColumn]) -> Reference:
    """Make a reference of the same release."""
    published = measured.published
    return reference_of_counts(
        own_domain(published.plan.reference.domain),
        {name: column.counts for name, column in columns.items()},
        published.records,
        published.event.mechanism,
    )
