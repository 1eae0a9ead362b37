"""What a check of a given setting will tell, find and cost."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from flwr_kld.accounting.composition import composed_epsilon
from flwr_kld.inference.estimators.registry import Estimator
from flwr_kld.kernel.arguments import instance
from flwr_kld.planner.accuracy import expected_accuracy
from flwr_kld.planner.detection import smallest_drift
from flwr_kld.planner.drift import Drift, Path, Shape
from flwr_kld.planner.setting import Setting
from flwr_kld.query.partition import Partition
from flwr_kld.query.plan import QueryPlan
from flwr_kld.reference import Reference
from flwr_kld.trust.traffic import Traffic

YEARLY_DELTA = 1e-6
_EXCHANGES = {"plain-sum": 1, "secure-sum": 4, "sealed-sum": 2, "split-sum": 2}
_SET_UP = 2
"""Exchanges of a secure sum that a second one over the same clients does not repeat."""
_WAIT = 5.0
"""Seconds of an exchange of messages on a deployment, whose nodes poll: 3 to 10."""
_CPU = {"plain-sum": 2e-4, "secure-sum": 1.3e-3, "sealed-sum": 4e-4, "split-sum": 4e-4}
"""Seconds of the server for each client, on one core: 0.2 ms a message of Flower's, and 0.5 ms for
the sum's own arithmetic (``simulations/bench/secure_sum.py``)."""


@dataclass(frozen=True)
class Forecast:
    """One row of a plan."""

    setting: Setting  # What was forecast
    counted: int  # Records in one exchange
    noise: float  # Standard deviation in each cell, in records
    # Of the estimate where the population's divergence is the threshold, in nats: see `Accuracy`
    truth: float
    reading: float
    sampling: float
    privacy: float
    error: float
    # Least divergence that is found with the setting's power, in nats; None if none is, or if the
    # setting has no threshold
    smallest: float | None
    drift: str  # Shape of the drift that both are for
    checks_per_person: int  # Checks of a year that touch one person at most
    epsilon_per_year: float  # Epsilon of all of them, in nats, at delta 1e-6
    bytes_down: int  # Payload of a client in the exchange that counts
    bytes_up: int
    seconds: float  # Of a check; rough
    # Of a table: the column that is the hardest to check, which the divergences are of
    column: str | None = None
    # Of a table: each column's own, that one first. Noise, epsilon, bytes and seconds are those of
    # all columns together.
    columns: dict[str, Forecast] = field(default_factory=dict)

    @property
    def by_column(self) -> tuple[Forecast, ...]:
        """Forecast of each column of a table, the hardest first; else this one alone."""
        return tuple(self.columns.values()) or (self,)

    def to_dict(self) -> dict[str, Any]:
        """Return one flat, JSON-able row: the setting, then the forecast, without `columns`."""
        apart = ("setting", "columns")
        own = {name: value for name, value in vars(self).items() if name not in apart}
        return {**self.setting.to_dict(), **own}


def forecast(
    reference: Reference,
    setting: Setting,
    *,
    drift: Shape | Path = "spread",
    estimator: str | Estimator = "posterior_counts",
    query: QueryPlan | None = None,
) -> Forecast:
    """Say what a check will do, without asking anybody. Takes a few seconds; deterministic.

    Of a table, each column is forecast against its own reference, with the noise that hides a
    record in all of them, and found at its part of the rate of false alarms (Bonferroni).

    Parameters
    ----------
    reference : Reference
        Π.
    setting : Setting
        How to check. Its trust model is bound to the columns of a table.
    drift : {"spread", "concentrated"} or Path
        How a drift is shaped: see `Drift`, and `Towards` for one towards any other law. What hides
        in many small movements takes more to find. The columns of a table drift each by itself: to
        plan for a path, forecast its column, with ``trust.over(columns)``.
    estimator : str or Estimator
        Name of the estimator, or the function.
    query : QueryPlan, optional
        Cells; by default a partition, drawn from a fixed seed.

    Raises
    ------
    ValueError
        If a drift is out of reach, or a path is given for a table.
    """
    instance("reference", reference, Reference, "a Reference, and come first")
    instance("setting", setting, Setting, "a Setting(clients=…, records=…, trust=…)")
    query = query or Partition(setting.cells).draw(reference, np.random.default_rng(0))
    if not reference.columns:
        return _forecast(setting, query, traffic_of(setting, query), drift, estimator)
    if isinstance(drift, Path):
        raise ValueError(
            "the columns of a table drift each by itself: name a shape, 'spread' or "
            "'concentrated', or forecast reference.columns[name] by itself, with "
            "trust.over(columns)"
        )
    setting = replace(setting, trust=setting.trust.over(len(query.columns)))
    traffic = traffic_of(setting, query)
    found = [
        _forecast(setting, own, traffic, drift, estimator, column=name)
        for name, own in zip(reference.columns, query.columns, strict=True)
    ]
    found.sort(key=_difficulty, reverse=True)
    return replace(found[0], columns={str(one.column): one for one in found})


