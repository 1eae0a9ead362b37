"""What a year of checks costs one person, under rotation."""

from __future__ import annotations

import math

from flwr_kld.accounting.pld import composed_epsilon
from flwr_kld.planner.setting import Setting

YEARLY_DELTA = 1e-6


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
