"""What a client adds up for the scores of a table's columns: exactly, and all columns at once.

Beside the counts everything here is public: tables of the scores and their units are made once for
a question, and kept.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from flwr_kld.kernel.promise import Guarantee
from flwr_kld.query.scores import Scores

Asked = tuple[Scores, ...]
"""Scores of each column: `check_scores` holds."""
_QUESTIONS = 4
"""Of which tables are kept."""


def numbers_of(scores: Asked, counts: NDArray[np.integer]) -> list[int]:
    """Compute a client's `NUMBERS` of each column from its counts, shape [cells]: whole and exact.

    In columns' order, in steps of scores.
    """
    starts, tables, ceilings = _tables(scores)
    sums = np.add.reduceat(counts * tables, starts, axis=1, dtype=np.int64)
    if scores[0].by == "record":
        return [int(number) for number in sums.T.ravel()]
    totals = np.minimum(sums[0], ceilings).tolist()
    columns = zip(totals, *sums[1:].tolist(), strict=True)
    # squares exceed 64 bits
    return [x for s, records, out in columns for x in (s, s * s, records, out, out * out)]


def answer_of(
    scores: Asked, counts: NDArray[np.integer], guarantee: Guarantee, coins: NDArray[np.uint64]
) -> NDArray[np.int32]:
    """Compute a client's numbers of each column in whole steps; shape [5 · columns].

    Rounded up or down at random so that the mean stays: what one record moves, it moves by as many
    steps at most whatever the coins, so the coins of two neighbours can be the same.

    Parameters
    ----------
    scores : tuple[Scores, ...]
        What is added up in each column.
    counts : NDArray[np.integer]
        The client's, shape [cells].
    guarantee : Guarantee
        Which the steps fit.
    coins : NDArray[np.uint64]
        Random words of the client, shape [5 · columns].
    """
    parts = zip(
        numbers_of(scores, counts), coins.tolist(), _fractions(scores, guarantee), strict=True
    )
    # floor(number / unit + coin / 2**64), in whole numbers
    steps = [(((x * down) << 64) + coin * up) // (up << 64) for x, coin, (up, down) in parts]
    return np.array(steps, dtype=np.int32)


@lru_cache(maxsize=_QUESTIONS)
def limits_of(scores: Asked, guarantee: Guarantee) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the least and the largest number of steps that an honest client can answer."""
    low, high = np.concatenate([each.limits(guarantee) for each in scores], axis=1)
    return low, high


@lru_cache(maxsize=_QUESTIONS)
def _tables(
    scores: Asked,
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """First cell of each column; what is summed, of each cell; and ceilings."""
    starts = np.cumsum([0, *(each.cells for each in scores)])[:-1]
    divergence, outside = np.concatenate([each.tables for each in scores], axis=1)
    one = np.ones_like(outside)
    if scores[0].by == "record":
        summed = [divergence, divergence**2, one, outside, outside**2]
    else:
        summed = [divergence, one, outside]
    return starts, np.stack(summed), np.array([each.ceiling for each in scores])


@lru_cache(maxsize=_QUESTIONS)
def _fractions(scores: Asked, guarantee: Guarantee) -> list[tuple[int, int]]:
    """Numerator and denominator of the unit of each number of each column."""
    return [unit.as_integer_ratio() for each in scores for unit in each.fractions(guarantee)]