def _forecast(
    setting: Setting,
    query: QueryPlan,
    traffic: Traffic,
    drift: Shape | Path,
    estimator: str | Estimator,
    column: str | None = None,
) -> Forecast:
    """Forecast a plan of one column; where it is of a table, at its part of the rate."""
    moves = drift if isinstance(drift, Path) else Drift(query.reference, drift)
    threshold, own = setting.threshold or 0.0, setting
    if column is not None:  # not every column can drift as far as others are allowed to
        threshold = min(threshold, moves.largest(setting.theta))
        own = replace(setting, level=1 - (1 - setting.level) / setting.trust.columns)
    law = moves.at(threshold, setting.theta)
    accuracy = expected_accuracy(setting, query, law, estimator=estimator)
    decides = setting.threshold is not None
    return Forecast(
        setting=setting,
        counted=setting.total,
        noise=math.sqrt(setting.event.noise.variance),
        truth=accuracy.truth,
        reading=accuracy.reading,
        sampling=accuracy.sampling,
        privacy=accuracy.privacy,
        error=accuracy.error,
        smallest=smallest_drift(own, query, moves) if decides else None,
        drift=moves.name,
        checks_per_person=checks_per_person(setting),
        epsilon_per_year=epsilon_per_year(setting),
        bytes_down=traffic.down,
        bytes_up=traffic.up,
        seconds=seconds_of(setting),
        column=column,
    )


def _difficulty(row: Forecast) -> tuple[float, float]:
    return math.inf if row.smallest is None else row.smallest, row.error


def plan(
    reference: Reference,
    settings: Iterable[Setting],
    *,
    drift: Shape | Path = "spread",
    estimator: str | Estimator = "posterior_counts",
) -> list[Forecast]:
    """Forecast every setting; the parameters are those of `forecast`.

    Examples
    --------
    >>> from flwr_kld import Labels, Reference
    >>> from flwr_kld.trust.trusted import Trusted
    >>> reference = Reference.from_probabilities(Labels(["cat", "dog"]), [0.5, 0.5])
    >>> models = [Trusted(epsilon) for epsilon in (0.5, 2.0)]
    >>> settings = [Setting(clients=100, records=50, trust=trust) for trust in models]
    >>> [f"{row.noise:.1f}" for row in plan(reference, settings)]
    ['5.6', '1.4']
    """
    return [forecast(reference, setting, drift=drift, estimator=estimator) for setting in settings]


def traffic_of(setting: Setting, plan: QueryPlan) -> Traffic:
    """Return what a client of a cohort without dropouts is sent and sends in one exchange."""
    clients = setting.answering
    return setting.trust.traffic(
        plan,
        aggregation=_aggregation(setting),
        clients=clients,
        known=max(setting.population or 0, clients),
        twice=_twice(setting),
    )


def seconds_of(setting: Setting) -> float:
    """Return the seconds of a check. Rough: how often nodes poll decides."""
    name = _aggregation(setting)
    halves = 1 if setting.threshold is None else 2
    exchanges = halves * _EXCHANGES[name]
    if name == "secure-sum" and _twice(setting):
        exchanges -= _SET_UP
    return exchanges * _WAIT + halves * setting.answering * _CPU[name]


def _twice(setting: Setting) -> bool:
    """Whether the same clients are asked in both halves of a check."""
    return setting.threshold is not None and setting.by == "record"


def _aggregation(setting: Setting) -> str:
    return setting.aggregation or setting.trust.aggregations[0]


def checks_per_person(setting: Setting) -> int:
    """Return how many checks of a year touch the person who is asked most often.

    Nobody's turn comes twice more often than another's: cohorts take turns among the population,
    records among their buckets.
    """
    if setting.buckets > 1:
        return math.ceil(setting.checks / setting.buckets)
    return math.ceil(setting.checks * setting.clients / (setting.population or setting.clients))


def epsilon_per_year(setting: Setting) -> float:
    """Epsilon, in nats, at delta 1e-6, of all checks of a year that touch one person.

    The tighter of the sum and the composition of the privacy losses of the noise that is drawn.
    """
    times = checks_per_person(setting)
    total = times * setting.epsilon
    if times == 1:
        return total
    return min(total, composed_epsilon(((setting.trust.cost(), times),), YEARLY_DELTA))
