"""Made-up reports: what a scheduled series of checks leaves behind."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

from flwr_kld.report import Outcome, Point, PredictorReport, Report, Verdict

REPORT = Report(
    check="c0ffee", started="2026-11-21T02:00:00+00:00", estimate=0.25, theta=0.01,
    estimator="posterior_counts", target="cohort", sampling=0.03, monte_carlo=0.0,
    privacy=0.04, note=None, trust="trusted", aggregation="plain-sum",
    mechanism="discrete-laplace", adjacency="replace-one", unit="record", epsilon=1.0,
    delta=0.0, delivered=1.0, noise=2.8, private=True, asked=20, survivors=18,
    dropouts={"no reply": 1, "refused: <b>injected</b>": 1}, records=1800.0, cells=4,
    domain="d" * 64, reference="e" * 64, plan="f" * 64, seconds=0.5, bytes_down=500.0,
    bytes_up=100.0,
)  # fmt: skip


def verdict(outcome: Outcome, lower_bound: float) -> Verdict:
    """A decision against a threshold of 0.1 nats."""
    inconclusive = outcome is Outcome.INCONCLUSIVE
    return Verdict(
        outcome,
        reason=f"the lower bound is {lower_bound:.3f} nats",
        resolve="ask twice as many clients" if inconclusive else None,
        threshold=0.1,
        lower_bound=lower_bound,
        level=0.95,
        interval=None if inconclusive else (lower_bound, lower_bound + 0.2),
        interval_note="each cell needs 3 times as many records" if inconclusive else None,
        evidence=2.5,
        alarm_at=20.0,
    )


def decided(outcome: Outcome, lower_bound: float, **changes: object) -> Report:
    """A report with a decision and a ledger."""
    ledger = {
        "key": "2026-11-21T02:00:00Z", "population": "fleet", "epsilon_left": 0.5,
        "epsilon_budget": 1.0,
    }  # fmt: skip
    return replace(REPORT, verdict=verdict(outcome, lower_bound), **{**ledger, **changes})


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
            epsilon_left=1 - n % 4 / 4,
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
        name="traffic", round=number, started=started.isoformat(), weights=weights,
        mixture=dict.fromkeys(weights, 1 / 3), leader=leader, log_odds=2.5, swing=1.0, outlasts=2,
        risk_bound=12.0, epsilon=0.5, delta=0.0, epsilon_left=4.0 - number % 8 / 2, asked=60,
        taken=57, rejected={"no reply": 2, "impossible report": 1}, reports=57 * number,
        seconds=0.25, epsilon_budget=4.0,
    )  # fmt: skip
    return replace(report, **changes)


def mornings(number: int, change_at: int) -> list[Point[PredictorReport]]:
    """A predictor's round a day; the third fails, and the leader changes once."""
    reports = [learnt(n, "<strike>" if n >= change_at else "usual") for n in range(1, number + 1)]
    failed = Point(3, None, failure="nothing was released: 0 <i>of 60</i> clients reported")
    return [failed if r.round == 3 else Point(r.round, r) for r in reports]
