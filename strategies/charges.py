"""Whom a check charges, and how much."""

from __future__ import annotations

import logging

from flwr_kld.ask.cohort import AskedClients, Cohort, RotatingCohort
from flwr_kld.ledger import Budget, Charge, Cost
from flwr_kld.ledger.pace import Pace
from flwr_kld.trust import Trust

logger = logging.getLogger("flwr_kld")

_YEAR = 365
"""Days."""


def charge_of(trust: Trust, asked: AskedClients) -> Charge:
    """Return what is reserved before a check: its release at its dearest."""
    cost, least = trust.cost(), Cost.of(trust.event(trust.min_clients))
    if cost.protects != least.protects or cost.epsilon < least.epsilon or cost.delta < least.delta:
        raise ValueError(
            f"{type(trust).__name__}(…) charges {cost}, and its event costs {least}: leave cost as "
            "it is"
        )
    return Charge(cost, map(str, asked.participants))


def warn_of_pace(budget: Budget, cohort: Cohort, clients: int, cost: Cost, horizon: int) -> None:
    """Log it if a budget has no room for as many checks a year as an alarm's horizon."""
    apart = clients // cohort.size if isinstance(cohort, RotatingCohort) else 1
    checks = int(horizon * budget.window_days / _YEAR) + 1
    pace = Pace(checks, cost, max(apart, 1), budget)
    if horizon > 1 and not pace.fits:
        logger.warning("for Alarm(horizon=%s) as a year of checks: %s", horizon, pace.advice)
