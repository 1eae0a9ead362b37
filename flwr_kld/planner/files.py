"""A plan as a table and as a plot."""

from __future__ import annotations

import csv
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from flwr_kld._extras import require
from flwr_kld.codec.json_text import json_text
from flwr_kld.planner.forecast import Forecast


def save_csv(rows: Sequence[Forecast], path: Path) -> None:
    """Write one row a forecast, of a table one a column; divergences and errors in nats."""
    found = flat(rows)
    with path.open("w", newline="") as file:
        table = csv.DictWriter(file, list(found[0]) if found else [])
        table.writeheader()
        table.writerows(found)


def save_json(rows: Sequence[Forecast], path: Path) -> None:
    """Write the same rows as JSON."""
    path.write_text(json_text(flat(rows), indent=2))


def flat(rows: Sequence[Forecast]) -> list[dict[str, Any]]:
    """Return one JSON-able row a forecast, of a table one a column."""
    return [one.to_dict() for row in rows for one in row.by_column]


def save_plot(rows: Sequence[Forecast], path: Path) -> None:
    """Draw the smallest drift that is found and the estimate's error over epsilon.

    A line for each number of clients, of the column of a table that is the hardest to check; a
    panel without any number is left out.
    """
    figures = require("matplotlib.figure", extra="plots")
    ticker = require("matplotlib.ticker", extra="plots")
    titles = {"smallest": "smallest drift that is found", "error": "error of the estimate (r.m.s.)"}
    shown = [name for name in titles if any(getattr(row, name) for row in rows)]
    figure = figures.Figure(figsize=(4.5 * len(shown), 4.2), layout="constrained")
    for name, axes in zip(shown, figure.subplots(1, len(shown), squeeze=False)[0], strict=True):
        for clients in sorted({row.setting.clients for row in rows}):
            line = sorted(
                (row.setting.epsilon, getattr(row, name) or math.nan)
                for row in rows
                if row.setting.clients == clients
            )
            axes.plot(*zip(*line, strict=True), marker="o", label=f"{clients:,} clients")
        axes.set(title=titles[name], xlabel="ε of a check  [nats]", xscale="log", yscale="log")
        axes.set_xticks(sorted({row.setting.epsilon for row in rows}))
        axes.yaxis.set_major_locator(ticker.LogLocator(subs=(1.0, 2.0, 5.0)))
        for axis in (axes.xaxis, axes.yaxis):
            axis.set_major_formatter(ticker.FormatStrFormatter("%g"))
            axis.set_minor_locator(ticker.NullLocator())
        axes.grid(alpha=0.3)
        axes.spines[["top", "right"]].set_visible(False)
        axes.legend(frameon=False)
        axes.set_ylabel("KL(reference ‖ clients)  [nats]")
    figure.savefig(path, dpi=130)
