"""Made-up reports: what a scheduled series of checks leaves behind."""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TypeVar

from flwr_kld.infer.alarm import Alarm
from flwr_kld.infer.e_detector import EDetector
from flwr_kld.infer.estimators.result import ErrorSplit
from flwr_kld.infer.figures.fractions import Fraction
from flwr_kld.infer.figures.numbers import Figure, Quantile
from flwr_kld.infer.figures.statistics import ColumnStatistics, NumberStatistics
from flwr_kld.infer.verdict import Cause, Outcome, Verdict
from flwr_kld.kernel import Guarantee
from flwr_kld.kernel.promise import WholeClients
from flwr_kld.report.column import CellCounts, ColumnReport, Reading
from flwr_kld.report.envelope import (
    CohortSummary,
    CostSummary,
    Envelope,
    OneClient,
    Point,
    Protection,
)
from flwr_kld.report.predictor_report import Learnt, PredictorReport
from flwr_kld.report.report import Compared, Report
from flwr_kld.report.statistics_report import DescribedColumn, StatisticsReport
from flwr_kld.trust.visibility import CLIENTS_ADD_NOISE, SERVER_SEES_PARTS

E = TypeVar("E", bound=Envelope)
CAUSES = {
    Outcome.DRIFT: Cause.DIVERGENCE,
    Outcome.NO_DRIFT: Cause.LIMITS,
    Outcome.NO_ALARM: Cause.FORECAST,
    Outcome.INCONCLUSIVE: Cause.LIMITS,
}
PARTS = ("reading", "guarantee", "protection", "cohort", "compared", "cost", "verdict")
OF_COLUMN = ("reading", "verdict")

REPORT = Report(
    check="c0ffee", started="2026-11-21T02:00:00+00:00",
    columns={"labels": ColumnReport(Reading(
        estimate=0.25, error=ErrorSplit(0.03, 0.0, 0.04), records=1800.0,
    ))},
    guarantee=Guarantee(1.0),
    protection=Protection(
        "trusted", "plain-sum", "discrete-laplace", private=True, noise=2.8,
        visibility=SERVER_SEES_PARTS,
    ),
    cohort=CohortSummary(20, 18, {"no reply": 1, "refused: <b>injected</b>": 1}),
    compared=Compared(domain="d" * 64, reference="e" * 64, plan="f" * 64, cells=4),
    one_client=OneClient(125, share=0.07),
    cost=CostSummary(
        1.0, seconds=0.5, asking=0.125, waiting=0.25, computing=0.125,
        bytes_down=500.0, bytes_up=100.0,
    ),
)  # fmt: skip


STATISTICS = StatisticsReport(
    started="2026-09-30T03:00:00+00:00",
    whom="these 29 clients",
    records=2900.0,
    columns={
        "way <of travel>": DescribedColumn(
            0,
            ColumnStatistics(
                Figure(2880.0, 5.6, 2869.0, 2891.0),
                (
                    Fraction("other", 0.0, 0.001, 0.0, 0.002),
                    Fraction("missing", 0.007, 0.001, 0.005, 0.009),
                ),
                (
                    Fraction("<b>us", 0.6, 0.001, 0.595, 0.605),
                    Fraction("car", 0.393, 0.001, 0.388, 0.398),
                ),
                None,
            ),
            CellCounts((1740, 1140, 0, 20), 2.8, 1.0, "record"),
        ),
        "minutes": DescribedColumn(
            1,
            ColumnStatistics(
                Figure(2900.0, 2.8, 2894.0, 2900.0),
                (Fraction("missing", 0.0, 0.001, 0.0, 0.002),),
                tuple(
                    Fraction(name, 0.25, 0.001, 0.245, 0.255)
                    for name in ("< 10", "[10, 20)", "[20, 60)", ">= 60")
                ),
                NumberStatistics(
                    Figure(28.75, 0.1, 18.0, 31.0),
                    Figure(20.4, 0.1, 15.0, 25.0),
                    tuple(
                        Quantile(n / 10, 4.0 * n, 10.0, 60.0, *[None] * 3) for n in range(1, 10)
                    ),
                    (10.0, 20.0, 60.0),
                ),
            ),
            CellCounts((725, 725, 725, 725, 0), 2.8, 1.0, "record"),
            unit="min",
            description="How long it took",
        ),
    },
    domain="d" * 64,
    reference="e" * 64,
    guarantee=Guarantee(1.0, 1e-9),
    protection=Protection(
        "distributed", "secure-sum", "discrete-laplace", private=True, noise=2.8,
        visibility=CLIENTS_ADD_NOISE,
    ),
    cohort=CohortSummary(30, 29, {"no reply": 1}),
    cost=CostSummary(0.9, seconds=1.5, asking=0.25, waiting=1.0, computing=0.25),
    one_client=OneClient(125, share=0.04),
)  # fmt: skip


