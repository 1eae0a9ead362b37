"""What a check says: the estimate, what it rests on, and what it cost."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from html import escape
from importlib import import_module
from pathlib import Path
from typing import Any, ClassVar

from flwr_kld.inference.verdict import Outcome, Verdict
from flwr_kld.report.column_report import ColumnReport, in_rank
from flwr_kld.report.columns_table import columns_text
from flwr_kld.report.envelope import Envelope, Protection
from flwr_kld.report.one_client import OneClient
from flwr_kld.report.reading import Estimated, Reading


@dataclass(frozen=True)
class Compared:
    """What a check compared."""

    domain: str  # Fingerprints
    reference: str
    plan: str
    cells: int  # Length of the count vector


@dataclass(frozen=True, kw_only=True)
class Report(Envelope):
    """One finished check. Everything in it is public.

    Parameters
    ----------
    check : str
        Random id.
    one_client : OneClient
        How much of the result a single client can be.
    key : str or None
        Idempotency key of a scheduled check.
    reading : Reading
        What the published numbers say.
    protection : Protection
        How counts were protected.
    compared : Compared
        What was compared.
    verdict : Verdict or None
        The decision; None if no threshold was given. Of a table: on all columns together.
    column : str or None
        Of a table: the column that `reading` shows, which moved most.
    columns : dict[str, ColumnReport]
        Of a table: each column, those that moved most first.
    started, guarantee, cohort, cost
        As in `Envelope`.
    """

    kind: ClassVar[str] = "check"
    _header: ClassVar[dict[str, Any]] = {"direction": "KL(reference || clients)"}

    check: str
    reading: Reading
    protection: Protection
    compared: Compared
    one_client: OneClient
    key: str | None = None
    verdict: Verdict | None = None
    column: str | None = None
    columns: dict[str, ColumnReport] = field(default_factory=dict)

    def __post_init__(self) -> None:  # files and databases keep no order of names
        object.__setattr__(self, "columns", in_rank(self.columns))

    @property
    def outcome(self) -> Outcome | None:
        """The decision's outcome, if one was made."""
        return None if self.verdict is None else self.verdict.outcome

    @property
    def drifted(self) -> bool:
        """Whether the decision was drift; False is not "no drift": see `outcome`."""
        return self.outcome is Outcome.DRIFT

    @property
    def estimate(self) -> Estimated | None:
        """The population's estimate where there is one, else the cohort's; None if none is.

        Of a table: of the column that moved most.
        """
        return self.reading.told

    @property
    def upper_limit(self) -> float | None:
        """Upper confidence limit in nats, if there is one."""
        return self.verdict.interval[1] if self.verdict and self.verdict.interval else None

    @property
    def lower_bound(self) -> float | None:
        """Lower confidence bound in nats, if there is one; 0 where it is below 0."""
        bound = None if self.verdict is None else self.verdict.lower_bound
        return None if bound is None else max(0.0, bound)

    @property
    def by_column(self) -> Iterator[Report]:
        """A report of each column of a table, as if it had been checked alone; else this one."""
        if not self.columns:
            yield self
        for name, one in self.columns.items():
            yield replace(
                self, reading=one.reading, verdict=one.verdict, column=name, columns={name: one}
            )

    def plot(self, file: str | Path | None = None) -> Any:
        """Draw the check, as `CheckSeries.plot` draws several."""
        return self._series.plot(file)

    def to_frame(self) -> Any:
        """Return a pandas data frame, of a table with a row for each column."""
        return self._series.to_frame()

    def to_html(self) -> str:
        """Return a self-contained page."""
        return str(self._series.to_html())

    @property
    def _series(self) -> Any:
        """A series of this check alone, loaded by name: series are made of reports."""
        return import_module("flwr_kld.report.check_series").CheckSeries([self])

    def _repr_html_(self) -> str:
        """Return the decision and the columns for a notebook."""
        decided = str(self.outcome or "not decided").capitalize()
        head, _, rest = str(self).partition("\n")
        table = f"<pre>{escape(rest)}</pre>" if rest else ""
        return f"<p><strong>{escape(decided)}</strong><br>{escape(head)}</p>{table}"

    def __str__(self) -> str:
        verdict = self.verdict
        decided = "" if verdict is None else f"{verdict.outcome}: {verdict.reason}; "
        if verdict is not None and verdict.resolve:
            decided += f"what would resolve it: {verdict.resolve}; "
        promise, trust = self.guarantee, self.protection.trust
        privacy = f"ε = {promise.epsilon:g}" + (f", δ = {promise.delta:g}" if promise.delta else "")
        said = f"{self.reading}; "
        if self.columns:
            decided = decided.removesuffix("; ") or f"{len(self.columns)} columns, nothing decided"
            said = f"\n{columns_text(self.columns)}\n"
        return (
            f"{decided}{said}{privacy} per {promise.unit} ({promise.adjacency}, {trust})"
            f"{'' if self.protection.private else ', SEEDED NOISE: NOT PRIVATE'}; "
            f"{self.cohort}, {self.reading.records:.0f} records"
            f"{'; ' + note if (note := self.one_client.note) else ''}"
        )
