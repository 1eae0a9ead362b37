"""Report of a description: each column by itself, and a reference made of the same release."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import ClassVar

import numpy as np

from flwr_kld.ask.plan import each_symbol
from flwr_kld.infer.contradictions import tail
from flwr_kld.infer.figures.fractions import Fraction
from flwr_kld.infer.figures.numbers import Figure, Quantile, Side
from flwr_kld.infer.figures.statistics import ColumnStatistics, NumberStatistics
from flwr_kld.infer.fraction_interval import Floats
from flwr_kld.kernel.arguments import instance, integer
from flwr_kld.reference import Reference
from flwr_kld.report.column import CellCounts
from flwr_kld.report.comparison import Comparison, Numbers
from flwr_kld.report.envelope import Envelope, OneClient, Protection
from flwr_kld.report.released_reference import ColumnCells, reference_of_cells
from flwr_kld.report.words import counted, in_digits, shown, when
from flwr_kld.table.base import Domain
from flwr_kld.table.binned import LEAST_POWER, Binned, quantile_levels
from flwr_kld.table.table import Table

_BY_CHANCE = 0.01
"""Probability with which noise alone makes a range of a column, at most, whatever its law."""
_MOST_NAMES = 6
"""Edges that a line names."""
_FREQUENT = 3
"""Symbols that a line names."""
_HALF = 0.5
_BEYOND = 0.04
"""Part of the values beyond the outer edges up to which a mean is given without it: twice that of
public rows, by which `Table.from_frame` chooses edges."""
_SHOWN = (0.1, _HALF, 0.9)
"""Levels of the deciles that a line shows."""
_CHANCE = 4.0
"""Standard deviations by which chance among new records moves a number, at most: of 10,000 numbers,
less than one is moved further."""
CAPTION = (
    "95 % intervals in brackets. Means and deciles of numbers come from counts between edges: "
    "their intervals hold wherever the numbers lie there. Numbers beyond the outer edges are "
    "clamped to the edge, or to the public mean beyond it"
)


@dataclass(frozen=True)
class DescribedColumn:
    """What is reported of one column."""

    place: int  # In the table, from 0
    statistics: ColumnStatistics
    counts: CellCounts  # What all of this follows from, symbol by symbol
    # The same of each group of the records, where the table is read by one (`Table(by=…)`)
    groups: dict[str, ColumnStatistics] = field(default_factory=dict)
    unit: str = ""  # What the data dictionary says of it: the unit of its numbers
    description: str = ""  # and what it holds

    @property
    def by_group(self) -> dict[str, ColumnStatistics]:
        """All records, under an empty name, and each group under a name that is not empty."""
        groups = {shown(group): own for group, own in self.groups.items()}
        return {"": self.statistics, **groups}


@dataclass(frozen=True, kw_only=True, repr=False)
class StatisticsReport(Envelope):
    """What clients' data look like. Everything in it is public.

    Parameters
    ----------
    whom : str
        Whom the numbers are about, in words: the records of the very clients that were asked, or
        the clients that they were drawn from.
    records : float
        Number of records that were counted; exact where single records are protected,
        else estimated.
    columns : dict[str, DescribedColumn]
        Each column by name, in the table's order.
    domain, reference : str
        Fingerprints of the domain, and of the reference that `as_reference` makes.
    protection : Protection
        How counts were protected.
    one_client : OneClient
        How much of the result a single client can be.
    started, guarantee, cohort, cost
        As in `Envelope`.

    Raises
    ------
    ValueError
        If there is no column.
    """

    kind: ClassVar[str] = "statistics"

    whom: str
    records: float
    columns: dict[str, DescribedColumn]
    domain: str
    reference: str
    protection: Protection
    one_client: OneClient

    def __post_init__(self) -> None:
        if not self.columns:
            raise ValueError("the report of statistics has at least one column")
        # files and databases keep no order of names
        columns = dict(sorted(self.columns.items(), key=lambda one: one[1].place))
        object.__setattr__(self, "columns", columns)

    def as_reference(self, domain: Domain) -> Reference:
        """Make a reference of what was released, at no further cost.

        Parameters
        ----------
        domain : Domain
            What was asked about.

        Returns
        -------
        Reference
            It keeps of how many independent records, and with which noise, it was counted, so that
            verdicts against it allow for both. 'Other' and 'missing' have mass where they stand out
            of the noise.

        Raises
        ------
        ValueError
            If it is another domain.
        """
        instance("domain", domain, Domain, "the Domain that clients were asked about")
        if domain.fingerprint != self.domain:
            raise ValueError(
                f"these statistics are of the domain {self.domain[:12]}, not of "
                f"{domain.fingerprint[:12]}: give that one"
            )
        counts = {name: column.counts for name, column in self.columns.items()}
        return reference_of_counts(domain, counts, self.records, self.protection.mechanism)

    def rebinned(self, table: Table, bins: int = 20) -> Table:
        """Cut the numbers of a table anew, between quantiles of what was released.

        What to do after a first look at numbers whose range nobody knows (`Binned.powers`). Bins
        whose counts do not stand out of the noise are taken to be empty, and values to lie evenly
        in theirs. No further cost.

        Parameters
        ----------
        table : Table
            What was asked about.
        bins : int
            Most bins of each column of numbers. Default 20.

        Returns
        -------
        Table
            The same, but for the edges. Its clients count anew: it is another question.

        Raises
        ------
        ValueError
            If it is another table, or one with scores, or no number of a column stands out.
        """
        instance("table", table, Table, "the Table that clients were asked about")
        if table.fingerprint != self.domain:
            raise ValueError("these statistics are of another table: give the one that was asked")
        if table.scores:
            raise ValueError("a score reads a table's bins: make new ones before it is fitted")
        bins = integer("bins", bins, least=2)
        cut = {
            name: Binned(_quantile_edges(name, own, self.columns[name].counts, bins))
            for name, own in table.features.items()
            if isinstance(own, Binned)
        }
        return replace(table, features={**table.features, **cut})

    def compare(self, earlier: StatisticsReport) -> Comparison:
        """Say what changed since an earlier description of the same table, at no further cost.

        Parameters
        ----------
        earlier : StatisticsReport
            The description before this one.

        Returns
        -------
        Comparison
            Every number that both have, and between which limits it changed.

        Raises
        ------
        ValueError
            If it is of another table.
        """
        instance("earlier", earlier, StatisticsReport, "the StatisticsReport before this one")
        if earlier.domain != self.domain:
            raise ValueError(
                f"the earlier description is of the table {earlier.domain[:12]}, this one of "
                f"{self.domain[:12]}: only two of the same table have the same numbers"
            )
        return Comparison.of(earlier._described, self._described, earlier._numbers, self._numbers)

    @property
    def _described(self) -> str:
        return f"{when(self.started)} UTC, {self.records:,.0f} records, about {self.whom}"

    @property
    def _numbers(self) -> Numbers:
        """Fractions and means of each column and group, with limits that allow for chance."""
        found: dict[tuple[str, str, str], tuple[float, float, float]] = {}
        for name, column in self.columns.items():
            for group, own in column.by_group.items():
                chance = 0.0  # the limits of drawn clients allow for it
                if column.counts.draws == "record":
                    chance = _CHANCE / math.sqrt(max(own.count.value, 1.0))
                for what, one in numbers_of(own):
                    if isinstance(one, Fraction):
                        part = min(max(0.5, one.low), one.high)
                        reach = chance * math.sqrt(part * (1 - part))
                    elif what == "mean" and own.numbers and not own.drowned(own.numbers.mean):
                        reach = chance * own.numbers.deviation.high
                    else:
                        continue
                    found[name, group, what] = one.value, one.low - reach, one.high + reach
        return found

    @property
    def summary(self) -> str:
        """What was described, in one line."""
        return (
            f"Description of {counted(len(self.columns), 'column')} of "
            f"{counted(self.cohort.survivors, 'client')}. Nothing was compared."
        )


def _quantile_edges(name: str, domain: Binned, counts: CellCounts, bins: int) -> list[float]:
    """Return edges between which equally many of the records lie, in short numbers."""
    held = np.array(counts.values[: len(domain.edges) + 1], dtype=np.float64)
    held[held < tail(counts.noise) * math.log(len(held) / _BY_CHANCE)] = 0
    if not held.any():
        raise ValueError(
            f"no bin of {name!r} has more records than the noise explains: ask more clients, or "
            "spend more"
        )
    edges = np.array(domain.edges)
    within = np.interp(
        quantile_levels(bins), np.cumsum(held) / held.sum(), np.append(edges, edges[-1])
    )
    within = np.where((within > 0) & (within < LEAST_POWER), LEAST_POWER, within)  # zeros
    return _short(np.unique(within))


def _short(edges: Floats) -> list[float]:
    """Round edges to three digits, or where these are too few, to a tenth of the narrower bin."""
    widths = np.append(np.diff(edges), np.inf)
    narrower = np.minimum(widths, np.roll(widths, 1))
    with np.errstate(divide="ignore"):
        places = np.maximum(1 - np.floor(np.log10(narrower)), 2 - np.floor(np.log10(abs(edges))))
    return [
        round(edge, int(own)) if math.isfinite(own) else edge
        for edge, own in zip(edges.tolist(), places.tolist(), strict=True)
    ]


def reference_of_counts(
    domain: Domain, counts: Mapping[str, CellCounts], records: float, mechanism: str
) -> Reference:
    """Make a reference of counts of every symbol of a domain's columns."""
    own = each_symbol(domain).reference.columns
    if counts.keys() != own.keys():
        raise ValueError("the report's columns are not those of the domain: take the ledger's own")
    return reference_of_cells(
        domain,
        (
            ColumnCells(
                prior,
                np.arange(prior.domain.size, dtype=np.int32),
                np.array(counts[name].values),
                mechanism,
                counts[name].noise,
                records,
                counts[name].design_effect or 1.0,
            )
            for name, prior in own.items()
        ),
    )


