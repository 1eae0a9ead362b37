"""Is it this node? Its own records beside the reference and a published report, on the node alone.

The node takes its own counts off those that were published: what is left is the other nodes', with
the release's noise. A column that drifted, or is suspected, did so by this node if its records
moved at least twice as far as the others', towards what the published counts have more of than the
reference.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from flwr_kld.ask.plan import HEAD, QueryPlan, cells_by_symbol
from flwr_kld.common.report_views import Viewed
from flwr_kld.infer.cell_fractions import in_cells
from flwr_kld.infer.estimators.score import THETA, score
from flwr_kld.reference import Reference
from flwr_kld.report.column import ColumnReport
from flwr_kld.report.explanation import cell_name, only_symbol
from flwr_kld.report.report import Report
from flwr_kld.report.summary import MOST_WORDS, words_in
from flwr_kld.report.words import brief, counted, in_digits
from flwr_kld.table.base import Symbols
from flwr_kld.table.binned import Binned

_TIMES = 2.0
"""Of a column where half of the nodes changed alike, each of these is named, and no other."""
_CHANCE = 4.0
"""Standard deviations, and records, beyond which a change is not one of chance."""
_MOST_RECORDS = 2.0**53
"""That a report can count in float64."""
_CUTS = 200
"""Edges of a column of numbers at which a sentence may cut it."""
_HERE = ("yes", "only here")
"""Answers yes, about what moved in this node's records; others are about what was published."""

Floats = NDArray[np.float64]


@dataclass(frozen=True, repr=False)
class OwnColumn:
    """One column of this node. Private: exact numbers of its records."""

    answer: str  # "yes", "no", "as elsewhere", "only here", "unknown"; "" where nothing moved
    records: str  # Which records the fractions are of, in the domain's words
    own: float  # Their fraction of this node's records, of the reference, and of the other nodes'
    reference: float
    elsewhere: float | None  # By the published counts; None if the report has none
    elsewhere_low: float | None  # 95 % interval of this, for the noise in those
    elsewhere_high: float | None
    divergence: float  # D_θ of this node's records, in nats

    @property
    def others(self) -> tuple[str, str, str] | None:
        """Write what they have elsewhere in percent, and the ends of its interval."""
        ends = self.elsewhere, self.elsewhere_low, self.elsewhere_high
        known = [100 * one for one in ends if one is not None]
        return in_digits(known[0], known[1], known[2]) if known else None


@dataclass(frozen=True, repr=False)
class NodeComparison(Viewed):
    """A node's records beside a published report. Private: nothing of it may leave the node."""

    about: str  # Which check, and of how many of this node's records
    columns: Mapping[str, OwnColumn]  # By name, in the report's order

    def __repr__(self) -> str:
        return f"{type(self).__name__}(<private>)"

    def __reduce__(self) -> NoReturn:
        raise TypeError(f"a {type(self).__name__} is private and must not be pickled or copied")

    @classmethod
    def of(cls, report: Report, reference: Reference, symbols: Symbols) -> NodeComparison:
        """Compare a node's encoded records; `ValueError` if they or the report do not fit.

        Parameters
        ----------
        report : Report
            As it was published. It may be anybody's: what it says is held against the reference.
        reference : Reference
            That the check compared with.
        symbols : Symbols
            What the reference's domain encodes of this node's records, of the check's period.
        """
        if report.compared.reference != reference.fingerprint:
            raise ValueError(
                f"the report is of a check against the reference {report.compared.reference[:12]!r}"
                f", and this one is {reference.fingerprint[:12]}: give the one that was checked"
            )
        if report.columns.keys() != reference.columns.keys():
            raise ValueError("the report has other columns than its reference: it is forged")
        if not len(symbols):
            raise ValueError("this node has no records that the check counts: nothing to compare")
        rows = symbols.reshape(len(symbols), reference.domain.per_record).T
        parts = zip(reference.columns.items(), reference.domain.parts, rows, strict=True)
        columns, most = {}, report.one_client.most_records
        for (name, own), part, row in parts:
            held = np.bincount(row - part.start, minlength=own.domain.size)
            columns[name] = _Column(own, held, report.columns[name], most).compared()
        records = counted(len(symbols), "record")
        about = f"Check of {began_at(report):%Y-%m-%d %H:%M} UTC, and {records} of this node"
        return cls(about, {name: columns[name] for name in report.columns})

    @property
    def answer(self) -> str:
        """Return ``"yes"``, ``"no"``, or ``"unknown"``."""
        found = {one.answer for one in self.columns.values()}
        if found & {*_HERE}:
            return "yes"
        return "unknown" if "unknown" in found else "no"

    @property
    def summary(self) -> str:
        """The answer, of which columns, and what moved, in at most 25 words."""
        line, *more = self._sentences()
        for sentence in more:
            if words_in(f"{line} {sentence}") <= MOST_WORDS:
                line = f"{line} {sentence}"
        return line

    def _sentences(self) -> Iterator[str]:
        named = dict[str, list[str]]()
        for name, one in self.columns.items():
            named.setdefault(one.answer, []).append(name)
        if self.answer == "unknown":
            yield f"Unknown: the report has no counts of {_some(named['unknown'])} to compare with."
            return
        for answer, words in (
            ("yes", "Yes: {}."),
            ("only here", "Yes: {} moved here alone, too little for a drift of all nodes."),
            ("no", "No: {} moved, and not by this node."),
            ("as elsewhere", "No: {} moved here as elsewhere."),
        ):
            if names := named.get(answer):
                yield words.format(_some(names))
                yield self._shares(names[0])
                return
        yield "No: the report shows no drift, and nothing has moved here."

    def _shares(self, name: str) -> str:
        one = self.columns[name]
        beside = f"{percent(one.reference)} in the reference"
        if one.others is not None:
            beside = f"{'–'.join(one.others[1:])} % elsewhere"
        return f"{percent(one.own)} of this node's records are {brief(one.records)}, {beside}."

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-able form."""
        columns = {name: asdict(one) for name, one in self.columns.items()}
        return {"answer": self.answer, "about": self.about, "columns": columns}


def began_at(report: Report) -> datetime:
    """Return when a check began, in UTC; `ValueError` where its report does not say."""
    try:
        began = datetime.fromisoformat(report.started)
        if began.tzinfo is not None:  # or this machine's zone would be taken
            return began.astimezone(UTC)
    except (ValueError, OverflowError):
        pass
    raise ValueError("the report does not say when its check began, with its time zone")


_DIGITS = 20
"""Of a moment in nanoseconds since 1970, in a file's name."""


