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
from flwr_kld.reference import Reference
from flwr_kld.report.column import ColumnReport, Decided, Reading, columns_table, in_rank
from flwr_kld.report.envelope import Envelope, OneClient, Protection
from flwr_kld.report.released_reference import reference_of_columns
from flwr_kld.report.words import alarm_lines, as_text, evidence, left_out, nats


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
        "plot": "CheckSeries([report]).plot()",
        "records": "report.reading.records",
        "save": "CheckSeries([report]).save(file)",
        "sentence": "report.columns[name].sentence",
        "summary": "str(report)",
        "to_frame": "CheckSeries([report]).to_frame()",
        "to_html": "CheckSeries([report]).to_html()",
        "to_pandas": "CheckSeries([report]).to_frame()",
        "value": "report.estimate.value",
    }
)
@dataclass(frozen=True, kw_only=True)
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
    protection : Protection
        How counts were protected.
    compared : Compared
        What was compared.
    columns : dict[str, ColumnReport]
        Each column by name, by decision and then by lower bound. A single column is a table of one,
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

    def __post_init__(self) -> None:
        if not self.columns:
            raise ValueError("the report of a check has at least one column")
        columns = in_rank(self.columns)  # files and databases keep no order of names
        object.__setattr__(self, "columns", columns)

    @property
    def column(self) -> str:
        """Name of the first column, by decision and then by lower bound."""
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
        return {**super().content(), "verdict": verdict}

    @property
    def upper_limit(self) -> float | None:
        """Upper confidence limit in nats, if there is one."""
        return self.verdict.upper_limit if self.verdict else None

    @property
    def lower_bound(self) -> float | None:
        """Lower confidence bound in nats, if there is one; 0 where it is below 0."""
        bound = None if self.verdict is None else self.verdict.lower_bound
        return None if bound is None else max(0.0, bound)

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

    def __str__(self) -> str:
        decided = "" if self.outcome is None else f"{self.outcome}: "
        return decided + "\n".join(report_lines(self))


_WHOSE = {"population": "of ", "cohort": "of the very records counted, "}


def report_lines(report: Report, *, width: int = 80) -> Iterator[str]:
    """Yield a report in lines; a table's columns fit into a width in characters."""
    verdict, reading = report.verdict, report.reading
    cohort, cost = report.cohort, report.cost
    if verdict is None:
        yield "no threshold is set: nothing was decided"
    else:
        yield verdict.reason
        if verdict.resolve:
            yield f"what would resolve it: {verdict.resolve}"
    if report.is_table:
        yield from as_text(columns_table(report.columns), width=width).splitlines()
        yield f"the first of them, by decision and lower bound: {report.column}"
    yield "divergence KL(reference ‖ clients) in nats, 0 for no difference:"
    for estimate in reading.estimates:
        yield f"  {estimate.of}: {estimate} (s.d.), {_WHOSE[estimate.of]}{estimate.whose}"
        if estimate == reading.headline:
            yield f"  as if at least {100 * estimate.replaced:.2g} % of the records were others"
    if verdict is not None:
        yield from map("  {}".format, _limits(report, verdict))
    if reading.note:
        yield reading.note
    if reading.outside is not None:
        yield f"records outside the reference: {reading.outside}{_outside_limits(verdict)}"
        if {"other", "missing"}.intersection(reading.outside.clear):
            yield "a node of which nearly all records are 'other' or 'missing' logs the column"
        if report.is_table and "other" in reading.outside.clear:
            yield f"which labels these are: flwr-kld describe --discover {report.column!r}"
    if verdict is not None:
        if detector := verdict.detector:
            yield (
                f"evidence over checks: {evidence(detector.evidence)}; alarms from "
                f"{evidence(detector.alarm_at)} on"
            )
        yield "how the alarm works:"
        yield from map("  {}".format, alarm_lines(verdict))
    if not report.is_table and (sentence := report.columns[report.column].sentence):
        yield f"what moved most: {sentence}"
    if report.period is not None:
        yield f"period: records with {report.period}"
    left = "" if cost.left is None else f", {cost.rest} left in the window"
    yield (
        f"privacy: ε = {cost.price} for each {report.guarantee.protected} asked{left}. "
        f"{report.protection.visibility.exact}"
    )
    if not report.protection.private:
        yield "SEEDED NOISE: NOT PRIVATE"
    silent = f" and {cohort.silent} as before" if cohort.silent else ""
    yield (
        f"clients: {cohort.survivors} of {cohort.asked}{silent}, {reading.records:,.0f} records; "
        f"{cost.time}"
    )
    if missing := left_out(cohort.dropouts):
        yield f"left out: {missing}"
    yield str(report.one_client)
    if report.one_client.note:
        yield report.one_client.note


def _limits(report: Report, verdict: Verdict) -> Iterator[str]:
    """Yield what the divergence is at least and at most, and what is tolerated."""
    sure = f"with probability {100 * verdict.alarm.level:g} %"
    if report.lower_bound is None:
        yield "lower bound: none"
    else:
        yield f"lower bound: at least {nats(report.lower_bound)}, {sure}"
    if report.upper_limit is not None:
        yield f"upper limit: at most {nats(report.upper_limit)}, {sure}"
    more = verdict.alarm.resolution
    yield (
        f'threshold: {verdict.threshold:g} is tolerated; "no drift" and "quiet" allow {more:g} '
        f"more: {verdict.threshold + more:.3g}"
    )


def _outside_limits(verdict: Verdict | None) -> str:
    """Say between what the fraction outside the reference is, and what is tolerated."""
    if verdict is None or verdict.outside is None:
        return ""
    limits, level = verdict.outside, f"with probability {100 * verdict.alarm.level:g} % each"
    return (
        f"; at least {100 * limits.lower:.3g} %, at most {100 * limits.upper:.3g} %, "
        f"{level}; {100 * limits.tolerated:.3g} % are tolerated"
    )
