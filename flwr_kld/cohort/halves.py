"""Two disjoint halves of a cohort: one finds where to look, the other measures there."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from flwr_kld.cohort.cohort import Participant, require_clients
from flwr_kld.inference.witness import GROUPS
from flwr_kld.privacy import Unit
from flwr_kld.query.selection import Selection

_MANY = 4 * GROUPS
"""A cohort of so many clients is split and grouped by client, a smaller one by record: with fewer
than two clients for each group of a half, the bound would rest on single clients."""
_MANY_SHOWN = 20 * GROUPS
"""The same where a server that sees sums only would see those of groups, without noise: ten clients
a group. (Clients refuse fewer than they want in a group, ``ClientPolicy.min_cohort``.)"""


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


def halves(
    chosen: list[Participant],
    selection: Selection,
    least: int,
    unit: Unit,
    generator: np.random.Generator,
    *,
    shown: bool = False,
) -> tuple[Part, Part]:
    """Split at random by client, or each client's records where clients are few.

    The second half answers in `GROUPS` groups of clients: its bound is one for the population that
    clients were drawn from. Where they are fewer than 40 (200 if groups' sums are `shown`), in
    groups of records: these say how much records vary within these very clients, who count as
    fixed.

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
    shown : bool
        Whether a server that sees no client's counts would see the groups' sums without noise.

    Returns
    -------
    tuple[Part, Part]
        Nobody who is hidden is in both: what each costs, the check costs (parallel composition).
        The second one in groups.

    Raises
    ------
    CheckFailed
        If whole clients are hidden and they are too few for two halves.
    """
    if unit is Unit.CLIENT:
        require_clients(len(chosen), 2 * least, "were drawn into the cohort's two halves")
    many = _MANY_SHOWN if shown else _MANY
    if unit is Unit.RECORD and len(chosen) < max(many, 2 * least):
        first, second = selection.halves()
        return Part(chosen, first), Part(chosen, replace(second, groups=GROUPS, by="record"))
    by: Literal["client", "record"] = "client" if len(chosen) >= many else "record"
    order = [chosen[i] for i in generator.permutation(len(chosen))]
    middle = len(order) // 2
    grouped = replace(selection, groups=GROUPS, by=by)
    return Part(order[:middle], selection), Part(order[middle:], grouped)
