"""Checks as Prometheus metrics: a file for node_exporter's textfile collector, or an endpoint."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from flwr_kld.common.extras import require
from flwr_kld.infer.figures.statistics import ColumnStatistics
from flwr_kld.infer.verdict import Outcome
from flwr_kld.report.column import drifted
from flwr_kld.report.report import Report
from flwr_kld.views.files import METRICS

if TYPE_CHECKING:
    from flwr_kld.report.node_comparison import NodeComparison

OUTCOMES = (*map(str, Outcome), "refused", "error")
"""How a check can end. A finished check without a threshold has none of them."""
_REASONS = ("no reply", "refused", "invalid reply", "client error")
"""What reports' reasons begin with. Clients' own words never become labels: they are endless."""


@dataclass(frozen=True)
class MonitorState:
    """What is known of a monitor after its last check."""

    monitor: str  # Name of the monitor
    # Of the last check that finished, if there was one; older than the last check where that one
    # was refused or failed
    report: Report | None = None
    # How the last check ended, one of `OUTCOMES`; by default as the report says
    outcome: str | None = None

    def __post_init__(self) -> None:
        if self.outcome is None and self.report is not None:
            object.__setattr__(self, "outcome", self.report.outcome)
        if self.outcome is not None and self.outcome not in OUTCOMES:
            raise ValueError(f"unknown outcome {self.outcome!r}: choose from {OUTCOMES}")


def _threshold(report: Report) -> float | None:
    return report.verdict.threshold if report.verdict else None


def _changed(report: Report) -> tuple[float | None, float | None, float | None]:
    """Return the fraction of changed records, and the ends of its interval."""
    changed = report.columns[report.column].changed
    return (None, None, None) if changed is None else (changed.value, changed.low, changed.high)


GAUGES: dict[str, tuple[str, Callable[[Report], float | None]]] = {
    "kld_estimate": (
        "Estimated KL(reference || clients) of the last finished check, in nats: of the cohort's "
        "own records",
        lambda r: r.reading.estimate,
    ),
    "kld_estimate_deviation": (
        "Standard deviation of kld_estimate, in nats",
        lambda r: r.reading.deviation,
    ),
    "kld_population_estimate": (
        "Estimated KL(reference || clients) of the population that the cohort was drawn from, in "
        "nats",
        lambda r: None if r.reading.of_population is None else r.reading.of_population.value,
    ),
    "kld_population_deviation": (
        "Standard deviation of kld_population_estimate, in nats",
        lambda r: None if r.reading.of_population is None else r.reading.of_population.deviation,
    ),
    "kld_changed_share": (
        "Estimated fraction of the records, 0 to 1, that would have to be others for the clients "
        "to look like the reference, in the first column",
        lambda r: _changed(r)[0],
    ),
    "kld_changed_low": (
        "Lower end of the 95 % interval of kld_changed_share",
        lambda r: _changed(r)[1],
    ),
    "kld_changed_high": (
        "Upper end of the 95 % interval of kld_changed_share",
        lambda r: _changed(r)[2],
    ),
    "kld_lower_bound": (
        "The cohort's divergence is at least this, in nats, with the alarm's level for all "
        "columns of a table together; 0 where nothing is excluded",
        lambda r: r.lower_bound,
    ),
    "kld_upper_limit": (
        "The cohort's divergence is at most this, in nats, asymptotically with the alarm's level",
        lambda r: r.upper_limit,
    ),
    "kld_evidence": (
        "Evidence over checks that the population drifted; alarms from kld_evidence_alarm on",
        lambda r: r.verdict.detector.evidence if r.verdict and r.verdict.detector else None,
    ),
    "kld_evidence_alarm": (
        "Evidence that alarms; by chance it is reached at most at the part of the alarm's rate "
        "that a report gives to evidence",
        lambda r: r.verdict.detector.alarm_at if r.verdict and r.verdict.detector else None,
    ),
    "kld_threshold": (
        "Divergence that is tolerated, in nats",
        _threshold,
    ),
    "kld_resolution": (
        "Nats beyond kld_threshold that a decision of no drift, or no alarm, allows",
        lambda r: r.verdict.alarm.resolution if r.verdict else None,
    ),
    "kld_outside_share": (
        "Estimated fraction of the cohort's records that lie outside the reference, 0 to 1",
        lambda r: r.reading.outside.share if r.reading.outside else None,
    ),
    "kld_outside_lower_bound": (
        "At least this fraction of the cohort's records lies outside the reference, 0 to 1, "
        "asymptotically with the alarm's level",
        lambda r: r.verdict.outside.lower if r.verdict and r.verdict.outside else None,
    ),
    "kld_epsilon": ("Epsilon of the last finished check, in nats", lambda r: r.guarantee.epsilon),
    "kld_epsilon_left": (
        "Epsilon left in the budget's window for the person charged most, in nats",
        lambda r: r.cost.left,
    ),
    "kld_asked": ("Clients asked", lambda r: r.cohort.asked),
    "kld_survivors": ("Clients whose counts are in the sum", lambda r: r.cohort.survivors),
    "kld_check_seconds": ("Wall time of the last finished check", lambda r: r.cost.seconds),
    "kld_check_waiting_seconds": (
        "Wall time of the last finished check in which it waited for replies",
        lambda r: r.cost.waiting,
    ),
    "kld_last_success_timestamp_seconds": (
        "End of the last finished check, in seconds since 1970",
        lambda r: datetime.fromisoformat(r.started).timestamp() + r.cost.seconds,
    ),
}

COLUMN_GAUGES: dict[str, tuple[str, Callable[[Report], float | None]]] = {
    "kld_column_changed_share": (
        "kld_changed_share of a table's column",
        lambda r: _changed(r)[0],
    ),
    "kld_column_divergence": (
        "Estimated KL(reference || clients) of a table's column, in nats: of the population where "
        "that is known, else of the cohort",
        lambda r: r.reading.headline.value,
    ),
    "kld_column_deviation": (
        "Standard deviation of kld_column_divergence, in nats",
        lambda r: r.reading.headline.deviation,
    ),
    "kld_column_lower_bound": ("kld_lower_bound of a table's column", lambda r: r.lower_bound),
    "kld_column_upper_limit": ("kld_upper_limit of a table's column", lambda r: r.upper_limit),
    "kld_column_threshold": ("kld_threshold of a table's column", _threshold),
    "kld_column_outside_share": (
        "kld_outside_share of a table's column",
        lambda r: r.reading.outside.share if r.reading.outside else None,
    ),
}
"""Of each column; NaN where it is not known, so that every check has the same series."""


_Sample = tuple[str, str, dict[str, str], float | None]
"""Name of a metric, what it is, its labels and a value; None where it is not known."""


class _Collector:
    """Makes the metrics afresh whenever they are read, so that no old label stays behind."""

    def __init__(self, samples: Callable[[], Iterable[_Sample]]) -> None:
        self._samples = samples
        self._family = require("prometheus_client.core", extra="metrics").GaugeMetricFamily

    def collect(self) -> Iterable[Any]:
        found: dict[str, Any] = {}
        for name, text, labels, value in self._samples():
            if value is not None:
                if name not in found:
                    found[name] = self._family(name, text, labels=list(labels))
                found[name].add_metric(list(labels.values()), value)
        return found.values()


def _of_states(states: Iterable[MonitorState]) -> Iterator[_Sample]:
    for state in states:
        labels, report = {"monitor": state.monitor}, state.report
        for outcome in OUTCOMES:
            yield (
                "kld_last_check_outcome", "1 for how the last check ended",
                {**labels, "outcome": outcome}, float(outcome == state.outcome),
            )  # fmt: skip
        if report is None:
            continue
        for name, (text, value_of) in GAUGES.items():
            yield name, text, labels, value_of(report)
        for reason, clients in _by_class(report.cohort.dropouts).items():
            left_out = "Clients left out, by class of reason"
            yield "kld_dropouts", left_out, {**labels, "reason": reason}, clients
        if report.is_table:
            yield from _of_columns(report, labels)


def _of_columns(report: Report, monitor: dict[str, str]) -> Iterator[_Sample]:
    drifts = len(drifted(report.columns))
    yield "kld_columns_drifted", "Columns that drifted", monitor, drifts
    for part in report.by_column:
        labels = {**monitor, "column": part.column}
        for name, (text, value_of) in COLUMN_GAUGES.items():
            value = value_of(part)
            yield name, text, labels, math.nan if value is None else value
        for outcome in Outcome:
            yield (
                "kld_column_outcome", "1 for what was decided on a table's column",
                {**labels, "outcome": outcome}, float(part.outcome is outcome),
            )  # fmt: skip


def _by_class(dropouts: dict[str, int]) -> Counter[str]:
    """Clients left out by class of reason; every class is there, with 0 if need be."""
    classes = Counter(dict.fromkeys((*_REASONS, "other"), 0))
    for reason, clients in dropouts.items():
        classes[next((c for c in _REASONS if reason.startswith(c)), "other")] += clients
    return classes


Columns = Mapping[str, Mapping[str, ColumnStatistics]]
"""What each column holds, by group; ``""`` is all records."""


def _of_description(monitor: str, records: float, columns: Columns) -> Iterator[_Sample]:
    text = "Records that a description counted"
    yield "kld_described_records", text, {"monitor": monitor}, records
    for name, groups in columns.items():
        for group, own in groups.items():
            for metric, one, *more in _described(own):
                text, *further = _DESCRIBED[metric]
                labels = dict(zip(further, more, strict=True))
                for end, value in {"value": one.value, "low": one.low, "high": one.high}.items():
                    yield (
                        f"kld_described_{metric}", f"{text}; ends of its 95 % interval",
                        {"monitor": monitor, "column": name, "group": group, "end": end, **labels},
                        value,
                    )  # fmt: skip


_DESCRIBED = {
    "values": ("Records whose value the table lists",),
    "share": ("Fraction of the records without such a value, 0 to 1", "what"),
    "mean": ("Mean of a column of numbers, in its unit",),
    "deviation": ("Standard deviation of a column of numbers, in its unit",),
    "quantile": ("Quantile of a column of numbers, in its unit", "level"),
}


def _described(own: ColumnStatistics) -> Iterator[tuple[Any, ...]]:
    """Yield metric, number with its interval, and further label of what a column holds."""
    yield "values", own.count
    for one in own.unlisted:
        yield "share", one, one.name
    if own.numbers is not None:
        moments = {"mean": own.numbers.mean, "deviation": own.numbers.deviation}
        yield from ((name, one) for name, one in moments.items() if not own.drowned(one))
        for quantile in own.numbers.quantiles:
            yield "quantile", quantile, f"{quantile.level:g}"


def _of_node(found: NodeComparison) -> Iterator[_Sample]:
    private = "PRIVATE, exact: it must not leave this node"
    for answer in ("yes", "no", "unknown"):
        yield (
            "kld_node_answer", f"1 for whether what moved did so by this node. {private}",
            {"answer": answer}, float(answer == found.answer),
        )  # fmt: skip
    for name, one in found.columns.items():
        yield (
            "kld_node_column_divergence", f"D_θ of this node's records, in nats. {private}",
            {"column": name, "answer": one.answer}, one.divergence,
        )  # fmt: skip
        shares = {
            "own": one.own, "reference": one.reference, "elsewhere": one.elsewhere,
            "elsewhere_low": one.elsewhere_low, "elsewhere_high": one.elsewhere_high,
        }  # fmt: skip
        for whose, share in shares.items():
            yield (
                "kld_node_column_share", f"Fraction of the records that moved most. {private}",
                {"column": name, "records": one.records, "of": whose}, share,
            )  # fmt: skip


def _registry(samples: Callable[[], Iterable[_Sample]]) -> Any:
    registry = require("prometheus_client", extra="metrics").CollectorRegistry()
    registry.register(_Collector(samples))
    return registry


def save_metrics(states: Iterable[MonitorState], path: Path) -> None:
    """Write a text file that readers see whole or not at all."""
    _save(lambda: _of_states(states), path)


def save_description(monitor: str, records: float, columns: Columns, path: Path) -> None:
    """Write such a file of what clients' data look like, by column and group."""
    _save(lambda: _of_description(monitor, records, columns), path)


def save_node_comparison(found: NodeComparison, path: Path) -> None:
    """Write such a file of a node's own records beside a published report; it is private."""
    _save(lambda: _of_node(found), path)


def _save(samples: Callable[[], Iterable[_Sample]], path: Path) -> None:
    if path.suffix != METRICS:
        raise ValueError(f"node_exporter reads files that end in .prom, not {path.name!r}")
    write = require("prometheus_client", extra="metrics").write_to_textfile
    write(str(path), _registry(samples))


@contextmanager
def serve_metrics(
    states: Callable[[], Iterable[MonitorState]], port: int, *, address: str = "127.0.0.1"
) -> Iterator[int]:
    """Answer Prometheus over HTTP, from a thread of its own, until the context is left."""
    start = require("prometheus_client", extra="metrics").start_http_server
    server, thread = start(port, addr=address, registry=_registry(lambda: _of_states(states())))
    try:
        yield server.server_port
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
