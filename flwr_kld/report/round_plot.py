"""What the plot of a predictor shows: the candidates' weights over its rounds."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from flwr_kld.report.panels import Theme, mark, mark_missing
from flwr_kld.report.predictor_report import PredictorReport
from flwr_kld.report.series import Point

_COLOURS: Final = (
    "#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#f0e442",
)  # fmt: skip
"""Of Okabe and Ito, which colour-blind readers tell apart; candidates beyond share a grey."""


def candidates_of(rounds: Sequence[Point[PredictorReport]]) -> list[str]:
    """Names of all candidates, in their own order."""
    return list(
        dict.fromkeys(name for r in rounds if r.report for name in r.report.reading.weights)
    )


def draw_rounds(
    axes: Any, rounds: Sequence[Point[PredictorReport]], theme: Theme, longest: int
) -> None:
    """Draw the weights, stacked, and mark where the leader changed."""
    reports = [(r.number, r.report) for r in rounds if r.report]
    _draw_weights(axes, rounds, theme, longest)
    changes = [
        n for (_, old), (n, new) in pairwise(reports) if old.reading.leader != new.reading.leader
    ]
    mark(axes, changes, 0.97, color=theme.alarm, marker="v", label="another leader")
    mark_missing(axes, rounds, "failed: nothing learnt", theme)
    axes.set_ylabel("weight of each candidate")
    axes.set_ylim(0, 1.08)  # room for the marks
    axes.set_yticks([0, 0.25, 0.5, 0.75, 1])


def _draw_weights(
    axes: Any, rounds: Sequence[Point[PredictorReport]], theme: Theme, longest: int
) -> None:
    """Stack the weights in the candidates' own order, the least of too many as one.

    Names of more than `longest` characters are cut: a legend wider than the plot would hide it.
    """
    names = candidates_of(rounds)
    if not names:
        return
    edges, weights = _steps(rounds, names)
    peak = np.nanmax(weights, axis=1)
    shown = np.sort(np.argsort(-peak, kind="stable")[: len(_COLOURS)])
    layers = [
        (
            names[j] if len(names[j]) <= longest else f"{names[j][: longest - 1]}…",
            colour,
            weights[j],
        )
        for j, colour in zip(shown, _COLOURS, strict=False)
    ]
    if len(names) > len(shown):
        rest = np.delete(weights, shown, axis=0).sum(axis=0)
        layers.append((f"{len(names) - len(shown)} others", theme.spend, rest))
    floor = np.zeros(len(edges))
    for name, colour, layer in layers:
        axes.fill_between(
            edges, floor, floor + layer, label=name, facecolor=colour, edgecolor=theme.ground,
            linewidth=0.6,
        )  # fmt: skip
        floor = floor + layer


def _steps(
    rounds: Sequence[Point[PredictorReport]], names: Sequence[str]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Both ends of each round on the axis, [2 R], and the weights there, [K, 2 R]; NaN in gaps."""
    number = np.array([r.number for r in rounds], dtype=np.float64)
    weights = np.array(
        [
            [r.report.reading.weights.get(n, 0.0) if r.report else np.nan for n in names]
            for r in rounds
        ]
    )
    return np.repeat(number, 2) + np.tile([-0.5, 0.5], len(number)), np.repeat(weights.T, 2, axis=1)