def altered(report: E, **changes: object) -> E:
    """The report with other values, each where it belongs: ``estimate`` in its first reading."""
    for name, value in changes.items():
        part = next((p for p in PARTS if hasattr(getattr(report, p, None), name)), None)
        if part is not None and name not in report.__dataclass_fields__:
            value, name = replace(getattr(report, part), **{name: value}), part
        if name in OF_COLUMN and isinstance(report, Report):
            first = replace(report.columns[report.column], **{name: value})
            name, value = "columns", {**report.columns, report.column: first}
        report = replace(report, **{name: value})
    return report


def verdict(outcome: Outcome, lower_bound: float) -> Verdict:
    """A decision against a threshold of 0.1 nats."""
    inconclusive = outcome is Outcome.INCONCLUSIVE
    return Verdict(
        outcome,
        CAUSES[outcome],
        reason=f"the lower bound is {lower_bound:.3f} nats",
        resolve="ask twice as many clients" if inconclusive else None,
        threshold=0.1,
        alarm=Alarm(),
        lower_bound=lower_bound,
        upper_limit=None if inconclusive else lower_bound + 0.2,
        detector=EDetector(rate=0.05, checks=5, evidence=2.5),
    )


def decided(outcome: Outcome, lower_bound: float, **changes: object) -> Report:
    """A report with a decision and a ledger."""
    ledger = {
        "key": "2026-11-21T02:00:00Z", "population": "fleet", "left": 0.5, "budget": 1.0,
    }  # fmt: skip
    return altered(REPORT, verdict=verdict(outcome, lower_bound), **{**ledger, **changes})


def nights(number: int, drift_from: int) -> list[Point[Report]]:
    """A check a night; the third fails."""
    first = datetime(2026, 11, 1, 3, tzinfo=UTC)
    checks = []
    for n in range(1, number + 1):
        drift = n >= drift_from
        report = decided(
            Outcome.DRIFT if drift else Outcome.INCONCLUSIVE if n == 2 else Outcome.NO_DRIFT,
            0.2 if drift else 0.0,
            estimate=0.3 if drift else 0.05,
            started=(first + timedelta(days=n)).isoformat(),
            left=1 - n % 4 / 4,
        )
        failed = Point(
            n, None, failure="refused: the budget is spent until <i>Sunday</i>",
            started=report.started,
        )  # fmt: skip
        checks.append(failed if n == 3 else Point(n, report))
    return checks


def learnt(number: int, leader: str = "usual", **changes: object) -> PredictorReport:
    """A predictor's report of a round, a day after the one before."""
    weights = {"usual": 0.05, "<strike>": 0.05, "summer": 0.05, leader: 0.9}
    started = datetime(2026, 11, 1, 3, tzinfo=UTC) + timedelta(days=number)
    report = PredictorReport(
        name="traffic", round=number, started=started.isoformat(),
        reading=Learnt(
            weights=weights, mixture=dict.fromkeys(weights, 1 / 3), leader=leader, log_odds=2.5,
            swing=1.0, outlasts=2, reports=57 * number, refuted=False,
        ),
        guarantee=Guarantee(0.5, protects=WholeClients(1)),
        cohort=CohortSummary(60, 57, {"no reply": 2, "impossible report": 1}),
        cost=CostSummary(
            0.5, seconds=0.25, asking=0.125, waiting=0.125, computing=0.0,
            left=4.0 - number % 8 / 2, budget=4.0,
        ),
    )  # fmt: skip
    return altered(report, **changes)


def mornings(number: int, change_at: int) -> list[Point[PredictorReport]]:
    """A predictor's round a day; the third fails, and the leader changes once."""
    reports = [learnt(n, "<strike>" if n >= change_at else "usual") for n in range(1, number + 1)]
    failed = Point(3, None, failure="nothing was released: 0 <i>of 60</i> clients reported")
    return [failed if r.round == 3 else Point(r.round, r) for r in reports]


def checksummed(values):
    """The JSON form of a report with the checksum that fits it."""
    content = {name: value for name, value in values.items() if name != "sha256"}
    text = json.dumps(content, sort_keys=True)
    return {**content, "sha256": hashlib.sha256(text.encode()).hexdigest()}


def in_notebook(shown) -> str:
    """What a notebook shows of it."""
    return shown._repr_html_()