def stored_at(folder: Path, reference: str, answered: int) -> Path:
    """Return where a node stores the report of a check that it answered at a moment, by its clock.

    Names are in the order of these moments.
    """
    return folder / f"{reference}.{answered:0{_DIGITS}}.json"


def stored_in(folder: Path, reference: str) -> list[Path]:
    """Return the reports that a node has stored of checks against a reference, the newest last."""
    return sorted(folder.glob(f"{reference}.{_DIGITS * '[0-9]'}.json"))


def to_return(report: Report) -> Report:
    """Return what nodes get of a report: nothing that is about another client alone.

    Who refused and why, how many records the largest client has, and the evidence, which says that
    too, are left out: a comparison needs none of them.
    """
    one, most = report.one_client, report.one_client.most_records
    if one.name is not None:
        share = min(most / report.reading.records, 1.0) if most else None
        one = replace(one, share=share, name=None)
    cohort = replace(report.cohort, dropouts={})
    return replace(report, cohort=cohort, one_client=one, evidence=None)


def percent(share: float) -> str:
    """Write an exact fraction."""
    return f"{100 * share:.3g} %"


def _some(names: list[str]) -> str:
    more = f" and {len(names) - 1} more columns" if len(names) > 1 else ""
    return f"{brief(names[0])}{more}"