def description_rows(columns: Mapping[str, DescribedColumn]) -> Iterator[tuple[str, ...]]:
    """Yield a row for each column and group: its name, its values, the others, what they are."""
    for name, column in columns.items():
        heading = f"{shown(name)} ({column.unit})" if column.unit else shown(name)
        for group, own in column.by_group.items():
            others = ", ".join(map(frequent, own.unlisted))
            title = f"  {group}" if group else heading
            cut = [] if group or own.numbers is None else [_edges(own.numbers)]
            yield title, _records(own.count), others, "; ".join([*what(own), *cut])


def _edges(numbers: NumberStatistics) -> str:
    """Say between which edges the numbers of a column were counted."""
    edges = [f"{edge:.6g}" for edge in numbers.edges]
    if len(edges) > _MOST_NAMES:
        return f"{len(edges)} edges from {edges[0]} to {edges[-1]}"
    return f"edges {', '.join(edges)}"


def _records(count: Figure) -> str:
    """Write a number of records with its interval: ``985 (960–1,000)``."""
    value, *ends = (f"{one:,.0f}" for one in (count.value, count.low, count.high))
    return value if {value} == set(ends) else f"{value} ({'–'.join(ends)})"


def numbers_of(own: ColumnStatistics) -> Iterator[tuple[str, Figure | Fraction | Quantile]]:
    """Yield every number of a column by its name, with its interval."""
    yield "values", own.count
    for one in (*own.unlisted, *own.histogram):
        yield f"fraction {one.name}", one
    if own.numbers is not None:
        yield "mean", own.numbers.mean
        yield "s.d.", own.numbers.deviation
        for quantile in own.numbers.quantiles:
            yield f"quantile {quantile.level:g}", quantile


