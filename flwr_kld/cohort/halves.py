"""Whom a check asks: all for counts, or two disjoint halves of a cohort.

Of halves, one finds where to look, and the other measures there.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from flwr_kld.cohort.cohort import Cohort, Participant, require_clients
from flwr_kld.kernel import Guarantee

MANY = 40
"""A sample of so many clients tells of a population, a smaller one of itself: a limit from fewer
than 20 clients would rest on single ones."""

About = Literal["these clients", "the population"]
"""Whom a verdict is about: the very clients that are asked, or those that they were drawn from."""


@dataclass(frozen=True)
class Part:
    """Who is asked in one exchange of a check."""

    participants: list[Participant]  # Clients of this part
    # What is taken for a draw from the population: a client, or each record of these clients
    by: Literal["client", "record"] = "client"
    # How many changes of a record count, in a standing session; None outside of one
    changes: int | None = None


def whom(clients: int, present: int, least: int, guarantee: Guarantee) -> About:
    """Return whom a verdict is about unless it is said: these clients, if they are all or few."""
    # So many `clients` are asked of those `present`; at least `least` have to answer an exchange.
    # Where whole clients are hidden, they are what is drawn.
    if guarantee.protects != "record":
        return "the population"
    few = clients < max(MANY, 2 * least)
    return "these clients" if clients == present or few else "the population"


def draws(cohort: Cohort | None, least: int, guarantee: Guarantee) -> bool:
    """Whether a rule asks a part of the clients, and so many that it is about a population."""
    size = getattr(cohort, "size", None)
    return isinstance(size, int) and whom(size, size + 1, least, guarantee) == "the population"


def halves(
    chosen: list[Participant],
    least: int,
    generator: np.random.Generator,
) -> tuple[Part, Part]:
    """Split clients at random, for a check about their population."""
    require_clients(len(chosen), 2 * least, "were drawn into the cohort's two halves")
    order = [chosen[i] for i in generator.permutation(len(chosen))]
    middle = len(order) // 2
    return Part(order[:middle]), Part(order[middle:])