class _Column:
    """Counts of one column: this node's, the reference's fractions, and what was published."""

    def __init__(
        self, own: Reference, held: NDArray[np.int64], column: ColumnReport, most: int | None
    ) -> None:
        cells = cells_by_symbol(own)
        one = np.ones(int(cells.max()) + 1)
        self._plan = QueryPlan(own, cells, 0 * one, one, np.full(len(one), HEAD))
        self._column, self._held, self._records = column, held, int(held.sum())
        self._own: Floats = np.bincount(cells, held, len(one)) / self._records
        self._published = self._elsewhere = None
        if column.counts is None:
            return
        self._noise = _number(column.counts.noise, 0.0)
        total = _number(column.reading.records, 1.0)
        if len(column.counts.values) != len(one):
            raise ValueError("the report has another number of counts than its reference: forged")
        published = np.array([_number(n, -_MOST_RECORDS) for n in column.counts.values])
        self._published = published / total
        # Of drawn clients, this node may be none.
        mine = self._records if not most else min(self._records, abs(most))
        self._mine = mine * (not column.reading.drawn)
        self._others = total - self._mine
        if self._others >= 1:
            self._elsewhere = (published - self._mine * self._own) / self._others

    def compared(self) -> OwnColumn:
        """Return what this node's records say of the column."""
        answer, p = self._answer(), self._plan.mass
        moved = self._own if self._published is None or answer in _HERE else self._published
        records, group, tried = self._largest(moved - p)
        others, low, high = self._others_in(group, tried)
        own, reference = float(group @ self._own), float(group @ p)
        return OwnColumn(answer, records, own, reference, others, low, high, self._divergence)

    def _others_in(
        self, group: Floats, tried: int
    ) -> tuple[float, float, float] | tuple[None, None, None]:
        """Return the other nodes' fraction of cells, and its interval for the noise.

        It holds of each of so many that were tried, as the noise is part of why these were taken.
        """
        if self._elsewhere is None:
            return None, None, None
        share = float(group @ self._elsewhere)
        # Of all records, too, if their number is noised; and of which records were counted here.
        cells = max(float(group.sum()), float(((group - share) ** 2).sum()))
        own = float(group @ self._own)
        drawn = self._mine * own * (1 - own) if self._mine < self._records else 0.0
        # The heaviest tails that noise has are Laplace's.
        far = math.log(20 * tried) / math.sqrt(2)
        reach = math.ceil(far * math.sqrt(self._noise**2 * cells + drawn)) / self._others
        value, low, high = np.clip([share, share - reach, share + reach], 0, 1).tolist()
        return value, low, high

    @property
    def _divergence(self) -> float:
        p, inside = self._plan.mass, self._plan.mass > 0
        return float(p[inside] @ score(self._own[inside] / p[inside], THETA))

    def _answer(self) -> str:
        """Say whether the column drifted by this node's records, or moved in them alone."""
        verdict, p = self._column.verdict, self._plan.mass
        if verdict is None:
            return ""
        if not self._column.drifted and not verdict.suspected:
            if self._divergence <= verdict.threshold or not self._differs:
                return ""
            if self._published is not None:
                return "only here" if self._moved(self._own > p) else "as elsewhere"
        if self._published is None:
            return "unknown"
        grew = self._published > p
        if self._moved(grew):
            return "yes"
        return "as elsewhere" if self._moved(grew, 1 / _TIMES) else "no"

    @property
    def _differs(self) -> bool:
        """Whether these records are none of the reference's, beyond chance."""
        # Of symbols and not of cells, one of which has whatever a sampled reference missed.
        own, p, rows = self._held, self._plan.reference.probabilities, self._plan.reference.records
        if rows is None:  # p is no sample: as good as one that is a thousand times as large
            rows = 1000.0 * self._records
            if own[p == 0].sum() > _CHANCE:
                return True
            own, p = own[p > 0], p[p > 0]
        both, part = own + rows * p, self._records / (self._records + rows)
        own, both = own[both > 0], both[both > 0]
        # The chi-squared statistic of two samples; by how much it varies holds of rare ones, too.
        spread = both * part * (1 - part)
        statistic = ((own - part * both) ** 2 / spread).sum()
        variance = (2 + (1 - 6 * part * (1 - part)) / spread).sum()
        return bool(statistic - (len(both) - 1) > _CHANCE * math.sqrt(variance))

    def _moved(self, grew: NDArray[np.bool_], times: float = _TIMES) -> bool:
        """Whether these cells grew here, beyond chance, by so many times as much as elsewhere."""
        expected, records = float(self._plan.mass[grew].sum()), self._records
        own = float(self._own[grew].sum()) - expected
        variance = (
            expected
            * (1 - expected)
            * (1 / records + 1 / (self._plan.reference.records or math.inf))
        )
        sure = own > _CHANCE * (math.sqrt(max(variance, 0.0)) + 1 / records)
        if self._elsewhere is None:
            return sure
        return sure and own >= times * (float(self._elsewhere[grew].sum()) - expected)

    def _largest(self, change: Floats) -> tuple[str, Floats, int]:
        """Return the name of the records that grew most, their cells, and how many were tried.

        They are those of a cell, or on a side of a cut.
        """
        plan, domain, group = self._plan, self._plan.reference.domain, np.zeros(len(change))
        cell = int(change.argmax())
        group[cell] = 1.0
        name = cell_name(plan, cell, int(only_symbol(plan)[cell]))
        if not isinstance(domain, Binned):
            return name, group, len(change)
        symbols, last = np.arange(domain.size), len(domain.edges)
        cuts = np.linspace(0, last - 1, min(last, _CUTS)).round().astype(int)
        below = symbols <= cuts[:, None]
        sides = in_cells(plan, np.vstack([below, ~below & (symbols <= last)]))
        sides[((sides > 0) & (sides < 1)).any(axis=1)] = 0  # no cut divides a cell
        best = int((sides @ change).argmax())
        tried = len(change) + len(sides)
        if sides[best] @ change < group @ change:
            return name, group, tried
        side, cut = divmod(best, len(cuts))
        edge = repr(domain.edges[cuts[cut]]).removesuffix(".0")
        return f"{edge} and over" if side else f"below {edge}", sides[best], tried


def _number(value: float, least: float) -> float:
    """Return a published number of records; `ValueError` if no check counts so many."""
    if not least <= value <= _MOST_RECORDS:
        raise ValueError("the report counts a number of records that no check counts: it is forged")
    return float(value)
