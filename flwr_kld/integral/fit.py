"""Fits a density of a box to private records; only draws from it may leave.

`mollify` is the default: boost freely, cool the result as held-out records advise, and project it
into the box, which is the best that any law of the box can do for it. `mbde` is the paper's
Algorithm 1, which never leaves its box.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray

from flwr_kld.integral.base import FiniteBase, Floats
from flwr_kld.integral.boosting import boost, mbde_steps, tilted
from flwr_kld.integral.draws import BoxLaw
from flwr_kld.integral.mollifier import Mollifier, project
from flwr_kld.kernel.arguments import instance, integer
from flwr_kld.kernel.law import BitSource, SystemBits

ROUNDS = 10
_FREE_STEP = 0.5
_FREE_CLAMP = math.log(8)
HELD_OUT = 5
"""One record in five is held out to choose the temperature."""
_TEMPERATURES = (0.05, 0.1, 0.2, 0.35, 0.5, 0.75, 1.0, 1.5, 2.0, 3.0)


def mollify(symbols: ArrayLike, base: FiniteBase, box: Mollifier) -> BoxLaw:
    """Fit a law of the box to records on a finite base.

    Parameters
    ----------
    symbols : ArrayLike
        Private records, integers in 0..base.size-1, shape [m], two or more. On R^d, the cells
        that `GaussianCells.encode` returns.
    base : FiniteBase
        Q0. Public.
    box : Mollifier
        The set of laws. Public.

    Returns
    -------
    BoxLaw
        To be drawn from through a `Sampler`. Nothing is spent before that.

    Raises
    ------
    ValueError
        If there are fewer than two records or one is not a symbol of the base.
    """
    log_ratio, held = boost_freely(symbols, base)
    return BoxLaw(base, box, cooled(log_ratio, base, box, held))


def boost_freely(
    symbols: ArrayLike, base: FiniteBase, *, rounds: int = ROUNDS, bits: BitSource | None = None
) -> tuple[Floats, NDArray[np.int64]]:
    """Boost without any bound on F but float64's; bits split off the records held out. Private."""
    counts = _counted(symbols, base)
    records, rounds = int(counts.sum()), integer("rounds", rounds, least=1)
    order = np.argsort((bits or SystemBits()).words(records))
    shuffled = np.repeat(np.arange(base.size), counts)[order]
    kept = math.ceil(records / HELD_OUT)
    held, used = base.histogram(shuffled[:kept]), base.histogram(shuffled[kept:])
    target, steps = used / used.sum(), [_FREE_STEP] * rounds
    fitted = boost(base.features, target, base.mass, records - kept, steps, clamp=_FREE_CLAMP)
    return fitted, held


def cooled(log_ratio: Floats, base: FiniteBase, box: Mollifier, held: NDArray[np.int64]) -> Floats:
    """Project ``Q0 e**(β F)`` for the β that held-out records like best; Q0 if they like none."""
    # Shapes: log_ratio [n], held [n].
    best, chosen = 0.0, base.mass
    seen = np.flatnonzero(held)
    for temperature in _TEMPERATURES:
        density = project(tilted(base.mass, temperature * log_ratio), base, box)
        gain = float(held[seen] @ np.log(density[seen] / base.mass[seen]))
        if gain > best:
            best, chosen = gain, density
    return chosen


def mbde(symbols: ArrayLike, base: FiniteBase, epsilon: float, *, rounds: int = ROUNDS) -> BoxLaw:
    """Fit the paper's mollified boosted density in some rounds; the rest is as of `mollify`.

    Its box is the symmetric one of this epsilon. The paper takes 3 rounds.
    """
    fitted = mbde_boosted(symbols, base, epsilon, rounds=rounds)
    return BoxLaw(base, Mollifier.symmetric(epsilon), tilted(base.mass, fitted))


def mbde_boosted(
    symbols: ArrayLike, base: FiniteBase, epsilon: float, *, rounds: int = ROUNDS
) -> Floats:
    """Return F of `mbde`, shape [n]: as private as the records."""
    steps, counts = mbde_steps(epsilon, rounds), _counted(symbols, base)
    records = int(counts.sum())
    return boost(base.features, counts / records, base.mass, records, steps)


def _counted(symbols: ArrayLike, base: FiniteBase) -> NDArray[np.int64]:
    instance("base", base, FiniteBase, "a FiniteBase, such as FiniteBase.of(reference)")
    counts = base.histogram(symbols)
    if counts.sum() < 2:
        raise ValueError(
            "fitting needs at least two records: nothing has been drawn, and nothing spent"
        )
    return counts
