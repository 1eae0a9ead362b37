"""Parts that plots share: colours, two panels on one axis of numbers, the spend below."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

from flwr_kld.common.extras import require
from flwr_kld.report.envelope import CostSummary, Point


@dataclass(frozen=True)
class Theme:
    """Colours that colour-blind readers tell apart too; each has a shape of its own."""

    ground: str
    ink: str
    faint: str
    estimate: str
    bound: str
    threshold: str
    truth: str
    alarm: str
    spend: str


LIGHT: Final = Theme(
    ground="#ffffff", ink="#1c2430", faint="#6b7480", estimate="#1f5fa8", bound="#00735c",
    threshold="#8a3ffc", truth="#b3541e", alarm="#c2183c", spend="#7a8fa6",
)  # fmt: skip
DARK: Final = Theme(
    ground="#171c24", ink="#e6e9ee", faint="#9aa4b1", estimate="#7db4f0", bound="#43c9a7",
    threshold="#c4a3ff", truth="#f0a35e", alarm="#ff7d93", spend="#8296ad",
)  # fmt: skip
CROWD = 60
"""More than this are drawn with smaller marks, or as a band."""
_NARROW, _WIDE = (3.9, 4.6), (8.6, 5.2)
"""Width and height of two panels, in inches, on a phone and elsewhere."""
_ALONE = 0.8
"""Part of the height that a panel has by itself."""
_NEARLY_A_DAY, _A_MINUTE = timedelta(hours=20), timedelta(minutes=1)


@contextmanager
def canvas(
    file: str | Path | None, size: tuple[float, float], *, title: str, dark: bool, narrow: bool
) -> Iterator[tuple[Any, Theme]]:
    """Yield a figure of this size, in inches, and its colours; then write a file."""
    matplotlib = require("matplotlib", extra="plots")
    figures = require("matplotlib.figure", extra="plots")
    theme = DARK if dark else LIGHT
    style = {
        "font.size": 8 if narrow else 9, "svg.hashsalt": "flwr-kld", "text.color": theme.ink,
        "axes.labelcolor": theme.ink, "xtick.color": theme.ink, "ytick.color": theme.ink,
        "text.parse_math": False,  # names may have dollars
    }  # fmt: skip
    with matplotlib.rc_context(style):
        figure = figures.Figure(figsize=size, layout="constrained", facecolor=theme.ground)
        yield figure, theme
        if title:
            figure.suptitle(title, fontsize="large")
        if file is not None:
            figure.savefig(file, dpi=150)


def size_of_panels(narrow: bool, *, taller: float, spend: bool) -> tuple[float, float]:
    """Return width and height of a figure of two panels, or one, in inches."""
    width, height = _NARROW if narrow else _WIDE
    return width, (height + taller) * (1 if spend else _ALONE)


@contextmanager
def two_panels(
    figure: Any, theme: Theme, narrow: bool, *, taller: float, spend: bool
) -> Iterator[tuple[Any, Any]]:
    """Yield the two axes of a figure, one above the other.

    Without a spend to be drawn, there is one panel, which is both.
    """
    heights = (3 + 4 * taller / (_NARROW if narrow else _WIDE)[1], 1)[: 1 + spend]
    panels = figure.subplots(len(heights), sharex=True, height_ratios=heights, squeeze=False)
    yield panels[0, 0], panels[-1, 0]
    for axes in panels.ravel():
        axes.grid(axis="y", color=theme.faint, alpha=0.25)
        tidy(axes, theme, narrow)


def mark(axes: Any, numbers: Sequence[int], height: float, **look: Any) -> None:
    """Put a mark at each number, at a height in [0, 1] of the panel, if there is any."""
    if numbers:
        axes.plot(
            numbers, [height] * len(numbers), markersize=5, linestyle="none",
            transform=axes.get_xaxis_transform(), **look,
        )  # fmt: skip


def mark_missing(axes: Any, series: Sequence[Point[Any]], failed: str, theme: Theme) -> None:
    """Mark those without a report along the foot of a panel: failed, or not ended."""
    missing = [one for one in series if one.report is None]
    ended = [one.number for one in missing if one.ended]
    going = [one.number for one in missing if not one.ended]
    mark(axes, ended, 0.03, color=theme.faint, marker="x", label=failed)
    hollow = {"marker": "o", "markerfacecolor": "none"}
    mark(axes, going, 0.03, color=theme.faint, label="not ended", **hollow)


def same_spend(spent: Mapping[int, CostSummary]) -> str:
    """Say what each cost, if all cost the same: equal bars tell nothing; empty otherwise."""
    charged = {cost.charged for cost in spent.values()}
    return f"ε = {charged.pop():.3g} each" if len(charged) == 1 else ""


def has_spend(spent: Mapping[int, CostSummary]) -> bool:
    """Whether there is more to draw of a spend than a line of text says."""
    return not same_spend(spent) or any(cost.left is not None for cost in spent.values())


def draw_spend(axes: Any, spent: Mapping[int, CostSummary], what: str, theme: Theme) -> None:
    """Draw epsilon of each check, if it differs, and the window's spend of the budget then."""
    if not same_spend(spent):
        axes.bar(
            list(spent), [cost.charged for cost in spent.values()],
            width=1 if len(spent) > CROWD else 0.6, color=theme.spend, label=f"of each {what}",
        )  # fmt: skip
    known = [
        (n, cost.left, cost.budget)
        for n, cost in spent.items()
        if cost.left is not None and cost.budget is not None
    ]
    if known:
        number, rest, budget = zip(*known, strict=True)
        spends = [b - e for b, e in zip(budget, rest, strict=True)]
        step(axes, number, spends, color=theme.estimate, label="spent in the window, at most")
        step(
            axes, number, budget, color=theme.threshold, linestyle=(0, (6, 3)),
            label="budget in force",
        )  # fmt: skip
        axes.annotate(
            f"{rest[-1]:.3g} left of {budget[-1]:g}", (1, budget[-1]), xytext=(0, 2), ha="right",
            va="bottom", xycoords=("axes fraction", "data"), textcoords="offset points",
            color=theme.ink,
        )  # fmt: skip
    axes.set_ylabel("ε  [nats]")
    axes.set_ylim(0, 1.3 * axes.get_ylim()[1])


