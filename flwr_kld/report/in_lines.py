"""A check in lines of words, for a terminal and a log."""

from __future__ import annotations

from collections.abc import Iterator

from flwr_kld.inference.verdict import Verdict
from flwr_kld.report.report import Report, columns_table
from flwr_kld.report.words import (
    alarm_lines,
    as_text,
    evidence,
    left_out,
    nats,
)

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
    for told in reading.estimates:
        yield f"  {told.of}: {told} (s.d.), {_WHOSE[told.of]}{told.whose}"
        if told == reading.told:
            yield f"  as if at least {100 * told.replaced:.2g} % of the records were others"
    if verdict is not None:
        yield from map("  {}".format, _limits(report, verdict))
    if reading.note:
        yield reading.note
    if reading.outside is not None:
        yield f"records outside the reference: {reading.outside}{_outside_limits(verdict)}"
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
    if not report.is_table and (said := report.columns[report.column].sentence):
        yield f"what moved most: {said}"
    if report.period is not None:
        yield f"period: records with {report.period}"
    left = "" if cost.left is None else f", {cost.rest} left in the window"
    yield (
        f"privacy: ε = {cost.price} for each {report.guarantee.protected} asked{left}. "
        f"{report.protection.sight.exact}"
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
