"""Whom the exchanges of a check touch, and what they cost these people."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from functools import reduce

from flwr_kld.accounting import Budget, Charge, Clients, Cost, RecordBuckets
from flwr_kld.accounting.pace import Pace, Turns
from flwr_kld.cohort.cohort import Cohort, RotatingCohort, RotatingRecords
from flwr_kld.cohort.halves import Part
from flwr_kld.trust import Trust

logger = logging.getLogger("flwr_kld")

_YEAR = 365
"""Days."""


def charges(trust: Trust, parts: Sequence[Part]) -> list[Charge]:
    """Return what is reserved before a check: each release at its dearest."""
    for i in {i for _, paid in _touched(parts) for i in paid}:
        _require_full_price(trust, i)
    return [Charge(_dearest(trust, paid, {}), whom) for whom, paid in _touched(parts)]


def delivered(trust: Trust, parts: Sequence[Part], survivors: Sequence[int | None]) -> list[Cost]:
    """Return what each charge cost in the end: the dearest exchange that it pays for."""
    known = dict(enumerate(survivors))
    return [_dearest(trust, paid, known) for _, paid in _touched(parts)]


def warn_of_pace(budget: Budget, cohort: Cohort, clients: int, cost: Cost, horizon: int) -> None:
    """Log it if a budget has no room for as many checks a year as an alarm's horizon."""
    turns = Turns()
    if isinstance(cohort, RotatingCohort):
        turns = Turns(clients=cohort.size)
    elif isinstance(cohort, RotatingRecords):
        turns = Turns(buckets=cohort.buckets)
    checks = int(horizon * budget.window_days / _YEAR) + 1
    pace = Pace(checks, cost, turns.length(clients), budget)
    if horizon > 1 and not pace.fits:
        logger.warning("for Alarm(horizon=%s) as a year of checks: %s", horizon, pace.advice)


def _dearest(trust: Trust, paid: Sequence[int], survivors: Mapping[int, int | None]) -> Cost:
    """Return what no exchange that is paid for costs more than: counts first, sums second."""
    releases = (trust.cost, trust.sums_cost)
    return reduce(Cost.either, [releases[i](survivors.get(i)) for i in paid])


def _require_full_price(trust: Trust, exchange: int) -> None:
    event = (trust.event, trust.sums_event)[exchange](trust.min_clients)
    cost, least = (trust.cost, trust.sums_cost)[exchange](), Cost.of(event)
    if cost.protects != least.protects or cost.epsilon < least.epsilon or cost.delta < least.delta:
        raise ValueError(
            f"{type(trust).__name__}(…) charges {cost}, and its event costs {least}: leave cost "
            "and sums_cost as they are"
        )


def _touched(parts: Sequence[Part]) -> list[tuple[Clients | RecordBuckets, list[int]]]:
    """Return whom each charge touches, and which exchanges it pays for."""
    # `halves` asks nobody who is hidden twice. Where what both halves take has a name (the buckets
    # of their clients' records), one charge pays for both; otherwise each has its own.
    selection = parts[0].selection
    if selection.takes_all:
        return [(Clients(map(str, part.participants)), [i]) for i, part in enumerate(parts)]
    buckets = RecordBuckets(selection.key, selection.modulus, selection.residues)
    return [(buckets, list(range(len(parts))))]
