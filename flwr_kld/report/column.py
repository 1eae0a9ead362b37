"""Report of one column: what the published numbers show, and what was decided."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Literal

from rich.table import Table

from flwr_kld.infer.decision import ranked
from flwr_kld.infer.estimators.result import ErrorSplit
from flwr_kld.infer.figures.calibration import Calibration
from flwr_kld.infer.figures.figures import Figures
from flwr_kld.infer.figures.numbers import Figure
from flwr_kld.infer.outside import OutsideFraction
from flwr_kld.infer.verdict import Cause, Outcome, Verdict
from flwr_kld.report.words import in_digits, shortened, shown, table_of


@dataclass(frozen=True)
class Estimated:
    """An estimate of KL(reference || clients), and whose it is."""

    # Of those whom the cohort was drawn from, or of the counted records themselves
    of: Literal["population", "cohort"]
    whose: str  # The same in this check's words
    value: float  # In nats; one standard deviation
    deviation: float

    def __str__(self) -> str:
        return f"{max(self.value, 0.0):z.3f} ± {self.deviation:.3f}"  # by noise below 0


@dataclass(frozen=True)
class Reading:
    """What the published numbers say, by post-processing alone."""

    # Of the counted records' own ``D_θ = KL(Π || (1 - θ) P + θ Π)``, in nats; θ is 0.01
    estimate: float
    error: ErrorSplit  # Its standard deviations in nats, by cause
    # Number of records that the estimate is about. Exact where single records are protected,
    # otherwise estimated or the public normaliser.
    records: float
    note: str | None = None  # What a reader must know about this check, if anything
    # Estimated fraction of records where the reference has no mass, and what they are. None if it
    # has some everywhere, or the release does not tell.
    outside: OutsideFraction | None = None
    # The divergence of the distribution that the cohort's records were drawn from, and its standard
    # deviation, in nats; None where nothing tells
    population_estimate: float | None = None
    population_deviation: float | None = None
    # Population and cohort in words: ``"the clients that these 200 were drawn from"``, ``"these 200
    # clients"``
    drawn_from: str | None = None
    counted: str | None = None

    @property
    def drawn(self) -> bool:
        """Whether the clients were drawn from more, about whom estimates are."""
        return self.drawn_from != self.counted

    @property
    def of_population(self) -> Estimated | None:
        """The population's divergence, if it was estimated."""
        whose = self.drawn_from or "the clients that the cohort was drawn from"
        if self.population_estimate is None or self.population_deviation is None:
            return None
        return Estimated("population", whose, self.population_estimate, self.population_deviation)

    @property
    def of_cohort(self) -> Estimated:
        """The counted records' own divergence."""
        whose = self.counted or "the clients that were asked"
        return Estimated("cohort", whose, self.estimate, self.deviation)

    @property
    def estimates(self) -> tuple[Estimated, ...]:
        """Of whom people see an estimate: of the cohort last, and only if it was drawn."""
        if self.drawn and self.of_population is not None:
            return self.of_population, self.of_cohort
        return (self.headline,)

    @property
    def headline(self) -> Estimated:
        """What people see first: the population's estimate, else the cohort's."""
        return self.of_population or self.of_cohort

    @property
    def deviation(self) -> float:
        """Standard deviation of `estimate`, in nats."""
        return self.error.total


_POINTS, _DIGITS = 5.0, 3
"""Change, in percentage points, from which on no decimals are written; and the most of these."""
_LONGEST = 40
"""Characters of a value's name."""
_LITTLE = 0.01
"""Fraction of the records whose change is not worth a word."""


@dataclass(frozen=True)
class Move:
    """One thing that moved in a column. Everything in it is public."""

    name: str  # Which records, in the domain's words: ``"below 82"``, ``"rain"``, ``"missing"``
    reference: float  # Their fraction in the reference, in [0, 1]
    clients: float  # and among the clients, an estimate, with the ends of its interval
    low: float
    high: float
    # Fraction of the records that moved, at least: a reference that was counted may err, too
    least: float
    unknown: bool = False  # Whether the reference has none of them

    @property
    def interval(self) -> str:
        """Write the ends: ``44–52 %``."""
        return f"{self._percent(self.low)}–{self._percent(self.high)} %"

    def _percent(self, share: float) -> str:
        """Write a fraction with as many digits as the change needs."""
        points = 100 * abs(self.clients - self.reference)
        digits = 1 - math.floor(math.log10(max(points, 1e-9)))
        return f"{100 * share:.{0 if points >= _POINTS else min(digits, _DIGITS)}f}"

    def __str__(self) -> str:
        name = shortened(shown(self.name), _LONGEST)
        return f"{name}: {self._percent(self.reference)} % → {self._percent(self.clients)} %"


