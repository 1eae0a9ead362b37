"""A check's report as text: outcome, a line a column, what next, privacy; then the details."""

from __future__ import annotations

from collections.abc import Iterator

from flwr_kld.infer.outside import OutsideFraction
from flwr_kld.infer.upper_limit import EPSILON
from flwr_kld.infer.verdict import Outcome
from flwr_kld.report.column import ColumnReport, Reading, columns_table, drifted
from flwr_kld.report.envelope import CostSummary, Envelope, Protection
from flwr_kld.report.report import Report
from flwr_kld.report.words import (
    as_text,
    aside,
    brief,
    counted,
    evidence,
    in_digits,
    more_checks,
    nats,
    some_of,
    when,
    wrapped,
)

WIDTH = 80
"""Characters of a line."""


def check_lines(report: Report, *, width: int = WIDTH) -> Iterator[str]:
    """Yield a report of a check in lines that fit into a width in characters."""
    yield from wrapped(report.summary, width)
    yield from wrapped(about(report), width)
    yield from as_text(columns_table(report.columns), width=width).splitlines()
    yield from wrapped(f"Next: {next_step(report)}", width)
    yield from wrapped(f"Privacy: {privacy(report)}", width)
    yield "Details"
    for line in details(report):
        yield from wrapped(f"  {line}", width, "    ")


def about(report: Report) -> str:
    """Say which check it is, of what, against what."""
    cohort, night = report.cohort, ""
    if report.cost.nights > 1:
        night = f", night {report.cost.night} of {report.cost.nights} of its session"
    drawn = "drawn " if report.reading.drawn else ""
    name = "" if report.key is None else f" {report.key}"
    period = "" if report.period is None else f", records with {report.period}"
    silent = f" and {cohort.silent} as before" if cohort.silent else ""
    return (
        f"Check{name} of {when(report.started)} UTC{night}, against the "
        f"reference {report.compared.reference[:8]}{period}: {report.reading.records:,.0f} records "
        f"of {cohort.survivors:,} of {cohort.asked:,} {drawn}clients{silent}"
        f"{aside(cohort.dropouts)}."
    )


_BROKEN = ("could not", "client error")
"""Words of the reasons for which a client's own log has more to say."""
_HEAVY = 2
"""Times a client's even part of the records from which on it is looked at before the others."""


def next_step(report: Report) -> str:
    """Say what to do next."""
    dropouts = report.cohort.dropouts.items()
    broken = sum(n for reason, n in dropouts if any(words in reason for words in _BROKEN))
    why = f" Why {counted(broken, 'client')} could not answer is in the nodes' logs."
    return f"{_decided_next(report)}{why if broken else ''}"


def _decided_next(report: Report) -> str:
    """Say what to do about the outcome."""
    verdict, name = report.verdict, report.column
    if verdict is None:
        return "set a threshold, so that a check decides."
    client, clients = report.one_client, report.cohort.survivors
    if verdict.by_one_client and client.share is not None and verdict.outcome is Outcome.DRIFT:
        if _stands_out(report):
            return f"look at one client first, as it alone could have made this: {client.holder}."
        return (
            f"find out whether it is one of the {clients:,} clients, any of which alone could have "
            "made this: flwr-kld report --mine, on each node."
        )
    if verdict.outcome is Outcome.DRIFT:
        outside = report.columns[name].reading.outside
        if outside is not None and "other" in outside.clear:
            return f"flwr-kld describe --discover {name!r} names the labels."
        names = some_of([brief(name) for name in drifted(report.columns)])
        return (
            f"find out why {names} changed. If that is meant to stay, make a new reference."
            f"{_one_node(report)}"
        )
    if verdict.resolve:
        cost = report.cost
        scarce = cost.budget is not None and cost.nights == 1 and EPSILON in verdict.resolve
        rarer = " Rarer checks may each have more of the budget." * scarce
        return f"to decide, it takes {verdict.resolve}.{rarer}{_one_node(report)}"
    if verdict.outcome is Outcome.NO_ALARM:
        return (
            f"wait for the next check. More clients, more records of each, or a larger {EPSILON}, "
            f"could clear what is left.{_one_node(report)}"
        )
    return f"nothing to do.{_one_node(report)}"


def _stands_out(report: Report) -> bool:
    """Whether the largest client holds far more records than most."""
    client = report.one_client
    if client.share is None or client.name is None:
        return False
    return client.share * report.cohort.survivors > _HEAVY


def _one_node(report: Report) -> str:
    """Name the command with which a node finds out whether its own records moved a column."""
    if not any(one.has_moved for one in report.columns.values()):
        return ""
    return " Each node can see whether it alone moved: flwr-kld report --mine."


def privacy(report: Envelope, protection: Protection | None = None) -> str:
    """Say what protects whom, who saw what, what it cost, and when the next is allowed."""
    protection = protection or report.protection  # type: ignore[attr-defined]
    if not protection.private:
        return "NOT PRIVATE. The noise is seeded, so anybody can take it off."
    inside = isinstance(report, Report) and report.period is not None
    exact = (
        "the numbers of clients and records are exact"
        if report.guarantee.protected == "record" and not inside
        else "the number of clients is exact"
    )
    return (
        f"{exact}, all other numbers have noise: ε = {report.cost.epsilon:.3g} for each "
        f"{report.guarantee.protected}, {_together(report.cost)}. {protection.visibility.exact} "
        f"{budget(report.cost)}"
    )