def step(axes: Any, number: Sequence[int], epsilon: Sequence[float], **look: Any) -> None:
    """Draw steps as wide as the numbers that they stand for."""
    axes.step(
        [number[0] - 0.5, *number, number[-1] + 0.5], [epsilon[0], *epsilon, epsilon[-1]],
        where="mid", linewidth=1.5, **look,
    )  # fmt: skip


def label_numbers(
    axes: Any,
    numbers: Sequence[int],
    started: Mapping[int, str],
    what: str,
    by: str,
    *,
    narrow: bool,
) -> None:
    """Label the axis that both panels share: with dates or times, if all of them differ."""
    ticker = require("matplotlib.ticker", extra="plots")
    if numbers:
        axes.set_xlim(numbers[0] - 0.8, numbers[-1] + 0.8)
    axes.xaxis.set_major_locator(
        ticker.MaxNLocator(4 if narrow else 9, integer=True, min_n_ticks=1)
    )
    dates = {n: datetime.fromisoformat(text).astimezone(UTC) for n, text in started.items()}
    form = _form_of(sorted(dates.values()))
    axes.set_xlabel(what if form is None else f"{what}, by {by}")
    if form is not None:
        axes.xaxis.set_major_formatter(
            ticker.FuncFormatter(lambda n, _: f"{dates[n]:{form}}" if n in dates else "")
        )


def _form_of(dates: Sequence[datetime]) -> str | None:
    """Return the shortest form in which these moments differ from tick to tick; None if none."""
    if not dates:
        return None
    span, each = dates[-1] - dates[0], (dates[-1] - dates[0]) / max(len(dates) - 1, 1)
    if len(dates) == 1:
        return "%d %b %Y, %H:%M"
    if each >= _NEARLY_A_DAY:
        return "%d %b" if span < timedelta(days=365) else "%d %b %Y"
    if each >= _A_MINUTE:
        return "%H:%M" if dates[0].date() == dates[-1].date() else "%d %b, %H:%M"
    return None


def tidy(axes: Any, theme: Theme, narrow: bool) -> None:
    """Give a panel its colours, spines and legend."""
    axes.set_facecolor(theme.ground)
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["left", "bottom"]].set_color(theme.faint)
    if axes.get_legend_handles_labels()[1]:
        axes.legend(
            frameon=False, loc="lower left", bbox_to_anchor=(-0.01, 1.0), borderaxespad=0.2,
            ncols=2 if narrow else 3, columnspacing=1.2, handletextpad=0.5, handlelength=1.6,
        )  # fmt: skip