class Decided:
    """What a check and each of its columns say first."""

    reading: Reading
    verdict: Verdict | None

    @property
    def outcome(self) -> Outcome | None:
        """The decision's outcome, if one was made."""
        return None if self.verdict is None else self.verdict.outcome

    @property
    def drifted(self) -> bool:
        """Whether the decision was drift; False is not "no drift": see `outcome`."""
        return self.outcome is Outcome.DRIFT

    @property
    def estimate(self) -> Estimated:
        """The population's estimate, else the cohort's; of a table, its first column's."""
        return self.reading.headline


@dataclass(frozen=True)
class ColumnReport(Decided):
    """One column of a table."""

    reading: Reading  # What the published numbers say of it
    verdict: Verdict | None = None  # The decision on it; None if no threshold was given
    # What moved most in it; empty if nothing moved beyond chance, in any column with probability
    # 95 %
    moved: tuple[Move, ...] = ()
    # Fraction of the records that the column does not list, if so many that it shows little else
    unlisted: float | None = None
    histogram: Histogram | None = None  # The clients' fractions beside the reference's
    # How far the two lie apart, as other tools measure it. Like the histogram, None where there are
    # no counts, or too much noise in them for an estimate.
    figures: Figures | None = None
    # Of a pair of columns that are a prediction and its outcome: how well they fit
    calibration: Calibration | None = None
    # The numbers that all of this follows from; None where symbols shared cells
    counts: CellCounts | None = None
    # What the data dictionary says of it: the unit of its numbers, and what it holds
    unit: str = ""
    description: str = ""

    @property
    def has_moved(self) -> bool:
        """Whether something moved beyond chance: it has a sentence, or many records changed."""
        return bool(self.moved) or (self.changed is not None and self.changed.low > _LITTLE)

    @property
    def sentence(self) -> str | None:
        """What moved most in it: ``"below 82: 17 % → 24 %"``."""
        parts = list(map(str, self.moved))
        if self.unlisted is not None:
            unlisted = f"{100 * min(self.unlisted, 1):.0f} %"
            parts.append(f"blind, as it lists no value of {unlisted} of the records")
        return "; ".join(parts) or None

    @property
    def changed(self) -> Figure | None:
        """Fraction of the records that would have to be others: total variation, in [0, 1].

        At least what each of its moves comes to, which may stand out of the noise more clearly.
        Where all clients were asked, also what is outside the reference, once it is more than is
        tolerated: that allows for what a reference that was counted has not seen.
        """
        if self.figures is None:
            return None
        found = self.figures.total_variation
        value = max([found.value, *(abs(one.clients - one.reference) for one in self.moved)])
        low = max([found.low, *(one.least for one in self.moved)])
        # These limits hold for the asked clients, the others for whom they were drawn from.
        limits = None if self.verdict is None or self.reading.drawn else self.verdict.outside
        high, outside = found.high, self.reading.outside
        if outside is not None and limits is not None and limits.lower > limits.tolerated:
            value, high = max(value, outside.share), max(high, limits.upper)
            low = max(low, limits.lower - limits.tolerated)
        return replace(found, value=value, low=low, high=max(high, value))


def in_rank(columns: Mapping[str, ColumnReport]) -> dict[str, ColumnReport]:
    """Sort columns by outcome and lower bound, or by estimate where nothing was decided."""
    verdicts = {name: one.verdict for name, one in columns.items() if one.verdict is not None}
    others = sorted(
        columns.keys() - verdicts.keys(), key=lambda n: (-columns[n].reading.headline.value, n)
    )
    return {name: columns[name] for name in (*ranked(verdicts), *others)}


MARKS = {
    Outcome.DRIFT: "▲",
    Outcome.INCONCLUSIVE: "?",
    Outcome.NO_ALARM: "○",
    Outcome.NO_DRIFT: "✓",
    None: "–",
}
"""Shapes that say what colours say, too."""


