"""Whether a check fits a budget, and what to say where it does not."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Sequence

from flwr_kld.ledger.budget import UNBOUNDED, Budget, Spent
from flwr_kld.ledger.composition import Spend, worst
from flwr_kld.ledger.entry import utc
from flwr_kld.ledger.errors import BudgetExhausted
from flwr_kld.privacy.amounts import ATTO, NANO, shown


def spent_by(past: Sequence[Spend], budget: Budget) -> Spent:
    """Return what the most-charged person has spent; `past` is the window, oldest first."""
    needed = worst(past, budget)
    return Spent(
        epsilon=math.inf if needed.epsilon >= UNBOUNDED else needed.epsilon / 10**NANO,
        delta=needed.delta / 10**ATTO,
        left=max(budget.nano_epsilon - needed.epsilon, 0) / 10**NANO,
        composition=needed.composition,
        frees_at=utc(past[0].time + budget.seconds + 1) if past else None,
        budget=budget,
    )


def afford(past: Sequence[Spend], new: Sequence[Spend], budget: Budget) -> None:
    """Refuse what would charge anybody whom it asks more than the budget.

    Parameters
    ----------
    past : Sequence[Spend]
        The window.
    new : Sequence[Spend]
        What a check asks for.
    budget : Budget
        In whose terms both are.

    Raises
    ------
    BudgetExhausted
        What is short, and when it frees.
    """
    most = budget.nano_epsilon

    def fits(since: int) -> bool:
        kept = [spend for spend in past if spend.time >= since]
        return worst([*kept, *new], budget, touched=new, at_least=most).epsilon <= most

    if fits(0):
        return
    needed = worst([*past, *new], budget, touched=new).epsilon
    left = max(most - worst(past, budget, touched=new).epsilon, 0)
    times = sorted({spend.time for spend in past})
    leaving = bisect_left(times, True, key=lambda time: fits(time + 1))
    frees_at = utc(times[leaving] + budget.seconds + 1) if leaving < len(times) else None
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
