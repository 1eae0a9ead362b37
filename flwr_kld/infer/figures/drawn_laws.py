"""Draws from the posterior law of the clients' fractions, given noisy counts.

Any figure of noisy fractions is biased: noise looks like drift. A figure of fractions drawn from
their posterior has neither that bias nor the opposite one, and its spread over draws is its error.

1. Prior: a cell's fraction lies off Π by ``τ t sqrt(Π)``, where t has heavy tails: most cells of a
   drift move little and a few much. It is a mixture of normal laws of geometrically growing
   deviations, as in adaptive shrinkage (Stephens 2017, doi:10.1093/biostatistics/kxw041), whose
   weights one number τ gives. τ is unknown: every value on a grid may be it, or 0, for no drift.
2. A count is normal around its fraction; noise with heavier tails is a mixture of two normal laws.
3. All fractions sum to 1: draws are moved there as normal variables condition on their sum.

Numbers that were tuned, and the root mean square errors of the total variation and of the PSI in
120 cohorts of 8 to 122 cells, drifted or not, if they are halved, and doubled: .020 and .074 as
they are, and every interval of a distance holds in all of these.

===========  ========  =============================================================================
number       unit      meaning, and what a half or twice as much does
===========  ========  =============================================================================
NEGLIGIBLE   fraction  that stands for less than itself, where figures or the prior divide by it; a
                       part of the PSI's definition: .020, .082 / .020, .065
_DEVIATIONS  √Π        of a fraction off Π, over √Π: the components of the prior; the first one
                       halved or doubled, and half and twice as many: .019, .064 / .023, .085,
                       and .024, .098 / .019, .074
_TAIL        weights   of the deviations τ, 2.5 τ, 6.25 τ, …: Student's t with about two degrees of
                       freedom; of one or four, and half and twice as many: .025, .051 / .024,
                       .106, and .020, .076 / no change
_NO_DRIFT    chance    of τ = 0, a priori: .021, .074 / .019, .074
_DRAWS       laws      that are drawn, of which an end leaves out two: no change, but intervals of
                       the total variation are .132 / .124 wide for .135
_NUMBERS     numbers   in all draws at most, as far as ends allow it: less time for many cells
===========  ========  =============================================================================

`_KEPT` random numbers are drawn once, enough for columns of 1,310 cells.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import lru_cache

import numpy as np
import scipy

from flwr_kld.ask.noisy import NoisyCounts
from flwr_kld.infer.cell_fractions import as_law, fraction_noise
from flwr_kld.infer.estimators.design_effect import DesignEffects
from flwr_kld.infer.fraction_interval import LEVEL, Floats
from flwr_kld.kernel.law import NoiseTable

NEGLIGIBLE = 1e-4
_DEVIATIONS = np.append(0.0, 0.002 * 2.5 ** np.arange(10))
_TAIL = 2.5 ** (-2.0 * np.arange(6))
_NO_DRIFT = 0.1
_DRAWS, _NUMBERS = 100, 1 << 20
_FEWEST = math.ceil(2 / (1 - LEVEL))  # Not tuned: an end of an interval leaves out one at least
_KEPT = 1 << 17
_AT_ONCE = 1 << 14  # Not tuned: numbers of an array of which a processor's cache holds a few
_TINY = 1e-290  # Not tuned: keeps logarithms finite
_LEAST_VARIANCE = 1e-30  # Not tuned: avoids divisions by 0


def drawn_laws(noisy: NoisyCounts, seen: Floats, *, design_effect: float) -> Iterator[Floats]:
    """Draw laws over the cells from their posterior; the same ones whenever it is called."""
    # Shapes: seen [cells]; what is yielded [some draws, cells].
    pi, total, cells = noisy.plan.mass, noisy.records, noisy.plan.cells
    noise = fraction_noise(noisy)
    off = seen - pi
    parts, weight = _normal_parts(noisy.noise)
    one = min(design_effect / total, 0.5)  # Of a cell that is empty by the chance of one lot
    still, moved = design_effect * pi * (1 - pi) / total, np.maximum(seen, one)
    moved = design_effect * moved * np.maximum(1 - moved, one) / total
    # Shape [components, parts of the noise, cells], then these two as one.
    prior = (_DEVIATIONS[:, None] * np.sqrt(np.maximum(pi, NEGLIGIBLE)))[:, None] ** 2
    error = np.where(prior > 0, moved, still) + noise * parts[:, None] + _LEAST_VARIANCE
    both = prior + error
    likelihood = weight[:, None] * np.exp(-(off**2) / both / 2) / np.sqrt(both) + _TINY
    kept = prior / both
    shift, deviation = kept * off, np.sqrt(kept * error)
    likelihood, mixtures = likelihood.reshape(-1, cells), np.repeat(_MIXTURES, len(parts), axis=1)
    mixed = mixtures @ likelihood
    evidence = np.log(mixed).sum(axis=1) + np.log(_PRIOR)
    chance = np.exp(evidence - evidence.max())

    uniform, normal = _random_numbers(_draws(cells), cells)
    middle = (np.arange(len(uniform)) + 0.5) / len(uniform)
    tau = np.searchsorted(np.cumsum(chance / chance.sum())[:-1], middle)
    for own in sorted(set(tau.tolist())):
        possible = np.flatnonzero(mixtures[own])
        ends = np.cumsum(mixtures[own, possible[:-1], None] * likelihood[possible[:-1]], axis=0)
        ends /= mixed[own]
        first, last = np.searchsorted(tau, (own, own + 1)).tolist()
        for drawn in _blocks(first, last, cells):
            mark = uniform[drawn]
            component = np.full(mark.shape, possible[0], dtype=np.int8)
            for end in ends:
                component += (mark > end).view(np.int8)
            place = component * np.int64(cells)
            place += np.arange(cells)
            spread = deviation.take(place)
            law = shift.take(place)
            law += pi
            law += spread * normal[drawn]
            yield _on_simplex(law, np.square(spread, out=spread), pi)


def laws_around(noisy: NoisyCounts, laws: Floats, effects: DesignEffects) -> Iterator[Floats]:
    """Draw what other cohorts' noisy counts may show of each of some laws over the cells.

    Clients may be of few kinds: then all that they differ in is larger or smaller at once. And they
    may differ in the rarest cells alone, which figures weigh most.
    """
    # Shapes: laws [laws, cells]; what is yielded [laws, some draws, cells].
    pi, total, cells = noisy.plan.mass, noisy.records, noisy.plan.cells
    draws = _draws(cells)
    _, normal = _random_numbers(draws, cells)
    noise = fraction_noise(noisy) + _LEAST_VARIANCE
    law = laws[:, None]
    effect = np.maximum([[effects.of_rarest(one)] for one in laws], effects.average)
    for drawn in _blocks(0, draws, laws.size):
        # 0 if nothing was sampled; of independent records, all draws vary as much
        alike = effect
        if effect.max() > 1:
            alike = np.where(effect < 1, effect, 1 + (effect - 1) * _at_once(draws)[drawn, None])
        sampled = law / total * alike
        error = normal[drawn] * np.sqrt(sampled + noise)
        # What sampling adds to one cell it takes from all others by their size, noise from all
        # alike.
        part = sampled.sum(axis=-1, keepdims=True)
        part /= part + noise * cells
        excess = error.sum(axis=-1, keepdims=True)
        error -= excess * (part * law + (1 - part) / cells)
        error += law
        yield as_law(error, pi)


def _on_simplex(law: Floats, variance: Floats, pi: Floats) -> Floats:
    """Condition draws, shape [draws, cells], on being non-negative and summing to 1."""
    np.maximum(law, 0, out=law)
    free = variance.sum(axis=1, keepdims=True)
    excess = law.sum(axis=1, keepdims=True) - 1
    law -= variance * (excess / np.where(free > 0, free, 1))
    return as_law(law, pi)


@lru_cache(maxsize=8)
def _normal_parts(noise: NoiseTable) -> tuple[Floats, Floats]:
    """Variances relative to the noise's, and weights, of normal laws that together are like it."""
    # A symmetric law with excess kurtosis 3 / a is about normal with a variance that is itself
    # Gamma(a), which Laplace noise is exactly, at a = 1. Two nodes of Gauss and Laguerre give it.
    squares = noise.support.astype(np.float64) ** 2
    excess = 0.0
    if noise.variance > 0:
        excess = float(squares**2 @ noise.probabilities) / noise.variance**2 - 3
    if excess < 0.01:
        return np.ones(1), np.ones(1)
    a = 3 / excess
    root = np.sqrt(a + 1)
    nodes = np.array([a + 1 - root, a + 1 + root])
    return nodes / a, np.array([root + 1, root - 1]) / (2 * root)


