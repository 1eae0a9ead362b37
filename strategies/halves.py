"""Two disjoint halves of a cohort: one finds where to look, the other measures there."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from flwr_kld.bounds import GROUPS
from flwr_kld.privacy import Unit
from flwr_kld.query import Selection
from flwr_kld.strategies.asking import require
from flwr_kld.strategies.cohort import Participant

_CLIENTS_A_GROUP = 10
"""With fewer clients a group, records are grouped instead."""
_MANY = 40
"""A cohort of so many clients is split by client, a smaller one by record."""


@dataclass(frozen=True)
class Part:
    """Who is asked in one exchange of a check, and for which records.

    Parameters
    ----------
    participants : list[Participant]
        Clients.
    selection : Selection
        Which of their records.
    """

    participants: list[Participant]
    selection: Selection

    def grouped(self) -> Part:
        """Return the same records in `GROUPS` groups: of clients, or of records if they are few.

        Groups of records say how much the records vary within these very clients: the clients
        count as fixed then.
        """
        many = len(self.participants) >= GROUPS * _CLIENTS_A_GROUP
        by: Literal["client", "record"] = "client" if many else "record"
        return Part(self.participants, replace(self.selection, groups=GROUPS, by=by))


def halves(
    chosen: list[Participant],
    selection: Selection,
    least: int,
    unit: Unit,
    generator: np.random.Generator,
) -> tuple[Part, Part]:
    """Split at random by client, or each client's records where clients are few.

    Parameters
    ----------
    chosen : list[Participant]
        The cohort.
    selection : Selection
        Which of their records are asked for at all.
    least : int
        Clients that each half needs.
    unit : Unit
        Whom the noise hides: a client that is asked in both halves would pay twice.
    generator : np.random.Generator
        Public randomness.

    Returns
    -------
    tuple[Part, Part]
        Nobody who is hidden is in both: what each costs, the check costs (parallel composition).

    Raises
    ------
    CheckFailed
        If whole clients are hidden and they are too few for two halves.
    """
    if unit is Unit.CLIENT:
        require(len(chosen), 2 * least, "were drawn into the cohort's two halves")
    if unit is Unit.CLIENT or len(chosen) >= max(_MANY, 2 * least):
        order = [chosen[i] for i in generator.permutation(len(chosen))]
        middle = len(order) // 2
        return Part(order[:middle], selection), Part(order[middle:], selection)
    first, second = selection.halves()
    return Part(chosen, first), Part(chosen, second)
