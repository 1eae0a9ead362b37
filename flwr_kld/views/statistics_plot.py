"""Plot of a description: where the values of each column lie, with 95 % intervals."""

from __future__ import annotations

import math
from collections.abc import Mapping
from textwrap import fill
from typing import Any

import numpy as np

from flwr_kld.infer.figures.numbers import edges_read
from flwr_kld.infer.figures.statistics import ColumnStatistics, NumberStatistics
from flwr_kld.infer.fraction_interval import Floats
from flwr_kld.report.words import in_digits, shortened, shown
from flwr_kld.views.panels import Theme, tidy

_LABELS = 8
"""Labels that a panel shows, the most frequent."""
_CALENDAR = 12
"""Names of hours, weekdays or months beside a panel."""
_ROOM = 3
"""Labels that a panel has room for, if there are fewer."""
_WIDE = 40
"""Characters of a line below a panel."""
_NARROW = 0.05
"""Part of the range that is drawn alone if it holds all that the noise does not explain."""
_SEEN = 5e-4
"""Fraction of the records below which it is not said what the domain does not list."""
_ABREAST = 3
"""Panels beside each other; one on a narrow screen."""


def size_of(columns: int, *, narrow: bool) -> tuple[float, float]:
    """Return width and height of a figure of so many panels, in inches."""
    abreast = _abreast(columns, narrow)
    return 3.9 if narrow else 2.95 * abreast, 2.2 * math.ceil(columns / abreast) + 0.3


def _abreast(columns: int, narrow: bool) -> int:
    return 1 if narrow else min(_ABREAST, columns)


def draw_statistics(
    figure: Any, columns: Mapping[str, ColumnStatistics], theme: Theme, *, narrow: bool
) -> None:
    """Draw a panel for each column, by heading."""
    abreast = _abreast(len(columns), narrow)
    figure.get_layout_engine().set(w_pad=0.1, h_pad=0.08)  # inches around each panel
    panels = figure.subplots(math.ceil(len(columns) / abreast), abreast, squeeze=False).ravel()
    for axes, (heading, statistics) in zip(panels, columns.items(), strict=False):
        axes.set_title(heading, fontsize="medium")
        if statistics.numbers is None:
            _draw_labels(axes, statistics, theme)
        else:
            _draw_numbers(axes, statistics, statistics.numbers, theme)
        axes.set_xlabel(fill(_not_drawn(statistics), _WIDE), fontsize="small", color=theme.faint)
        tidy(axes, theme, narrow)
    for axes in panels[len(columns) :]:
        axes.set_axis_off()


def _not_drawn(statistics: ColumnStatistics) -> str:
    """Say how many labels a panel has no room for, and what the domain does not list."""
    more = len(statistics.histogram) - _LABELS
    left = [] if statistics.numbers or statistics.by_calendar or more <= 0 else [f"{more:,} more"]
    unlisted = [one for one in statistics.unlisted if one.value >= _SEEN]
    return ", ".join([*left, *(f"{one.name} {one.value:.1%}" for one in unlisted)])


def _draw_numbers(
    axes: Any, statistics: ColumnStatistics, numbers: NumberStatistics, theme: Theme
) -> None:
    """Draw how dense records lie between the outer edges, and how many lie beyond them."""
    edges = np.array(numbers.edges)
    bins = np.array([(one.value, one.low, one.high) for one in statistics.histogram])
    places = edges_read(len(edges))  # thousands of bins are narrower than a pixel
    edges, inner = edges[places], np.add.reduceat(bins[1:-1], places[:-1])
    first, last = _held(edges, inner[:, 1])
    edges, inner = edges[first : last + 1], inner[first:last]
    dense, low, high = (inner / np.diff(edges)[:, None]).T
    axes.stairs(dense, edges, fill=True, color=theme.estimate, alpha=0.35)
    axes.stairs(high, edges, baseline=low, fill=True, color=theme.estimate, alpha=0.6)
    mean = numbers.mean.value
    shown = statistics.count.low > 0 and not statistics.drowned(numbers.mean)
    if shown and edges[0] <= mean <= edges[-1]:
        left = mean > (edges[0] + edges[-1]) / 2
        shown_mean, *_ = in_digits(mean, numbers.mean.low, numbers.mean.high)
        axes.axvline(mean, color=theme.truth, linewidth=1.2)
        axes.annotate(
            f"mean {shown_mean}", (mean, 1), color=theme.truth, xycoords=("data", "axes fraction"),
            xytext=(-2 if left else 2, -2), textcoords="offset points",
            ha="right" if left else "left", va="top", fontsize="small",
        )  # fmt: skip
    beyond = {"left": f"← {bins[0, 0]:.1%}", "right": f"{bins[-1, 0]:.1%} →"}
    for side, words in beyond.items() if len(dense) == len(places) - 1 else ():
        axes.annotate(
            words, (float(side == "right"), 0), xycoords="axes fraction", xytext=(0, 2),
            textcoords="offset points", ha=side, fontsize="small", color=theme.ink,
        )  # fmt: skip
    axes.set_xlim(edges[0], edges[-1])
    # Where most lie beyond the edges, or are missing, few are not to look like many; nor is noise
    # in bins that are very narrow.
    even = 1 / (edges[-1] - edges[0])
    axes.set_ylim(0, 1.15 * float(high[low > 0].max(initial=even)))
    axes.set_yticks([])
    axes.locator_params(axis="x", nbins=4)


def _held(edges: Floats, certain: Floats) -> tuple[int, int]:
    """Return between which edges to draw: all, or those that hold records if they are narrow."""
    held = np.flatnonzero(certain > 0)
    if len(held) and edges[held[-1] + 1] - edges[held[0]] < _NARROW * (edges[-1] - edges[0]):
        return int(held[0]), int(held[-1]) + 1
    return 0, len(edges) - 1


def _draw_labels(axes: Any, statistics: ColumnStatistics, theme: Theme) -> None:
    """Draw the most frequent labels, or all hours, weekdays or months in their order."""
    if not statistics.histogram:
        axes.set_xticks([])
        axes.set_yticks([])
        return
    calendar = statistics.by_calendar
    frequent = statistics.histogram if calendar else statistics.most_frequent(_LABELS)
    ends = np.array([(one.value, one.low, one.high) for one in frequent])
    value, low, high = 100 * ends.T
    at = -np.arange(len(frequent))
    axes.barh(at, value, color=theme.estimate, alpha=0.5, height=0.7)
    error = [value - low, high - value]
    axes.errorbar(value, at, xerr=error, fmt="none", ecolor=theme.ink, elinewidth=1)
    names = [shortened(shown(one.name)) for one in frequent]
    each = math.ceil(len(names) / _CALENDAR)
    axes.set_yticks(at[::each], names[::each], fontsize="small")
    axes.set_ylim(min(at[-1], 1 - _ROOM) - 0.5, 0.5)
    axes.set_xlim(0, max(1.03 * float(high.max()), 1e-9))
    axes.xaxis.set_major_formatter(lambda share, _: f"{share:g} %")
