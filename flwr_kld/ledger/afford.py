"""Whether a check fits a budget, and what to say where it does not."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Sequence
from datetime import datetime

from flwr_kld.ledger.budget import UNBOUNDED, Budget, Spent
from flwr_kld.ledger.composition import Spend, worst
from flwr_kld.ledger.errors import BudgetExhausted
from flwr_kld.ledger.window import Window
from flwr_kld.privacy.amounts import ATTO, NANO, shown


def spent_by(window: Window, budget: Budget) -> Spent:
    """Return what the most-charged person has spent in a window."""
    needed = worst(window.spends, budget)
    return Spent(
        epsilon=math.inf if needed.epsilon >= UNBOUNDED else needed.epsilon / 10**NANO,
        delta=needed.delta / 10**ATTO,
        left=max(budget.nano_epsilon - needed.epsilon, 0) / 10**NANO,
        composition=needed.composition,
        frees_at=window.frees_at,
        budget=budget,
    )


def afford(window: Window, new: Sequence[Spend], budget: Budget) -> None:
    """Refuse what would charge anybody whom it asks more than the budget.

    Parameters
    ----------
    window : Window
        What counts now.
    new : Sequence[Spend]
        What a check asks for.
    budget : Budget
        In whose terms both are.

    Raises
    ------
    BudgetExhausted
        What is short, and when it frees.
    """
    most, past = budget.nano_epsilon, window.spends
    if _fits([*past, *new], new, budget):
        return
    needed = worst([*past, *new], budget, touched=new).epsilon
    left = max(most - worst(past, budget, touched=new).epsilon, 0)
    frees_at = _fits_from(window, new, budget)
    raise BudgetExhausted(
        f"the budget of {budget.population!r} ({budget}) has no room: of those whom this check "
        f"asks, the most-charged has epsilon {shown(left, NANO)} left and would come to "
        + ("more than delta allows" if needed >= UNBOUNDED else shown(needed, NANO))
        + (
            "; the check by itself is more than the budget: it never fits"
            if frees_at is None
            else f"; it fits from {frees_at:%Y-%m-%d %H:%M:%S} UTC on"
        ),
        left=left / 10**NANO,
        frees_at=frees_at,
    )


def _fits(spends: Sequence[Spend], new: Sequence[Spend], budget: Budget) -> bool:
    most = budget.nano_epsilon
    return worst(spends, budget, touched=new, at_least=most).epsilon <= most


def _fits_from(window: Window, new: Sequence[Spend], budget: Budget) -> datetime | None:
    """Return when so much has left that the check fits: by halving, into ever smaller pieces."""
    pieces, later = window.pieces, list(new)

    def after(i: int) -> list[Spend]:
        return [*later, *(spend for piece in pieces[i + 1 :] for spend in piece.spends)]

    while True:
        last = bisect_left(range(len(pieces)), True, key=lambda i: _fits(after(i), new, budget))
        if last == len(pieces):
            return None
        piece = pieces[last]
        if piece.level == 0:
            return window.leaves_at(piece.block)
        later, pieces = after(last), window.parts(piece)
