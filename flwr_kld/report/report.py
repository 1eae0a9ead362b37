"""Report of a check: estimates, verdict, evidence, cost, and each column of a table."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from typing import Any, ClassVar

from flwr_kld.ask.period import Period
from flwr_kld.common.guesses import suggests
from flwr_kld.infer.decision import table_verdict
from flwr_kld.infer.verdict import Verdict
from flwr_kld.kernel.arguments import instance
from flwr_kld.reference import Reference
from flwr_kld.report.column import ColumnReport, Decided, Reading, in_rank
from flwr_kld.report.comparison import FRACTION, Comparison
from flwr_kld.report.envelope import Envelope, OneClient, Protection
from flwr_kld.report.evidence import Evidence
from flwr_kld.report.released_reference import reference_of_columns
from flwr_kld.report.summary import first_line
from flwr_kld.report.words import when


@dataclass(frozen=True)
class Compared:
    """What a check compared."""

    domain: str  # Fingerprints
    reference: str
    plan: str
    cells: int  # Length of the count vector


@suggests(
    {
        "clients": "report.cohort.survivors",
        "confidence_interval": "report.lower_bound and report.upper_limit",
        "date": "report.started",
        "drift": "report.drifted",
        "epsilon": "report.cost.epsilon",
        "kl": "report.estimate.value",
        "records": "report.reading.records",
        "sentence": "report.summary, or report.columns[name].sentence",
        "to_pandas": "report.to_frame()",
        "value": "report.estimate.value",
    }
)
@dataclass(frozen=True, kw_only=True, repr=False)
class Report(Decided, Envelope):
    """One finished check. Everything in it is public.

    Parameters
    ----------
    check : str
        Random id.
    one_client : OneClient
        How much of the result a single client can be.
    key : str or None
        Idempotency key of a scheduled check.
    period : Period or None
        The time of the records that it is about; None if it is about all.
    evidence : Evidence or None
        What the report follows from, and who signed it; None if nobody did.
    protection : Protection
        How counts were protected.
    compared : Compared
        What was compared.
    columns : dict[str, ColumnReport]
        Each column by name, by outcome and then by lower bound. A single column is a table of one,
        and has the name of its domain's kind.
    started, guarantee, cohort, cost
        As in `Envelope`.

    Raises
    ------
    ValueError
        If there is no column.
    """

    kind: ClassVar[str] = "check"
    _header: ClassVar[dict[str, Any]] = {"direction": "KL(reference || clients)"}
    _derived: ClassVar[frozenset[str]] = frozenset({"verdict"})

    check: str
    protection: Protection
    compared: Compared
    one_client: OneClient
    columns: dict[str, ColumnReport]
    key: str | None = None
    period: Period | None = None
    evidence: Evidence | None = None

    def __post_init__(self) -> None:
        if not self.columns:
            raise ValueError("the report of a check has at least one column")
        columns = in_rank(self.columns)  # files and databases keep no order of names
        object.__setattr__(self, "columns", columns)

    @property
    def summary(self) -> str:
        """The outcome, of what, and what moved, in one line."""
        return first_line(self.columns, self.verdict)

    @property
    def column(self) -> str:
        """Name of the first column, by outcome and then by lower bound."""
        return next(iter(self.columns))

    @property
    def reading(self) -> Reading:  # type: ignore[override]  # nobody writes to a frozen one
        """What the published numbers say of the first column."""
        return self.columns[self.column].reading

    @cached_property
    def verdict(self) -> Verdict | None:  # type: ignore[override]
        """The decision on all columns together; None if no threshold was given."""
        if not self.is_table:
            return self.columns[self.column].verdict
        verdicts = {n: c.verdict for n, c in self.columns.items() if c.verdict is not None}
        return table_verdict(verdicts) if verdicts else None

    def content(self) -> dict[str, Any]:
        """Return what its JSON form says; with the verdict on all columns, too."""
        verdict = None if self.verdict is None else asdict(self.verdict)
        content = {**super().content(), "verdict": verdict}
        if self.evidence is None:
            del content["evidence"]
        return content

    @property
    def upper_limit(self) -> float | None:
        """Upper confidence limit in nats, if there is one."""
        return self.verdict.upper_limit if self.verdict else None

    @property
    def lower_bound(self) -> float | None:
        """Lower confidence bound in nats, if there is one."""
        return self.verdict.lower_bound if self.verdict else None

    @property
    def is_table(self) -> bool:
        """Whether it is of several columns."""
        return len(self.columns) > 1

    @property
    def by_column(self) -> Iterator[Report]:
        """A report of each column, as if it had been checked alone."""
        if not self.is_table:
            yield self
            return
        for name, one in self.columns.items():
            yield replace(self, columns={name: one})

    def as_reference(self, reference: Reference) -> Reference:
        """Make a reference of what was released: for checks of this quarter against the last one.

        Post-processing of a release that was paid for: it costs no further epsilon. The reference
        keeps of how many independent records, and with which noise, it was counted, so that
        verdicts against it allow for both.

        Parameters
        ----------
        reference : Reference
            What this check compared with.

        Returns
        -------
        Reference
            Over the same domain; 'other' and 'missing' have mass where they stand out of the noise.

        Raises
        ------
        ValueError
            If the check compared with another reference, did not ask how alike a client's records
            are, did not count each symbol by itself, or found records of symbols that it could not
            tell apart.
        """
        return reference_of_columns(
            self.columns, self.compared.reference, self.protection.mechanism, reference
        )

    def compare(self, earlier: Report) -> Comparison:
        """Say what changed since an earlier check against the same reference, at no further cost.

        Parameters
        ----------
        earlier : Report
            The check before this one.

        Returns
        -------
        Comparison
            Every number that both have, and between which limits it changed: of a column with
            many labels, of those that both name in their `histogram`.

        Raises
        ------
        ValueError
            If it compared with another reference, or counted other cells.
        """
        instance("earlier", earlier, Report, "the Report of a check before this one")
        if earlier.compared.reference != self.compared.reference:
            raise ValueError(
                f"the earlier check compared with the reference {earlier.compared.reference[:12]}, "
                f"this one with {self.compared.reference[:12]}: only two against the same "
                "reference have the same numbers"
            )
        if earlier.compared.plan != self.compared.plan:
            raise ValueError(
                "the two checks counted other cells, as each draws some of a column's many "
                "symbols: check with more cells, KLDrift(…, cells=…), to count all of them"
            )
        return Comparison.of(
            earlier._counted,
            self._counted,
            dict(earlier._numbers(self)),
            dict(self._numbers(earlier)),
        )

    @property
    def _counted(self) -> str:
        whom = self.reading.drawn_from or self.reading.headline.whose
        return f"{when(self.started)} UTC, {self.reading.records:,.0f} records, about {whom}"

    def _numbers(
        self, other: Report
    ) -> Iterator[tuple[tuple[str, str, str], tuple[float, float, float]]]:
        """Yield the numbers of each column that another check of the same cells may have, too."""
        for name, column in self.columns.items():
            shown, beside = column.histogram, other.columns[name].histogram
            bars = list(shown.bars) if shown is not None else []
            if shown is not None and beside is not None and shown.names != beside.names:
                bars.pop()  # each has gathered labels of its own in the last one
            for bar, _, value, low, high in bars:
                yield (name, "", f"{FRACTION}{bar}"), (value, low, high)
            if column.figures is not None and (ordered := column.figures.ordered) is not None:
                mean = ordered.mean
                yield (name, "", "mean"), (mean.value, mean.low, mean.high)