def _together(cost: CostSummary) -> str:
    """Say what the cost is of."""
    if cost.nights == 1:
        return "all columns together"
    return f"all columns and {cost.nights} nights together, of which this is number {cost.night}"


def budget(cost: CostSummary) -> str:
    """Say what is spent and left, and when the next check is allowed."""
    if cost.left is None or cost.budget is None:
        return "No privacy budget is set."
    rest = f"The budget of {cost.budget:,g} has {cost.left:,.4g} left for the clients charged most"
    if cost.night < cost.nights:
        return f"{rest}; the next night costs nothing."
    if cost.room is None:
        return f"{rest}."
    if cost.room:
        less = cost.room * cost.epsilon > cost.left and cost.room > 1
        sum_of = ": many cost less than the sum of their ε" if less else ""
        return f"{rest}, room for {more_checks(cost.room)} like this one, same clients{sum_of}."
    on = "" if cost.frees_at is None else f", not before {when(cost.frees_at)} UTC"
    return f"{rest}: they are asked again when earlier checks have left the budget's window{on}."


def details(report: Report) -> Iterator[str]:
    """Yield what the decision rests on: divergences, limits, evidence, assumptions."""
    verdict, columns = report.verdict, list(report.by_column)
    yield (
        "D is the divergence KL(reference ‖ clients) in nats, 0 for no difference; estimates are "
        "± one standard deviation"
        + ("" if verdict is None else f"; limits hold with {100 * verdict.alarm.level:g} % each")
    )
    clear = [one for one in columns if one.outcome is Outcome.NO_DRIFT]
    shown = [one for one in columns if one not in clear] or clear[:1]
    for one in shown:
        yield from _of_column(one.column, one.columns[one.column], one)
    if others := [one.column for one in columns if one not in shown]:
        yield f"{some_of(others)}: no drift; JSON has all numbers"
    if verdict is not None:
        yield false_alarms(report)
    yield _who_they_are(report.reading)
    yield str(report.one_client)
    yield f"check {report.check}, as nodes' receipts name it, took {report.cost.time}"
    yield from filter(None, (_one_client(report), report.reading.note))


def _who_they_are(reading: Reading) -> str:
    """Say whom estimates are of."""
    *population, own = reading.estimates
    if not population:
        return f"D is of {own.whose}"
    return f"the population is {population[0].whose}, the cohort {own.whose}"


def _one_client(report: Report) -> str:
    """Say what a reader must know of single clients, and what one alone could have made or hide."""
    client = report.one_client
    drifts: list[str] = []
    hides: list[str] = []
    for name, column in report.columns.items():
        if column.verdict is not None and column.verdict.by_one_client:
            (drifts if column.drifted else hides).append(name)
    who, everyone = "one client", "all clients count"
    if _stands_out(report):
        who, everyone = "it", "it counts"
    could = [f"{who} alone could have made the drift of {some_of(drifts)}"] if drifts else []
    if hides:
        could.append(f"what is said of {some_of(hides)} holds only if {everyone} truly")
    if not could:
        return client.note or ""
    return "; ".join([client.note or client.holder, *could])


def false_alarms(report: Report) -> str:
    """Say how often any of the columns alarms falsely."""
    alarm = report.verdict.alarm  # type: ignore[union-attr]
    judged = sum(one.verdict is not None for one in report.columns.values())
    checks = "a check" if alarm.horizon == 1 else f"{alarm.horizon:,} checks"
    rate = f"{100 * alarm.rate * judged:.3g} %"
    return f"the probability of any false alarm in {checks} without a drift is at most {rate}"


def _of_column(name: str, column: ColumnReport, alone: Report) -> Iterator[str]:
    """Yield the details of one column."""
    reading, verdict = column.reading, column.verdict
    several = len(reading.estimates) > 1
    estimates = "; ".join(f"D{f' of the {one.of}' * several} {one}" for one in reading.estimates)
    limits = ""
    if verdict is not None:
        most = f"at most {nats(alone.upper_limit)} whatever its shape"
        limits = f", at least {nats(alone.lower_bound)} and {most}; threshold {verdict.threshold:g}"
    yield f"{brief(name)}: {estimates}{limits}"
    if verdict is not None:
        yield f"  {verdict.reason}"
        if verdict.detector is not None:
            so_far, enough = verdict.detector.evidence, verdict.detector.alarm_at
            yield f"  evidence over checks {evidence(so_far)}, alarms from {evidence(enough)}"
    if reading.outside is not None and reading.outside.clear:
        yield f"  outside the reference: {outside(column, reading.outside)}"
        if {"other", "missing"}.intersection(reading.outside.clear):
            yield "  a client's own log says whether nearly all its records are such ones"


def outside(column: ColumnReport, found: OutsideFraction) -> str:
    """Say what fraction is outside the reference, between which limits, and what is tolerated."""
    if column.verdict is None or column.verdict.outside is None:
        return str(found)
    limits = column.verdict.outside
    value, low, high = in_digits(100 * found.share, 100 * limits.lower, 100 * limits.upper)
    named = ", ".join([f"{value} % ({low} to {high})", *found.named])
    return f"{named}; up to {100 * limits.tolerated:.3g} % tolerated"
