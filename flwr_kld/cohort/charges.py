"""Whom the exchanges of a check charge, and how much."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from flwr_kld.accounting import Budget, Charge, Cost
from flwr_kld.accounting.pace import Pace
from flwr_kld.cohort.cohort import Cohort, RotatingCohort
from flwr_kld.cohort.halves import Part
from flwr_kld.trust import Trust

logger = logging.getLogger("flwr_kld")

_YEAR = 365
"""Days."""


def charges(trust: Trust, parts: Sequence[Part]) -> list[Charge]:
    """Return what is reserved before a check: each release at its dearest."""
    costs = delivered(trust, [None] * len(parts))
    for exchange, cost in enumerate(costs):
        _require_full_price(trust, exchange, cost)
    return [
        Charge(cost, map(str, part.participants)) for cost, part in zip(costs, parts, strict=True)
    ]


def delivered(trust: Trust, survivors: Sequence[int | None]) -> list[Cost]:
    """Return what each exchange cost in the end: counts first, sums second."""
    releases = (trust.cost, trust.sums_cost)
    return [release(clients) for release, clients in zip(releases, survivors, strict=False)]


def warn_of_pace(budget: Budget, cohort: Cohort, clients: int, cost: Cost, horizon: int) -> None:
    """Log it if a budget has no room for as many checks a year as an alarm's horizon."""
    apart = clients // cohort.size if isinstance(cohort, RotatingCohort) else 1
    checks = int(horizon * budget.window_days / _YEAR) + 1
    pace = Pace(checks, cost, max(apart, 1), budget)
    if horizon > 1 and not pace.fits:
        logger.warning("for Alarm(horizon=%s) as a year of checks: %s", horizon, pace.advice)


def _require_full_price(trust: Trust, exchange: int, cost: Cost) -> None:
    event = (trust.event, trust.sums_event)[exchange](trust.min_clients)
    least = Cost.of(event)
    if cost.protects != least.protects or cost.epsilon < least.epsilon or cost.delta < least.delta:
        raise ValueError(
            f"{type(trust).__name__}(…) charges {cost}, and its event costs {least}: leave cost "
            "and sums_cost as they are"
        )
