"""Two disjoint halves of a cohort: one finds where to look, the other measures there."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from flwr_kld.cohort.cohort import Participant, require_clients
from flwr_kld.kernel import Unit
from flwr_kld.query.selection import Selection

MANY = 40
"""A cohort of so many clients is split by client, a smaller one by record: a limit from fewer than
20 clients would rest on single ones."""


@dataclass(frozen=True)
class Part:
    """Who is asked in one exchange of a check, and for which records."""

    participants: list[Participant]  # Clients of this part
    selection: Selection  # Which of their records
    # What is taken for a draw from the population: a client, or each record of these clients
    by: Literal["client", "record"] = "client"


def draws_of(clients: int, least: int, unit: Unit) -> Literal["client", "record"]:
    """Return what a cohort is split by, as `Part.by`; the parameters are those of `halves`."""
    few = clients < max(MANY, 2 * least)
    return "record" if few and unit is Unit.RECORD else "client"


def halves(
    chosen: list[Participant],
    selection: Selection,
    least: int,
    unit: Unit,
    generator: np.random.Generator,
) -> tuple[Part, Part]:
    """Split at random by client, or each client's records where clients are few.

    What halves of clients tell is about the population that clients are drawn from; what halves of
    records tell, about these very clients.
    """
    if unit is Unit.CLIENT:
        require_clients(len(chosen), 2 * least, "were drawn into the cohort's two halves")
    if draws_of(len(chosen), least, unit) == "record":
        first, second = selection.halves()
        return Part(chosen, first, "record"), Part(chosen, second, "record")
    order = [chosen[i] for i in generator.permutation(len(chosen))]
    middle = len(order) // 2
    return Part(order[:middle], selection), Part(order[middle:], selection)
