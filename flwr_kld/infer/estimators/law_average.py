"""Which laws of ``r`` the counts allow, and how likely each is.

Every shape of a fixed family is tried as it is, the best few also with a free factor, and besides
them the law that nothing moved but the trend. A mean of r other than 1 speaks against laws that
move little: P leaves the reference's symbols as it drifts.

Numbers that were tuned, and the root mean square errors of the population's and of the cohort's
number if they are halved, and doubled: .118 and .094 as they are, in the 24 questions of
`drift_shapes`, of which one is beyond two deviations unless it is said here.

================  ========  =======================================================================
number            unit      meaning, and what a half or twice as much does
================  ========  =======================================================================
CAUTION           power     of the evidence in the average, for laws are models, and it tells less
                            than it claims (coarsening, Miller and Dunson 2019,
                            doi:10.1080/01621459.2018.1469995): .137, .107 / .112, .093, but 3 of 24
                            are beyond two deviations
_KEPT             fraction  of the average that is read law by law; half and twice what is left out:
                            .119, .095 / .116, .093
_FREED            laws      that are also read with a free factor: .121, .096 / .112, .091
_LEVEL_DEVIATION  ratio     deviation of ln E[r] to the root of twice the divergence of the law
                            about its mean: .120, .095 / .118, .094
_MOST             ratio     variance of r to its mean at most, where many symbols are counted
                            together: .118, .094 / .107, .093
_ANY_LEVEL        per nat   chance that ln E[r] is whatever it is, under any law: no change
================  ========  =======================================================================
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from flwr_kld.infer.estimators.drift_shapes import (
    ShapeLaws,
    all_shapes,
    laws_alike,
    shape_laws,
)
from flwr_kld.infer.estimators.free_law import CENTRE, GRID, RatioLaw, freed
from flwr_kld.infer.estimators.groups import Groups
from flwr_kld.infer.estimators.score import THETA, Floats, in_blocks, score
from flwr_kld.infer.estimators.trend import Counted

CAUTION = 0.5
_KEPT = 0.98
_FREED = 3
_LEVEL_DEVIATION = 0.2
_MOST = 20.0
_ANY_LEVEL = 0.004


@dataclass(frozen=True, eq=False)
class Seen:
    """What laws are held against."""

    # Likelihood of each group of cells under each u, shape [G, U], > 0: of u about the level, and
    # about the trend
    rows: tuple[Floats, Floats]
    groups: Groups  # G groups of cells
    # Shape [G], ascending, in 0..A-1: places of like mass of Π, each with one law
    place_of: NDArray[np.int64]
    rest: Counted  # J noisy counts of many symbols together
    rest_log_mean: Floats  # The trend there, shape [J]
    trend_evidence: float  # What a trend costs, in nats
    noise: float  # Variance of the noise in each of them
    level: float  # ln of the mean of r over all these symbols, and what is not known of it
    level_variance: float
    design_effect: float  # Of a count

    @property
    def places(self) -> int:
        """A, how many places there are."""
        return int(self.place_of[-1]) + 1

    def laws(self) -> ShapeLaws:
        """Return the shapes' laws in the places, and then in the remainders."""
        groups, rest = self.groups, self.rest
        log_expected = groups.log_expected[groups.bin_of]
        cells = np.bincount(self.place_of, groups.size)
        mass = np.bincount(self.place_of, groups.size * np.exp(log_expected))
        mass = np.concatenate([mass, rest.expected])
        log_cell = np.bincount(self.place_of, groups.size * log_expected) / cells
        log_mass = np.concatenate([log_cell, rest.log_symbol])
        log_mass -= log_mass.min()  # they go by differences
        known = (np.round(x, 9).tolist() for x in (log_mass, mass / mass.sum()))
        return shape_laws(*map(tuple, known), self.places)


def likely_laws(columns: Sequence[Seen]) -> list[list[RatioLaw]]:
    """Find the laws that the counts of each of some columns allow."""
    found = [[_still(seen), *_likeliest(seen)] for seen in columns]
    # Those of about as many groups are freed together.
    alike: dict[int, list[tuple[int, RatioLaw]]] = {}
    for i, (seen, laws) in enumerate(zip(columns, found, strict=True)):
        most = 1 << (len(seen.place_of) - 1).bit_length()
        alike.setdefault(most, []).extend((i, law) for law in laws[1 : 1 + _FREED])
    for most, bases in alike.items():
        for some in in_blocks(np.arange(len(bases)), most * len(GRID)):
            of, laws = [bases[k][0] for k in some], [bases[k][1] for k in some]
            for i, law in zip(of, _freed([columns[i] for i in of], laws), strict=True):
                found[i].append(law)
    return found


