"""Which laws of ``r`` the counts allow, and how likely each is.

Every shape of a fixed family is tried as it is, the best few also with a free factor, and besides
them the law that nothing moved but the trend. A mean of r other than 1 speaks against laws that
move little: P leaves the reference's symbols as it drifts.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from flwr_kld.inference.estimators.drift_shapes import ShapeLaws, Shapes, all_shapes
from flwr_kld.inference.estimators.free_law import CENTRE, GRID, RatioLaw, freed
from flwr_kld.inference.estimators.groups import Groups
from flwr_kld.inference.estimators.score import Floats, score
from flwr_kld.inference.estimators.trend import Counted

CAUTION = 0.5
"""Power of the evidence in the average: laws are models, so it tells less than it claims
(coarsening, Miller and Dunson 2019, doi:10.1080/01621459.2018.1469995)."""
_KEPT = 0.98
"""Share of the average that is read law by law."""
_FREED = 3
_THETA = 0.01
_LEVEL_DEVIATION = 0.2
"""Deviation of ln E[r], over the root of twice the divergence of the law about its mean."""
_MOST = 20.0
"""Bound of the variance of r over its mean, where many symbols are counted together."""
_ANY_LEVEL, _LEVELS = 0.02, 5.0
"""Chance that ln E[r] may be anything within so many nats, whatever the law."""


@dataclass(frozen=True, eq=False)
class Seen:
    """What laws are held against.

    Parameters
    ----------
    rows : Floats
        Likelihood of each group of cells under each u, shape [G, U], > 0.
    groups : Groups
        G groups in B mass bins.
    log_mean : Floats
        The trend in each bin, shape [B].
    rest : Counted
        J noisy counts of many symbols together.
    rest_log_mean : Floats
        The trend there, shape [J].
    trend_evidence : float
        What a trend costs, in nats.
    noise : float
        Variance of the noise in each of them.
    level, level_variance : float
        ln of the mean of r over all these symbols, and what is not known of it.
    """

    rows: Floats
    groups: Groups
    log_mean: Floats
    rest: Counted
    rest_log_mean: Floats
    trend_evidence: float
    noise: float
    level: float
    level_variance: float

    def laws(self, shapes: Shapes) -> ShapeLaws:
        """Return the laws of shapes in the bins, and then in the remainders."""
        groups, rest = self.groups, self.rest
        mass = np.bincount(groups.bin_of, groups.size) * np.exp(groups.log_expected)
        mass = np.concatenate([mass, rest.expected])
        return ShapeLaws(
            shapes,
            np.concatenate([groups.log_expected, rest.log_symbol]),
            mass / mass.sum(),
            np.concatenate([self.log_mean, self.rest_log_mean]),
            self.level,
        )


def likely_laws(seen: Seen, design_effect: float) -> tuple[list[RatioLaw], float]:
    """Find the laws that the counts allow.

    Returns
    -------
    list[RatioLaw]
        The most likely ones.
    float
        The power of their evidence in the average.
    """
    power = CAUTION / design_effect
    rows, groups, bins = seen.rows, seen.groups, len(seen.log_mean)
    shapes = all_shapes()
    laws = seen.laws(shapes)
    evidence = np.log(shapes.chance) + seen.trend_evidence * shapes.trended
    evidence += _of_rest(seen, laws.ratio[:, bins:], laws.variance[:, bins:])
    overall = np.zeros((len(shapes), len(GRID)))
    ends = np.append(groups.starts, len(groups.size))
    for b in range(bins):
        law, part = laws.within(b), slice(ends[b], ends[b + 1])
        evidence += np.log(law @ rows[part].T) @ groups.size[part]
        overall += laws.share[b] * law
    evidence += _of_level(seen, _divergence(overall))
    order = np.argsort(-evidence, kind="stable")
    chance = np.exp(power * (evidence[order] - evidence[order[0]]))
    kept = order[: int(np.searchsorted(np.cumsum(chance), _KEPT * chance.sum())) + 1]
    weights = np.stack([laws.within(b, kept) for b in range(bins)], axis=1)
    found = [
        RatioLaw(weights[i], bool(shapes.trended[h]), float(evidence[h]))
        for i, h in enumerate(kept)
    ]
    found += [freed(law, rows, groups.size, groups.bin_of) for law in found[:_FREED]]
    return [_still(seen), *found], power


def _still(seen: Seen) -> RatioLaw:
    """Return the law that nothing moved but the trend."""
    law = np.tile((np.arange(len(GRID)) == CENTRE).astype(np.float64), (len(seen.log_mean), 1))
    evidence = seen.trend_evidence + seen.groups.size @ np.log(seen.rows[:, CENTRE])
    ratio = np.exp(seen.rest_log_mean[None, :])
    evidence += _of_rest(seen, ratio, np.zeros_like(ratio))[0] + _of_level(seen, np.zeros(1))[0]
    return RatioLaw(law, True, float(evidence))


def _of_rest(seen: Seen, ratio: Floats, variance: Floats) -> Floats:
    """Evidence of the remainders, [H], from mean and variance of r in each, [H, J]."""
    rest = seen.rest
    mean = rest.expected * ratio
    spread = mean + seen.noise + rest.crowding * np.minimum(variance, _MOST) * mean**2
    off = (rest.value - mean) ** 2 / spread + np.log(spread)
    evidence: Floats = -off.sum(axis=1) / 2
    return evidence


def _divergence(law: Floats) -> Floats:
    """Divergence of laws of r over their means, in nats, [H]."""
    r = np.exp(GRID)
    r[0] = 0.0
    divergence: Floats = np.einsum("hu,hu->h", law, score(r / (law @ r)[:, None], _THETA))
    return np.maximum(divergence, 0.0)


def _of_level(seen: Seen, divergence: Floats) -> Floats:
    """Evidence of the mean of r, [H]."""
    variance = seen.level_variance + 2 * _LEVEL_DEVIATION**2 * divergence
    normal = np.exp(-0.5 * seen.level**2 / variance) / np.sqrt(2 * math.pi * variance)
    evidence: Floats = np.log((1 - _ANY_LEVEL) * normal + _ANY_LEVEL / _LEVELS)
    return evidence
