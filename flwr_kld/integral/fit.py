"""From private records to a law of which only draws may leave.

`mollify` is the default: boost freely, cool the result as held-out records advise, and project it
into the box, which is the best that any law of the box can do for it. `mbde` is the paper's
Algorithm 1, which never leaves the box and needs no finite domain.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray

from flwr_kld.integral.base import FiniteBase, Floats, GaussianBase, finite_points
from flwr_kld.integral.boosting import Boosted, Points, boost, mbde_steps, tilted
from flwr_kld.integral.draws import BoxLaw, RejectionLaw
from flwr_kld.integral.learners import Tree, WeakLearner
from flwr_kld.integral.mollifier import Mollifier, project
from flwr_kld.kernel.arguments import whole
from flwr_kld.kernel.law import BitSource, SystemBits

ROUNDS = 10
_FREE_STEP = 0.5
_FREE_CLAMP = math.log(8)
HELD_OUT = 5
"""One record in five is held out to choose the temperature."""
_TEMPERATURES = (0.05, 0.1, 0.2, 0.35, 0.5, 0.75, 1.0, 1.5, 2.0, 3.0)
_BASE_DRAWS = 10_000
"""Points of Q0 that stand for it on R^d; the paper's number."""


def mollify(
    symbols: ArrayLike,
    base: FiniteBase,
    box: Mollifier,
    *,
    learner: WeakLearner | None = None,
    rounds: int = ROUNDS,
    bits: BitSource | None = None,
) -> BoxLaw:
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
    learner : WeakLearner, optional
        A `Tree` by default.
    rounds : int
        Of boosting. Default 10.
    bits : BitSource, optional
        For the split into records to fit and records held out.

    Returns
    -------
    BoxLaw
        To be drawn from through a `Sampler`. Nothing is spent before that.

    Raises
    ------
    ValueError
        If there are fewer than two records or one is not a symbol of the base.
    WeakLearnerError
        If the learner fails.
    """
    log_ratio, held = boost_freely(symbols, base, learner=learner, rounds=rounds, bits=bits)
    return BoxLaw(base, box, cooled(log_ratio, base, box, held))


def boost_freely(
    symbols: ArrayLike,
    base: FiniteBase,
    *,
    learner: WeakLearner | None = None,
    rounds: int = ROUNDS,
    bits: BitSource | None = None,
) -> tuple[Floats, NDArray[np.int64]]:
    """Boost without any bound on F but float64's; parameters as of `mollify`. Private."""
    counts = base.histogram(symbols)
    records = int(counts.sum())
    _check_records(records)
    rounds = whole("rounds", rounds, least=1)
    order = np.argsort((bits or SystemBits()).words(records))
    shuffled = np.repeat(np.arange(base.size), counts)[order]
    kept = math.ceil(records / HELD_OUT)
    held, used = base.histogram(shuffled[:kept]), base.histogram(shuffled[kept:])
    points = Points(base.features, used / used.sum(), base.mass, records - kept)
    steps = [_FREE_STEP] * rounds
    boosted = boost(points, learner or Tree(), steps, clamp=_FREE_CLAMP)
    return boosted.fitted, held


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


def mbde(
    records: ArrayLike,
    base: FiniteBase | GaussianBase,
    epsilon: float,
    *,
    learner: WeakLearner | None = None,
    rounds: int = ROUNDS,
    tries: int | None = None,
    bits: BitSource | None = None,
) -> RejectionLaw:
    """Fit the paper's mollified boosted density, for rejection from Q0.

    Parameters
    ----------
    records : ArrayLike
        Private: symbols [m] of a finite base, or points [m, d] of a Gaussian one; two or more.
    base : FiniteBase or GaussianBase
        Q0. Public.
    epsilon : float
        Bound for one draw, in nats.
    learner : WeakLearner, optional
        A `Tree` by default; the paper's is `Network`.
    rounds : int
        T. Default 10; the paper takes 3.
    tries : int, optional
        Number of tries of `RejectionLaw`. Public.
    bits : BitSource, optional
        For the points that stand for Q0 on R^d while fitting.

    Returns
    -------
    RejectionLaw
        To be drawn from through a `Sampler`. Nothing is spent before that.

    Raises
    ------
    ValueError
        If there are fewer than two records, or they do not fit the base or are not finite.
    WeakLearnerError
        If the learner fails.
    """
    boosted = mbde_boosted(records, base, epsilon, learner=learner, rounds=rounds, bits=bits)
    if isinstance(base, GaussianBase):
        return RejectionLaw(base, boosted.log_ratio, epsilon, tries=tries)
    table = boosted.fitted
    return RejectionLaw(base, lambda symbols: table[symbols], epsilon, tries=tries)


def mbde_boosted(
    records: ArrayLike,
    base: FiniteBase | GaussianBase,
    epsilon: float,
    *,
    learner: WeakLearner | None = None,
    rounds: int = ROUNDS,
    bits: BitSource | None = None,
) -> Boosted:
    """Return F and the history behind `mbde`: as private as the records."""
    steps = mbde_steps(epsilon, rounds)
    if isinstance(base, GaussianBase):
        points = _with_base_draws(finite_points(records, base.dimension), base, bits)
    else:
        counts = base.histogram(records)
        _check_records(int(counts.sum()))
        points = Points(base.features, counts / counts.sum(), base.mass, int(counts.sum()))
    return boost(points, learner or Tree(), steps)


def _with_base_draws(data: Floats, base: GaussianBase, bits: BitSource | None) -> Points:
    """Put points of Q0, weighted equally, beside the records."""
    _check_records(len(data))
    drawn = base.draw(_BASE_DRAWS, bits or SystemBits())
    target, model = np.zeros((2, len(data) + len(drawn)))
    target[: len(data)] = 1 / len(data)
    model[len(data) :] = 1 / len(drawn)
    return Points(np.concatenate([data, drawn]), target, model, len(data))


def _check_records(records: int) -> None:
    if records < 2:
        raise ValueError(
            "fitting needs at least two records: nothing has been drawn, and nothing spent"
        )