def _freed(columns: Sequence[Seen], laws: Sequence[RatioLaw]) -> list[RatioLaw]:
    """Free a law of each column, which are made of equal shape by groups without cells."""
    groups = max(len(seen.place_of) for seen in columns)
    places = max(seen.places for seen in columns)
    base = np.zeros((len(laws), places, len(GRID)))
    rows, size = np.ones((len(laws), groups, len(GRID))), np.zeros((len(laws), groups))
    place_of = np.zeros((len(laws), groups), dtype=np.int64)
    base[:, :, CENTRE] = 1.0
    for i, (seen, law) in enumerate(zip(columns, laws, strict=True)):
        own = i, slice(len(seen.place_of))
        base[i, : seen.places], rows[own] = law.weights, seen.rows[law.trended]
        size[own], place_of[own] = seen.groups.size, seen.place_of
    return [
        replace(law, weights=law.weights[: seen.places])
        for seen, law in zip(columns, freed(laws, base, rows, size, place_of), strict=True)
    ]


def _likeliest(seen: Seen) -> list[RatioLaw]:
    """Find the shapes' laws that the counts of a column allow, the likeliest first."""
    shapes, laws, places = all_shapes(), seen.laws(), seen.places
    about = np.where(shapes.trended, seen.rest_log_mean[:, None], seen.level)
    evidence = np.log(shapes.chance) + seen.trend_evidence * shapes.trended
    evidence += _of_rest(seen, np.exp(about) * laws.mean[places:], laws.variance[places:])
    within, alike, varied = laws.within, laws_alike(), shapes.varied
    evidence[:varied] += _of_cells(seen, within, shapes.trended[:varied])
    evidence[varied:] += _of_cells(seen, [alike], shapes.trended[varied:])
    share = laws.share[:places] / laws.share[:places].sum()
    average = np.asarray(sum(part * law for part, law in zip(share, within, strict=True)))
    divergence = np.concatenate([_divergence(average), _divergence_alike()])
    evidence += _of_level(seen, divergence)
    order = np.argsort(-evidence, kind="stable")
    chance = np.exp(CAUTION * (evidence[order] - evidence[order[0]]))
    kept = order[: int(np.searchsorted(np.cumsum(chance), _KEPT * chance.sum())) + 1]
    return [
        RatioLaw(
            np.array([law[h] for law in within] if h < varied else [alike[h - varied]] * places),
            bool(shapes.trended[h]),
            float(evidence[h]),
            float(divergence[h]),
        )
        for h in kept
    ]


def _still(seen: Seen) -> RatioLaw:
    """Return the law that nothing moved but the trend."""
    law = np.tile((np.arange(len(GRID)) == CENTRE).astype(np.float64), (seen.places, 1))
    evidence = seen.trend_evidence + seen.groups.size @ np.log(seen.rows[True][:, CENTRE])
    ratio = np.exp(seen.rest_log_mean[:, None])
    evidence += _of_rest(seen, ratio, np.zeros_like(ratio))[0] + _of_level(seen, np.zeros(1))[0]
    return RatioLaw(law, True, float(evidence), 0.0)


def _of_rest(seen: Seen, ratio: Floats, variance: Floats) -> Floats:
    """Evidence of the remainders, [H], from mean and variance of r in each, [J, H]."""
    value, expected, crowding = np.stack([seen.rest.value, seen.rest.expected, seen.rest.crowding])[
        ..., None
    ]
    mean = expected * ratio
    spread = seen.design_effect * mean + seen.noise
    spread += crowding * np.minimum(variance, _MOST) * mean**2
    off = (value - mean) ** 2 / spread + np.log(spread)
    evidence: Floats = -off.sum(axis=0) / 2
    return evidence


def _of_cells(seen: Seen, laws: Sequence[Floats], trended: NDArray[np.bool_]) -> Floats:
    """Evidence of the cells, [K], for laws of shape [K, U] in each place, or everywhere.

    Those that are trended come last.
    """
    evidence, first = np.zeros(len(trended)), int(np.searchsorted(trended, True))
    parts = [slice(None)]
    if len(laws) > 1:
        ends = np.searchsorted(seen.place_of, np.arange(seen.places + 1))
        parts = [slice(*pair) for pair in pairwise(ends)]
    for a, part in enumerate(parts):
        for own, rows in zip((slice(first), slice(first, None)), seen.rows, strict=True):
            likelihood = laws[a][own] @ rows[part].T
            evidence[own] += np.log(likelihood, out=likelihood) @ seen.groups.size[part]
    return evidence


@cache
def _divergence_alike() -> Floats:
    return _divergence(laws_alike())


def _divergence(law: Floats) -> Floats:
    """Divergence of laws of r over their means, in nats, [H]."""
    r = np.exp(GRID)
    r[0] = 0.0
    divergence: Floats = np.einsum(
        "hu,hu->h", law, score(np.einsum("h,u->hu", 1 / (law @ r), r), THETA)
    )
    return np.maximum(divergence, 0.0)


def _of_level(seen: Seen, divergence: Floats) -> Floats:
    """Evidence of the mean of r, [H]."""
    variance = seen.level_variance + 2 * _LEVEL_DEVIATION**2 * divergence
    normal = np.exp(-0.5 * seen.level**2 / variance) / np.sqrt(2 * math.pi * variance)
    evidence: Floats = np.log(normal + _ANY_LEVEL)
    return evidence
