"""Two disjoint halves of a cohort: one finds where to look, the other measures there."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from flwr_kld.cohort.cohort import Participant, require_clients
from flwr_kld.kernel import Unit
from flwr_kld.query.selection import Selection

MANY = 40
"""A cohort of so many clients is split by client, a smaller one by record, unless it is said whom a
check is about: a limit from fewer than 20 clients would rest on single ones."""

About = Literal["these clients", "the population"]
"""Whom a verdict is about: the very clients that are asked, or those that they were drawn from."""


@dataclass(frozen=True)
class Part:
    """Who is asked in one exchange of a check, and for which records."""

    participants: list[Participant]  # Clients of this part
    selection: Selection  # Which of their records
    # What is taken for a draw from the population: a client, or each record of these clients
    by: Literal["client", "record"] = "client"


def draws_of(
    clients: int, least: int, unit: Unit, about: About | None = None
) -> Literal["client", "record"]:
    """Return what a cohort is split by, as `Part.by`; the parameters are those of `halves`."""
    if about is not None:
        return "record" if about == "these clients" else "client"
    few = clients < max(MANY, 2 * least)
    return "record" if few and unit is Unit.RECORD else "client"


def halves(
    chosen: list[Participant],
    selection: Selection,
    least: int,
    unit: Unit,
    generator: np.random.Generator,
    about: About | None = None,
) -> tuple[Part, Part]:
    """Split at random by client, or each client's records: where clients are few, unless told.

    What halves of clients tell is about the population that clients are drawn from; what halves of
    records tell, about these very clients.

    Raises
    ------
    CheckFailed
        If clients are too few for halves of them; nobody has been asked.
    """
    if unit is Unit.CLIENT or about == "the population":
        least_of_both = max(2 * least, MANY if about == "the population" else 0)
        require_clients(len(chosen), least_of_both, "were drawn into the cohort's two halves")
    if draws_of(len(chosen), least, unit, about) == "record":
        first, second = selection.halves()
        return Part(chosen, first, "record"), Part(chosen, second, "record")
    order = [chosen[i] for i in generator.permutation(len(chosen))]
    middle = len(order) // 2
    return Part(order[:middle], selection), Part(order[middle:], selection)
