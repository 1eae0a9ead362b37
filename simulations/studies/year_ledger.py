"""A year of rotating cohorts in a real ledger, and its price computed anew by dp-accounting."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from dp_accounting.pld import privacy_loss_distribution as pld

from flwr_kld.accounting import Budget, Charge, Clients, Cost, Ledger
from flwr_kld.cohort.cohort import Participant, RotatingCohort
from flwr_kld.kernel.release import Release

_DAY = 86_400


@dataclass(frozen=True)
class Price:
    """What a year cost the person who was asked most."""

    asked: int  # How often that was
    ledger: float  # Largest epsilon that the ledger showed on any day, in nats
    dp_accounting: float  # The same, of so many discrete Laplace releases, by dp-accounting alone


def price_of(
    event: Release,
    budget: Budget,
    *,
    people: int,
    cohort: int,
    days: Iterable[int],
    file: Path,
) -> Price:
    """Reserve and settle a check a day, of whoever was asked longest ago, half and half.

    A day that the budget does not cover raises BudgetExhausted.
    """
    ledger = Ledger(f"sqlite:///{file}")
    ledger.set_budget(budget, now=0)
    present = [Participant(node) for node in range(people)]
    rotation, generator = RotatingCohort(cohort), np.random.default_rng(0)
    asked: Counter[Participant] = Counter()
    most, cost = 0.0, Cost.of(event)
    for day in days:
        rotation.recall(ledger.rotation(), present)
        chosen = rotation.draw(present, generator)
        halves = chosen[: cohort // 2], chosen[cohort // 2 :]
        charges = [Charge(cost, Clients(map(str, half))) for half in halves]
        ledger.settle(ledger.reserve(f"day {day}", charges, now=day * _DAY), {}, now=day * _DAY)
        asked.update(chosen)
        most = max(most, ledger.spent(now=day * _DAY).epsilon)
    times = max(asked.values())
    return Price(times, most, _epsilon(event, times, budget.delta))


def _epsilon(event: Release, times: int, delta: float) -> float:
    """Epsilon of so many releases at `delta`, from the noise's rate on neighbouring integers."""
    rate = math.log(event.table.probability(0) / event.table.probability(1))
    one = pld.from_discrete_laplace_mechanism(rate, value_discretization_interval=rate)
    return float(one.self_compose(2 * times).get_epsilon_for_delta(delta))