def word_of(verdict: Verdict | None) -> str:
    """Say in a word how it ended: as the first line of a report does."""
    if verdict is None:
        return "not judged"
    return "suspected" if verdict.suspected else str(verdict.outcome)


_MOST = 20
"""Columns that a terminal shows, unless more have drifted."""


def drifted(columns: Mapping[str, ColumnReport]) -> list[str]:
    """Names of the columns that have drifted, in their order."""
    return [name for name, column in columns.items() if column.outcome is Outcome.DRIFT]


def columns_table(columns: Mapping[str, ColumnReport]) -> Table:
    """Return a table for a terminal: outcome, records that would have to be others, what moved."""
    most = max(_MOST, len(drifted(columns)))
    heads = ("column", "outcome", "changed", "what moved")
    return table_of(
        heads,
        ((_cells(name, column), column.drifted) for name, column in list(columns.items())[:most]),
        left=heads,
        caption=_caption(list(columns.values()), most),
    )


def _cells(name: str, column: ColumnReport) -> Iterator[str]:
    yield f"{shown(name)} ({column.unit})" if column.unit else shown(name)
    yield f"{MARKS[column.outcome]} {word_of(column.verdict)}"
    yield "–" if column.changed is None else share(column.changed)[1]
    yield column.sentence or not_excluded(column)


def not_excluded(column: ColumnReport) -> str:
    """Say what is not excluded where few records can have changed, but D may be much."""
    verdict, changed = column.verdict, column.changed
    if verdict is None or changed is None or verdict.cause not in (Cause.FORECAST, Cause.LIMITS):
        return ""
    if verdict.outcome is Outcome.NO_DRIFT:
        return ""
    # Pinsker's inequality is nearly an equation unless values vanish.
    usual = 2 * changed.high**2
    return (
        "nothing seen; rare values may be gone"
        if usual < verdict.alarm.excluded(verdict.threshold)
        else ""
    )


def share(figure: Figure) -> tuple[str, str, str]:
    """Write a fraction of the records, the same with its interval, and the upper end alone."""
    ends = max(figure.low, 0.0), min(figure.high, 1.0)
    value, low, high = in_digits(100 * figure.value, 100 * ends[0], 100 * ends[1])
    return f"{value} %", f"{value} % ({low} to {high})", f"{high} %"


def _caption(columns: list[ColumnReport], most: int) -> str:
    whose, moved = "records", ""
    if any(one.reading.drawn for one in columns):
        whose, moved = "population's records", " What moved is of the drawn clients' records."
    words = (
        f"changed: how many of the {whose} would have to change to match the reference, with a "
        f"95 % interval.{moved} Outcomes go by the divergence D in the details, to which values "
        "that vanish or appear matter more"
    )
    if others := columns[most:]:
        ends = Counter(word_of(column.verdict) for column in others)
        counts = ", ".join(f"{number} {outcome}" for outcome, number in ends.items())
        words += f"; {len(others)} more columns: {counts}"
    return words


@dataclass(frozen=True)
class CellCounts:
    """A column's counts as they were released. Everything in it is public."""

    # In records: of each symbol that the reference has, in the domain's order, then of each cell
    # outside it
    values: tuple[int, ...]
    noise: float  # Standard deviation of the noise in each, in records
    # Variance over that of as many independent records, as the check told it; None if nothing did
    design_effect: float | None
    # What is taken for a draw: a client of a population, or each record of these very clients
    draws: Literal["client", "record"]


@dataclass(frozen=True)
class Histogram:
    """Fractions of the records by cell, in the domain's order. Everything in it is public."""

    # The cells in the domain's words, such as ``"[82, 100)"``. Of more than `MOST` cells,
    # neighbouring bins are one bar, and so are the labels that moved least.
    names: tuple[str, ...]
    # Fractions that the reference expects, and estimated ones, in [0, 1]
    reference: tuple[float, ...]
    clients: tuple[float, ...]
    low: tuple[float, ...]  # 95 % intervals of these, which hold all at once
    high: tuple[float, ...]

    @property
    def bars(self) -> Iterator[tuple[str, float, float, float, float]]:
        """Name, the reference's fraction, the clients' fraction and its limits of each bar."""
        return zip(self.names, self.reference, self.clients, self.low, self.high, strict=True)