def _draws(cells: int) -> int:
    return min(max(_NUMBERS // cells, _FEWEST), _DRAWS)


def _blocks(first: int, last: int, numbers: int) -> Iterator[slice]:
    """Yield draws of so many numbers each, few enough at once for a processor's cache."""
    most = max(_AT_ONCE // numbers, 1)
    for start in range(first, last, most):
        yield slice(start, min(start + most, last))


def _random_numbers(draws: int, cells: int) -> tuple[Floats, Floats]:
    """Return uniform and standard normal numbers, shape [draws, cells]; always the same."""
    size = draws * cells
    uniform, normal = _numbers(max(size, _KEPT))
    return uniform[:size].reshape(draws, cells), normal[:size].reshape(draws, cells)


@lru_cache(maxsize=8)
def _at_once(draws: int) -> Floats:
    """Return squares of as many normal quantiles, in an order that is always the same."""
    return np.asarray(
        scipy.special.ndtri((np.random.default_rng(0).permutation(draws) + 0.5) / draws) ** 2
    )


@lru_cache(maxsize=2)
def _numbers(size: int) -> tuple[Floats, Floats]:
    generator = np.random.default_rng(0)
    return generator.random(size), generator.standard_normal(size)


def _mixtures() -> Floats:
    """Weight of each component for each τ of the grid, shape [values of τ, components]."""
    number = len(_DEVIATIONS)
    weights = np.zeros((number, number))
    weights[0, 0] = 1
    for tau in range(1, number):
        for k, weight in enumerate(_TAIL / _TAIL.sum()):
            weights[tau, min(tau + k, number - 1)] += weight
    return weights


_MIXTURES = _mixtures()
_PRIOR = np.full(len(_DEVIATIONS), (1 - _NO_DRIFT) / (len(_DEVIATIONS) - 1))  # Not tuned: follows
_PRIOR[:1] = _NO_DRIFT
