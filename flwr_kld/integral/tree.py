"""The weak learner: tells the data from the present model, a little.

A shallow decision tree with smoothed log odds in its leaves. It is over a thousand times faster
than the paper's network (equation 13), and as good under Algorithm 1 but for the ring (a drop of
.32 against .36 at epsilon = 1).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from flwr_kld.integral.base import Floats

DEPTH = 8
"""Levels of splits. With 6, the ring at epsilon = 10 ends 5.6 % below the exact optimum; with 8,
3.8 %."""
_BINS = 64
"""Cuts of a feature with many values, by quantiles."""
_PRIOR = 5.0
"""Records of data, and as many of the model, that each leaf is believed to hold before it holds
any."""
_LEAST_GAIN = 1e-9


def log_odds(features: Floats, target: Floats, model: Floats, records: int) -> Floats:
    """Grow a tree that maximises the likelihood of 'data or model?'; each point's log odds, [n]."""
    # Shapes: features [n, d], target [n], model [n].
    cuts = [_cuts(column, _BINS) for column in features.T]
    binned = [
        np.searchsorted(cut, column, side="right")
        for cut, column in zip(cuts, features.T, strict=True)
    ]
    prior = _PRIOR / records
    node = np.zeros(len(features), dtype=np.int64)
    for level in range(DEPTH):
        feature, place = _best_splits(node, 1 << level, binned, cuts, target, model, prior)
        if (feature < 0).all():
            break  # no split helps, nor would one further down
        going = np.zeros(len(features), dtype=np.bool_)
        for j, column in enumerate(binned):
            going |= (feature[node] == j) & (column > place[node])
        node = 2 * node + going
    masses = [np.bincount(node, mass, 1 << DEPTH) + prior for mass in (target, model)]
    odds: Floats = np.log(masses[0] / masses[1])
    return odds[node]


def _cuts(column: Floats, bins: int) -> Floats:
    """Thresholds of one feature: half way between all values, or at quantiles."""
    values = np.unique(column)
    if len(values) <= bins:
        middles: Floats = (values[1:] + values[:-1]) / 2
        return middles
    return np.unique(np.quantile(column, np.linspace(0, 1, bins + 1)[1:-1]))


def _best_splits(
    node: NDArray[np.int64],
    nodes: int,
    binned: list[NDArray[np.int64]],
    cuts: list[Floats],
    target: Floats,
    model: Floats,
    prior: float,
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Feature and cut of each node's best split, 2 x [nodes]; feature -1 where none helps."""
    best = np.full(nodes, _LEAST_GAIN)
    feature, place = np.full(nodes, -1), np.zeros(nodes, dtype=np.int64)
    for j, (column, cut) in enumerate(zip(binned, cuts, strict=True)):
        if not len(cut):
            continue
        index, width = node * (len(cut) + 1) + column, len(cut) + 1
        below_p, below_q = (
            np.bincount(index, mass, nodes * width).reshape(nodes, width).cumsum(axis=1)
            for mass in (target, model)
        )
        p, q = below_p[:, -1:], below_q[:, -1:]
        below_p, below_q = below_p[:, :-1], below_q[:, :-1]
        gain = _log_likelihood(below_p + prior, below_q + prior)
        gain += _log_likelihood(p - below_p + prior, q - below_q + prior)
        gain -= _log_likelihood(p + 2 * prior, q + 2 * prior)
        light = np.minimum(below_p + below_q, p - below_p + q - below_q) <= 2 * prior
        gain[light] = 0.0
        at = gain.argmax(axis=1)
        value = gain[np.arange(nodes), at]
        better = value > best
        best[better], feature[better], place[better] = value[better], j, at[better]
    return feature, place


def _log_likelihood(p: Floats, q: Floats) -> Floats:
    """Log likelihood of 'data or model?' in a leaf of masses p and q, all positive."""
    both = p + q
    likelihood: Floats = p * np.log(p / both) + q * np.log(q / both)
    return likelihood