def what(column: ColumnStatistics) -> Iterator[str]:
    """Yield in words what the values of a column are."""
    if column.histogram and not column.count.low > 0:
        yield "no more values than the noise explains"
        return
    if column.numbers is not None:
        yield from _numbers(column, column.numbers)
        return
    more = len(column.histogram) - _FREQUENT
    others = [f"{more:,} more"] if more > 0 else []
    yield ", ".join([*map(frequent, column.most_frequent(_FREQUENT)), *others])


def _numbers(column: ColumnStatistics, numbers: NumberStatistics) -> Iterator[str]:
    moments = {"mean": numbers.mean, "s.d.": numbers.deviation}
    drowned = [name for name, one in moments.items() if column.drowned(one)]
    shown = [f"{name} {within(one)}" for name, one in moments.items() if name not in drowned]
    beyond = column.histogram[0].value + column.histogram[-1].value
    if shown and beyond > _BEYOND:
        yield f"{' and '.join(shown)} with {100 * beyond:.2g} % of the values clamped to the edges"
    else:
        yield from shown
    if drowned:
        yield f"hidden by noise in bins far out: {' and '.join(drowned)}"
    yield from (_decile(one) for one in numbers.quantiles if one.level in _SHOWN)


def _decile(one: Quantile) -> str:
    """Write a quantile with its interval: ``median 53 (49 to 58)``, ``90th percentile ≥ 75``."""
    words: dict[Side | None, str] = {"below": "< ", "above": "≥ ", None: ""}
    value, low, high = in_digits(one.value, one.low, one.high)
    name = "median" if one.level == _HALF else f"{100 * one.level:.0f}th percentile"
    limit = f"{name} {words[one.beyond]}{value}"
    if one.low == one.high and one.low_beyond == one.high_beyond:
        return limit
    return f"{limit} ({words[one.low_beyond]}{low} to {words[one.high_beyond]}{high})"


def within(figure: Figure) -> str:
    """Write a number with its interval: ``12.6 (12.1 to 13.4)``."""
    value, low, high = in_digits(figure.value, figure.low, figure.high)
    return f"{value} ({low} to {high})"


def frequent(one: Fraction) -> str:
    """Write a symbol with its fraction of the records: ``JFK 33.0 % (32.9–33.1)``."""
    value, low, high = in_digits(100 * one.value, 100 * one.low, 100 * one.high)
    return f"{shown(one.name)} {value} % ({low}–{high})"
