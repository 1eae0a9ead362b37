"""The plot of a predictor: the candidates' weights over its rounds, and the budget below."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from flwr_kld.report.panels import (
    Spend,
    Theme,
    draw_spend,
    label_numbers,
    mark,
    mark_missing,
    two_panels,
)
from flwr_kld.report.predictor_history import Round, candidates_of

_COLOURS: Final = (
    "#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#f0e442",
)  # fmt: skip
"""Of Okabe and Ito, which colour-blind readers tell apart; candidates beyond share a grey."""


def plot_rounds(
    rounds: Sequence[Round],
    path: Path,
    *,
    title: str = "",
    dark: bool = False,
    narrow: bool = False,
) -> None:
    """Draw a series of rounds.

    Above: the weights, stacked, so that a change of what clients follow is a change of colour;
    where the leader changed, and rounds without a report, are marked. Below: epsilon of each round,
    and what the window had spent of the budget that was in force, if there is a ledger.

    Parameters
    ----------
    rounds : Sequence[Round]
        Those without a report leave a gap, marked at the foot.
    path : Path
        The ending says the format: ``.png`` or ``.svg``.
    dark, narrow : bool
        Colours for a dark page; the shape for a phone.

    Raises
    ------
    ImportError
        If matplotlib is not installed; names the extra.
    """
    with two_panels(path, title=title, dark=dark, narrow=narrow) as (above, below, theme):
        reports = [(r.number, r.report) for r in rounds if r.report]
        _draw_weights(above, rounds, theme, longest=18 if narrow else 32)
        changes = [n for (_, old), (n, new) in pairwise(reports) if old.leader != new.leader]
        mark(above, changes, 0.97, color=theme.alarm, marker="v", label="another leader")
        mark_missing(above, rounds, "failed: nothing learnt", theme)
        above.set_ylabel("weight of each candidate")
        above.set_ylim(0, 1.08)  # room for the marks
        above.set_yticks([0, 0.25, 0.5, 0.75, 1])
        spent = [Spend(n, r.epsilon, r.epsilon_left, r.epsilon_budget) for n, r in reports]
        draw_spend(below, spent, "round", theme)
        started = {r.number: r.started for r in rounds if r.started is not None}
        label_numbers(below, [r.number for r in rounds], started, "round", narrow)


def _draw_weights(axes: Any, rounds: Sequence[Round], theme: Theme, longest: int) -> None:
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
    rounds: Sequence[Round], names: Sequence[str]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Both ends of each round on the axis, [2 R], and the weights there, [K, 2 R]; NaN in gaps."""
    number = np.array([r.number for r in rounds], dtype=np.float64)
    weights = np.array(
        [[r.report.weights.get(n, 0.0) if r.report else np.nan for n in names] for r in rounds]
    )
    return np.repeat(number, 2) + np.tile([-0.5, 0.5], len(number)), np.repeat(weights.T, 2, axis=1)
