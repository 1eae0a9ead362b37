"""Shapes that drifts take: how the laws of ``r = P / Π`` that are averaged differ.

Symbols move by a lognormal factor, all of them or a part of their records, rare ones more than
frequent ones or as much; some fall to a fraction or vanish, anywhere or among the rare ones only;
and the mean follows Π by the trend, or not at all.

Numbers that were tuned, and the root mean square error of the population's number if they are
halved, and doubled: .118 as they are, in 24 questions of ``population_estimate.py`` at ε = .2 to 3,
of which two at most are beyond two deviations in all of these. The cohort's is .087 to .103, .094
as they are. So no result hangs on any of them. Of lists, half and twice as many entries are tried.

====================  ========  ====================================================  ============
number                unit      meaning                                               half, double
====================  ========  ====================================================  ============
_SMOOTH               chance    that all symbols move by a factor, none vanishes      .113, .122
_PARTIAL              chance    that a part of each symbol's records moves            .118, .117
_TAIL                 chance    that the rarest symbols vanish                        .117, .119
_SOME                 chance    that some of all symbols fall or vanish               .122, .113
_SPREADS              of ln r   deviations of the factor                              .114, .122
_FEW_SPREADS          of ln r   the same, where symbols fall                          .116, .122
_PART_SPREADS         of ln r   the same, where a part of the records moves           .119, .117
_PARTS                fraction  of each symbol's records that moves                   .118, .118
_FALLEN               fraction  of the symbols that fall, and how likely it is        .124, .117
_TAILS                nats      above the rarest symbol at which the tail ends        .118, .119
_PLACES               nats      to which symbols fall (`_GONE`: r = 0), with these    .114, .126
                                deviations, which are halved and doubled, and weights
_GROWTHS              power     of 1 / Π by which a deviation grows                   .109, .102
_WIDEST               of ln r   deviation of outliers                                 .124, .106
_OUTLIERS             fraction  of the symbols that are outliers                      .119, .114
_STEEP                1 / nats  how suddenly the tail begins                          .117, .118
_NARROWEST            ratio     of a deviation to its own elsewhere, at least         .118, .117
_BROADEST             of ln r   deviation, at most                                    .093, .093
_FARTHEST             nats      of a law's centre at most: it stays on the grid       .118, .118
====================  ========  ====================================================  ============
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache, cached_property, lru_cache
from itertools import product

import numpy as np
from numpy.typing import NDArray

from flwr_kld.infer.estimators.free_law import GRID, SPACING, bells
from flwr_kld.infer.estimators.score import Floats, exp

_SPREADS = (0.03, 0.06, 0.1, 0.16, 0.25, 0.35, 0.45, 0.55, 0.65, 0.8, 1.0, 1.3, 1.7, 2.2)
_FEW_SPREADS = (0.05, 0.3, 0.8, 1.4, 2.2)
_PART_SPREADS = (0.4, 0.6, 0.8, 1.0, 1.3, 1.7)
_GROWTHS = (0.0, 0.4)
_PARTS = (0.1, 0.25, 0.4, 0.6, 0.8)
_FALLEN = ((0.05, 0.1), (0.15, 0.1), (0.3, 0.15), (0.5, 0.15), (0.7, 0.2), (0.9, 0.3))
_TAILS = (0.0, 1.0, 2.0, 3.5)
_GONE = -np.inf
_PLACES = (
    (_GONE, 1.0, 0.6), (-4.0, 0.6, 0.08), (-3.0, 0.4, 0.08), (-2.0, 0.3, 0.08),
    (-1.5, 0.3, 0.08), (-1.0, 0.3, 0.08),
)  # fmt: skip
_SMOOTH, _PARTIAL, _TAIL, _SOME = 0.15, 0.1, 0.25, 0.5
_WIDEST, _OUTLIERS = 2.0, 0.02
_STEEP = 2.0
_NARROWEST, _BROADEST = 0.2, 2.5
_FARTHEST = 6.0


@dataclass(frozen=True, eq=False)
class Shapes:
    """Some shapes, each a row of arrays of shape [H]."""

    chance: Floats  # A priori, summing to 1
    # Whether the mean of r follows the trend; otherwise it is one level for all
    trended: NDArray[np.bool_]
    spread: Floats  # Deviation of ln r where the reference has most of its mass
    growth: Floats  # How this deviation grows as Π falls: a power of 1 / Π
    part: Floats  # Part of each symbol's records that moved
    fallen: Floats  # Fraction of the symbols that fell
    place: Floats  # ln of the fraction to which they fell, and its deviation; -inf: vanished
    width: Floats
    # If not NaN, half of those vanished that are more frequent than the rarest by e^tail
    tail: Floats

    def __len__(self) -> int:
        return len(self.chance)

    @cached_property
    def varied(self) -> int:
        """V: so many, the first ones, have laws that change with the mass of Π."""
        return int(np.count_nonzero((self.growth != 0) | ~np.isnan(self.tail)))

    @property
    def kept(self) -> Floats:
        """Mean fraction that is left of the symbols that fell."""
        return np.asarray(np.exp(self.place + self.width**2 / 2), dtype=np.float64)


@cache
def all_shapes() -> Shapes:
    """Every shape that is averaged, those first whose laws change with the mass of Π.

    Of these and of the others, those come last whose mean follows the trend.
    """
    nan, none = float("nan"), (0.0, _GONE, 1.0)
    both = (False, True)
    smooth = [(t, s, g, 1.0, *none, nan) for t, s, g in product(both, _SPREADS, _GROWTHS)]
    partial = [(False, s, 0.0, a, *none, nan) for s, a in product(_PART_SPREADS, _PARTS)]
    tail = [(False, s, g, 1.0, *none, x) for s, g, x in product(_SPREADS, _GROWTHS, _TAILS)]
    some = [
        (often * chance, (t, s, g, 1.0, share, at, width, nan))
        for t, s, g, (share, often), (at, width, chance) in product(
            both, _FEW_SPREADS, _GROWTHS, _FALLEN, _PLACES
        )
        if not (t and g)
    ]
    rows = [
        *((_SMOOTH / len(smooth), row) for row in smooth),
        *((_PARTIAL / len(partial), row) for row in partial),
        *((_TAIL / len(tail), row) for row in tail),
        *((_SOME * chance / sum(c for c, _ in some), row) for chance, row in some),
    ]
    rows.sort(key=lambda entry: (entry[1][2] == 0 and math.isnan(entry[1][-1]), entry[1][0]))
    columns = np.array([[chance, *row] for chance, row in rows], dtype=np.float64).T
    return Shapes(columns[0], columns[1] == 1, *columns[2:])


class ShapeLaws:
    """The laws of u that all shapes stand for, at different masses of Π."""

    # u is ln r less the trend, or less the level for a shape whose mean does not follow the trend.

    def __init__(self, log_expected: Floats, share: Floats, places: int) -> None:
        shapes, self.share, self._places = all_shapes(), share, places
        rarer = (share @ log_expected - log_expected)[:, None]
        self._spread = np.clip(
            shapes.spread * np.exp(shapes.growth * rarer), _NARROWEST * shapes.spread, _BROADEST
        )
        above = (log_expected - log_expected.min())[:, None] - shapes.tail
        tail = 1 / (1 + np.exp(np.clip(_STEEP * above, -30, 30)))
        self._fallen = np.where(np.isnan(shapes.tail), shapes.fallen, tail)
        mean = 1 - self._fallen * (1 - shapes.kept)
        # Those that did not fall rose: at their own mass if it follows the trend, else everywhere.
        rises = np.where(shapes.trended, mean, share @ mean)
        self._centre = np.clip(-np.log(rises), -_FARTHEST, _FARTHEST)
        self.mean: Floats = np.exp(self._centre) * mean
        """Of e^u, but for outliers, shape [P, H]."""
        self.variance: Floats = np.expm1(self._spread**2)
        """Of e^u over its mean, about, shape [P, H]."""

    @cached_property
    def within(self) -> list[Floats]:
        """The first V laws in each of the first A places, shape [V, U], each summing to 1."""
        some, found = slice(all_shapes().varied), list[Floats]()
        for place in range(self._places):
            centre, spread, fallen = (
                x[place, some] for x in (self._centre, self._spread, self._fallen)
            )
            found.append(bells(centre - spread**2 / 2, spread, (1 - _OUTLIERS) * (1 - fallen)))
            found[-1] += _others(fallen, some)
        return found


@lru_cache(maxsize=16)
def shape_laws(log_expected: tuple[float, ...], share: tuple[float, ...], places: int) -> ShapeLaws:
    """Return the laws at some masses, from A places on in remainders; of a plan always the same."""
    return ShapeLaws(np.array(log_expected), np.array(share), places)


@cache
def laws_alike() -> Floats:
    """Return the other laws, which are the same everywhere, [H - V, U], each summing to 1."""
    shapes = all_shapes()
    which = slice(shapes.varied, None)
    spread, part, fallen = (x[which, None] for x in (shapes.spread, shapes.part, shapes.fallen))
    factor = np.exp(GRID + np.log(1 - fallen * (1 - shapes.kept[which, None])))
    moved = factor - (1 - part)
    possible = moved > 0
    moved = np.where(possible, moved, 1.0)
    off = (np.log(moved / part) + spread**2 / 2) / spread
    density = np.where(possible, SPACING * exp(-0.5 * off**2) * factor / moved, 0.0)
    density *= (1 - _OUTLIERS) * (1 - fallen) / density.sum(axis=1, keepdims=True)
    return np.asarray(density + _others(fallen[:, 0], which))


@cache
def _down() -> tuple[NDArray[np.int64], Floats]:
    """Which law symbols that fell have under each shape, [H]; these laws and outliers', [D, U]."""
    shapes = all_shapes()
    known = np.stack([np.append(shapes.place, 0.0), np.append(shapes.width, _WIDEST)])
    (place, width), of = np.unique(known, axis=1, return_inverse=True)
    vanished = np.isinf(place)
    laws = bells(np.where(vanished, 0.0, place), width, np.ones_like(width))
    return of.ravel(), np.where(vanished[:, None], GRID[0] == GRID, laws)


def _others(fallen: Floats, which: slice) -> Floats:
    """Laws of the symbols that fell and of outliers under some shapes, [some, U], as often."""
    of, laws = _down()
    often = np.zeros((len(fallen), len(laws)))
    often[np.arange(len(fallen)), of[:-1][which]] = (1 - _OUTLIERS) * fallen
    often[:, of[-1]] += _OUTLIERS
    return np.asarray(often @ laws)
