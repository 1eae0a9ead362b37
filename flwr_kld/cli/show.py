"""Reports and checks as a terminal shows them."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime

from rich.text import Text

from flwr_kld.cli.exit_codes import ExitCode
from flwr_kld.cli.one_check import CheckAnswer
from flwr_kld.report import Verdict
from flwr_kld.report.predictor_report import PredictorReport
from flwr_kld.report.report import Report
from flwr_kld.report.series import Series
from flwr_kld.report.sight import who_saw_what
from flwr_kld.report.words import left_out

_STYLE = {
    ExitCode.NO_DRIFT: "bold green",
    ExitCode.DRIFT: "bold red",
    ExitCode.INCONCLUSIVE: "bold yellow",
    ExitCode.REFUSED: "bold yellow",
    ExitCode.ERROR: "bold red",
}
_MOVEMENTS = 5


def answer_lines(answer: CheckAnswer) -> Iterator[Text]:
    """Yield how a check ended, in lines: the decision first."""
    head = Text(answer.code.words.upper(), style=_STYLE[answer.code])
    head.append(f"  check {answer.key}", style="default")
    if answer.stored:
        head.append(" (the ledger had it: nothing was asked)", style="dim")
    yield head
    if answer.message:
        yield Text(answer.message)
    if answer.report:
        yield from map(Text, report_lines(answer.report))


def report_lines(report: Report) -> Iterator[str]:
    """Yield a report in lines."""
    verdict, reading = report.verdict, report.reading
    cohort, cost = report.cohort, report.cost
    if verdict is None:
        yield "no threshold is set: nothing was decided"
    else:
        yield verdict.reason
        if verdict.resolve:
            yield f"what would resolve it: {verdict.resolve}"
        bound = (
            "none"
            if verdict.lower_bound is None
            else f"at least {_nats(report.lower_bound)} nats, probability {verdict.level:g}"
        )
        yield f"lower bound: {bound}; threshold {verdict.threshold:g}"
        if verdict.interval:
            yield f"interval: {verdict.interval[0]:.3f} to {verdict.interval[1]:.3f} nats"
    if reading.outside is not None:
        yield f"outside the reference: {reading.outside}{_outside_bound(verdict)}"
    theta = "" if reading.theta is None else f", θ = {reading.theta:.3g}"
    if reading.estimate is None:
        yield f"estimate: none: {reading.note}"
    else:
        if reading.population_estimate is not None:
            yield (
                f"estimate, the clients they are drawn from: {reading.population_estimate:z.3f} ± "
                f"{reading.population_deviation:.3f} nats{theta}"
            )
        yield (
            f"estimate: KL(reference ‖ clients) = {reading.estimate:z.3f} ± {reading.error:.3f} "
            f"nats{theta}"
        )
        if reading.note:
            yield reading.note
    for movement in reading.movements[:_MOVEMENTS]:
        yield (
            f"  {movement['direction']} of {movement['name']}: {movement['share']:.2%} instead of "
            f"{movement['reference']:.2%}" + ("" if movement["beyond_chance"] else " (by chance?)")
        )
    left = "" if cost.left is None else f", {cost.rest} left in the window"
    yield (
        f"privacy: ε = {cost.epsilon:.3g} for each {report.guarantee.unit} asked "
        f"({report.guarantee.adjacency}){left}. {who_saw_what(report)}"
    )
    if not report.protection.private:
        yield "SEEDED NOISE: private for nobody"
    yield (
        f"clients: {cohort.survivors} of {cohort.asked}, {reading.records:,.0f} records; "
        f"{cost.seconds:.1f} s"
    )
    if missing := left_out(cohort.dropouts):
        yield f"left out: {missing}"


def _outside_bound(verdict: Verdict | None) -> str:
    """Say how large the share outside the reference is at least, and what is tolerated."""
    if verdict is None or verdict.outside_lower is None or verdict.outside_tolerated is None:
        return ""
    return (
        f"; lower bound: at least {100 * verdict.outside_lower:.3g} %, probability "
        f"{verdict.level:g}; {100 * verdict.outside_tolerated:.3g} % are tolerated"
    )


def failures(series: Series[Report] | Series[PredictorReport]) -> Iterator[Text]:
    """Yield a line for each check or round without a report."""
    for point in series:
        if point.report is None:
            words = f"{series.what} {point.number}: {point.failure or 'failed'}"
            yield Text(words, style="dim")


def _nats(value: float | None) -> str:
    return "–" if value is None else f"{value:z.3f}"


def utc(moment: datetime) -> str:
    """Write a moment to the minute."""
    return f"{moment.astimezone(UTC):%Y-%m-%d %H:%M} UTC"
