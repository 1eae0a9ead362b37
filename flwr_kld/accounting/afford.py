"""Whether a check fits a budget, and what to say where it does not."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from datetime import datetime

import numpy as np

from flwr_kld.accounting.amounts import ATTO, NANO, UNBOUNDED, shown
from flwr_kld.accounting.budget import Budget, Spent
from flwr_kld.accounting.composition import Spend, worst
from flwr_kld.accounting.errors import BudgetExhausted
from flwr_kld.accounting.sums import WIDTH
from flwr_kld.accounting.window import Window

_GUESSES = 4
"""Compositions by which a piece is looked for before halving."""


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
    """Refuse what would charge anybody whom it asks more than the budget."""
    most, past = budget.nano_epsilon, window.spends
    needed = worst([*past, *new], budget, touched=new, at_least=most).epsilon
    if needed <= most:
        return
    left = max(most - worst(past, budget, touched=new).epsilon, 0)
    frees_at = _fits_from(window, new, budget, needed)
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


def _fits_from(
    window: Window, new: Sequence[Spend], budget: Budget, needed: int
) -> datetime | None:
    """Return when so much has left that a check fits which needs too much now; None if never."""
    most, alone = budget.nano_epsilon, worst(new, budget, touched=new).epsilon
    if alone > most:
        return None
    pieces, later, fits = window.pieces, list(new), alone

    def after(i: int) -> list[Spend]:
        return [*later, *(spend for piece in pieces[i + 1 :] for spend in piece.spends)]

    def needed_after(i: int) -> int:
        return worst(after(i), budget, touched=new, at_least=alone).epsilon

    while True:  # into ever smaller pieces
        sizes = [WIDTH**piece.level for piece in pieces]
        last, needed, fits = _crossing(needed_after, sizes, needed, fits, most)
        piece = pieces[last]
        if piece.level == 0:
            return window.leaves_at(piece.block)
        later, pieces = after(last), window.parts(piece)


def _crossing(
    value: Callable[[int], int], sizes: Sequence[int], before: int, after: int, most: int
) -> tuple[int, int, int]:
    """Find the first index whose value is at most `most`, and the values before it and at it.

    Each value may take a composition, and falls almost evenly over the sizes: guess by that, and
    halve what is left where a few guesses were not enough.
    """
    ends = np.cumsum([0, *sizes])  # of the step before each
    low, high = -1, len(sizes) - 1
    guesses = 0
    while high - low > 1:
        middle = (low + high) // 2
        if guesses < _GUESSES:
            share = (before - most) / (before - after)
            place = ends[low + 1] + share * (ends[high + 1] - ends[low + 1])
            middle = min(max(int(np.searchsorted(ends, place)) - 1, low + 1), high - 1)
        guesses += 1
        found = value(middle)
        if found > most:
            low, before = middle, found
        else:
            high, after = middle, found
    return high, before, after
