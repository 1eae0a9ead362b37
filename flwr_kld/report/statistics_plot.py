"""A description as a picture: of each column where its values lie, with 95 % intervals."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from flwr_kld.inference.figures.numbers import edges_read
from flwr_kld.inference.figures.statistics import ColumnStatistics, NumberStatistics
from flwr_kld.report.panels import Theme, canvas, shortened, tidy

_LABELS = 8
"""Labels that a panel shows, the most frequent."""
_SEEN = 5e-4
"""Fraction of the records below which it is not said what the domain does not list."""
_ABREAST = 3
"""Panels beside each other; one on a narrow screen."""


def draw_statistics(
    columns: Mapping[str, ColumnStatistics],
    file: str | Path | None,
    *,
    title: str = "",
    dark: bool = False,
    narrow: bool = False,
) -> Any:
    """Draw a panel for each column, by heading, into a file if given; return the figure."""
    abreast = 1 if narrow else min(_ABREAST, len(columns))
    below = math.ceil(len(columns) / abreast)
    size = (3.9 if narrow else 2.95 * abreast, 2.1 * below + 0.3)
    with canvas(file, size, title=title, dark=dark, narrow=narrow) as (figure, theme):
        panels = figure.subplots(below, abreast, squeeze=False).ravel()
        for axes, (heading, statistics) in zip(panels, columns.items(), strict=False):
            axes.set_title(heading, fontsize="medium", parse_math=False)
            if statistics.numbers is None:
                _draw_labels(axes, statistics, theme)
            else:
                _draw_numbers(axes, statistics, statistics.numbers, theme)
            lacking = ", ".join(
                f"{one.name} {one.value:.1%}" for one in statistics.unlisted if one.value >= _SEEN
            )
            axes.set_xlabel(lacking, fontsize="small", color=theme.faint, parse_math=False)
            tidy(axes, theme, narrow)
        for axes in panels[len(columns) :]:
            axes.set_axis_off()
    return figure


def _draw_numbers(
    axes: Any, statistics: ColumnStatistics, numbers: NumberStatistics, theme: Theme
) -> None:
    """Draw how dense records lie between the outer edges, and how many lie beyond them."""
    edges = np.array(numbers.edges)
    bins = np.array([(one.value, one.low, one.high) for one in statistics.histogram])
    places = edges_read(len(edges))  # thousands of bins are narrower than a pixel
    edges, inner = edges[places], np.add.reduceat(bins[1:-1], places[:-1])
    dense, low, high = (inner / np.diff(edges)[:, None]).T
    axes.stairs(dense, edges, fill=True, color=theme.estimate, alpha=0.35)
    axes.stairs(high, edges, baseline=low, fill=True, color=theme.estimate, alpha=0.6)
    axes.axvline(numbers.mean.value, color=theme.truth, linewidth=1.2)
    axes.annotate(
        f"mean {numbers.mean.value:.4g}", (numbers.mean.value, 1), color=theme.truth,
        xycoords=("data", "axes fraction"), xytext=(2, -2), textcoords="offset points",
        va="top", fontsize="small",
    )  # fmt: skip
    for (share, *_), at, side in ((bins[0], 0.0, "left"), (bins[-1], 1.0, "right")):
        axes.annotate(
            f"{'←' if side == 'left' else ''} {share:.1%} {'→' if side == 'right' else ''}".strip(),
            (at, 0), xycoords="axes fraction", xytext=(0, 2), textcoords="offset points",
            ha=side, fontsize="small", color=theme.ink,
        )  # fmt: skip
    axes.set_xlim(edges[0], edges[-1])
    axes.set_ylim(0, 1.15 * max(float(high.max(initial=0)), 1e-12))
    axes.set_yticks([])
    axes.locator_params(axis="x", nbins=4)


def _draw_labels(axes: Any, statistics: ColumnStatistics, theme: Theme) -> None:
    """Draw the most frequent labels, and what is left of the listed ones."""
    shown = statistics.most_frequent(_LABELS)
    ends = np.array([(one.value, one.low, one.high) for one in shown]).reshape(-1, 3)
    value, low, high = 100 * ends.T
    at = -np.arange(len(shown))
    axes.barh(at, value, color=theme.estimate, alpha=0.5, height=0.7)
    error = [value - low, high - value]
    axes.errorbar(value, at, xerr=error, fmt="none", ecolor=theme.ink, elinewidth=1)
    axes.set_yticks(at, [shortened(one.name) for one in shown], fontsize="small", parse_math=False)
    axes.set_xlim(0, max(float(high.max(initial=0)), 1e-9))
    axes.xaxis.set_major_formatter(lambda share, _: f"{share:g} %")
    if (others := len(statistics.histogram) - len(shown)) > 0:
        axes.annotate(
            f"and {others:,} more", (1, 0), xycoords="axes fraction", ha="right",
            xytext=(0, 2), textcoords="offset points", fontsize="small", color=theme.faint,
        )  # fmt: skip
