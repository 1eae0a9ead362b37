"""What checks cost: messages and time of one, privacy of a year of them under rotation."""

from __future__ import annotations

import math

from flwr_kld.accounting.pld import composed_epsilon
from flwr_kld.planner.setting import Setting
from flwr_kld.query.plan import QueryPlan
from flwr_kld.trust.traffic import Traffic

YEARLY_DELTA = 1e-6

_EXCHANGES = {"plain-sum": 1, "secure-sum": 5, "sealed-sum": 2}
_WAIT = 5.0
"""Seconds of an exchange of messages on a deployment, whose nodes poll: 3 to 10."""
_CPU = {"plain-sum": 2e-4, "secure-sum": 1.5e-3, "sealed-sum": 4e-4}
"""Seconds of the server for each client, on one core: 0.2 ms a message of Flower's, and 0.5 ms for
the sum's own arithmetic (``simulations/bench/secure_sum.py``)."""


def traffic_of(setting: Setting, plan: QueryPlan) -> Traffic:
    """Return what a client of a cohort without dropouts is sent and sends in one exchange."""
    clients = setting.answering
    return setting.trust.traffic(
        plan,
        aggregation=_aggregation(setting),
        clients=clients,
        known=max(setting.population or 0, clients),
    )


def seconds_of(setting: Setting) -> float:
    """Return the seconds of a check. Rough: how often nodes poll decides."""
    name = _aggregation(setting)
    exchanges = 1 if setting.threshold is None else 2
    return exchanges * (_EXCHANGES[name] * _WAIT + setting.answering * _CPU[name])


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
