"""How often the lower bound and the two-sided interval hold.

Run ``python simulations/studies/coverage.py [--data writers.npz] [--runs 2000] [--out
DIR]``. Each run draws two half-cohorts, publishes noisy counts of both, learns a witness from the
first and bounds D_θ with the second, by the product's own classes. Three tables:

- the bound: how often it is at most D_θ (95 % is promised), and at most what the witness sees of
  D_θ, which is harder; its mean; and the same for the classical release of (Σ f, Σ f²) with
  record-level errors, which knows nothing of clients;
- groups: the mean bound for other numbers of groups;
- the interval: how often it is given, covers D_θ over the cells, and how wide it is.

With ``--data`` (an ``.npz`` file, a LEAF folder, or "femnist") real writers are settings too.
Writes ``coverage.csv``, ``groups.csv``, ``interval.csv`` and ``coverage.png``.
"""

from __future__ import annotations

import argparse
import csv
import math
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from rich.box import SIMPLE
from rich.console import Console
from rich.progress import track
from rich.table import Table
from scipy.stats import norm

from flwr_kld._extras import require
from flwr_kld.inference.interval import Interval, two_sided_interval
from flwr_kld.inference.lower_bound import lower_confidence_bound
from flwr_kld.inference.witness import GROUPS, Witness
from flwr_kld.simulations.studies.cohorts import Counts
from flwr_kld.simulations.studies.coverage_settings import (
    LEVEL,
    Setting,
    bound_settings,
    interval_settings,
)

NUMBERS = (4, 6, 8, 10, 16, 24)
Row = dict[str, Any]


def generator(setting: Setting) -> np.random.Generator:
    """Return simulation randomness, the same for a setting in every run of the study."""
    return np.random.default_rng(zlib.crc32(setting.name.encode()))


def classical(setting: Setting, witness: Witness, exact: Counts, rng: np.random.Generator) -> float:
    """Bound by noised (Σ f, Σ f²) at 0.8 and 0.2 of epsilon, as if records were independent."""
    f, counts = witness.f, exact.sum(axis=1)
    records, epsilon = counts.sum(), setting.event.guarantee.epsilon
    mean, square = f @ counts / records, f**2 @ counts / records
    by_mean = (f.max() - f.min()) / records / (0.8 * epsilon)
    by_square = (f.max() ** 2 - f.min() ** 2) / records / (0.2 * epsilon)
    mean, square = mean + rng.laplace(0, by_mean), square + rng.laplace(0, by_square)
    variance = max(square - mean**2, 0.0) / records + 2 * by_mean**2
    upper = max(mean + norm.ppf(LEVEL) * math.sqrt(variance), f.min())
    whole = (1 - setting.theta) * upper + setting.theta * witness.reference_mean
    return witness.log_mean - math.log(whole)


def bound_row(setting: Setting, runs: int) -> Row:
    """Try the bound in one setting."""
    rng, theta = generator(setting), setting.theta
    shares, truth = setting.cohorts.shares, setting.truth
    lower, seen, old = (np.empty(runs) for _ in range(3))
    for i in range(runs):
        _, witness, exact, second = setting.check(GROUPS, rng)
        lower[i] = lower_confidence_bound(witness, second, theta=theta, level=LEVEL).lower
        mean = np.bincount(witness.level_of, shares) @ witness.f
        whole = (1 - theta) * mean + theta * witness.reference_mean
        seen[i] = witness.log_mean - math.log(whole)
        old[i] = classical(setting, witness, exact, rng)
    return {
        "setting": setting.name,
        "epsilon": setting.event.guarantee.epsilon,
        "truth": truth,
        "covers": float(np.mean(lower <= truth)),
        "covers_seen": float(np.mean(lower <= seen)),
        "seen": float(seen.mean()),
        "bound": float(lower.mean()),
        "classical_covers": float(np.mean(old <= truth)),
        "classical_covers_seen": float(np.mean(old <= seen)),
        "classical_bound": float(old.mean()),
        "runs": runs,
    }


def groups_row(setting: Setting, runs: int) -> Row:
    """Mean bound in nats for each number of groups."""
    row: Row = {"setting": setting.name}
    for groups in NUMBERS:
        rng, total = generator(setting), 0.0
        for _ in range(runs):
            _, witness, _, second = setting.check(groups, rng)
            bound = lower_confidence_bound(witness, second, theta=setting.theta, level=LEVEL)
            total += bound.lower
        row[str(groups)] = total / runs
    return row


def interval_row(setting: Setting, runs: int) -> Row:
    """Try the two-sided interval in one setting."""
    rng, truth = generator(setting), setting.truth
    given = covered = 0
    width = 0.0
    for _ in range(runs):
        first, witness, _, second = setting.check(GROUPS, rng)
        bound = lower_confidence_bound(witness, second, theta=setting.theta, level=LEVEL)
        interval = two_sided_interval(first, bound, theta=setting.theta, level=LEVEL)
        if isinstance(interval, Interval):
            given += 1
            covered += interval.lower <= truth <= interval.upper
            width += interval.upper - interval.lower
    return {
        "setting": setting.name,
        "epsilon": setting.event.guarantee.epsilon,
        "theta": setting.theta,
        "truth": truth,
        "given": given / runs,
        "covers": covered / given if given else None,
        "width": width / given if given else None,
        "runs": runs,
    }


def show(title: str, rows: Sequence[Row], console: Console) -> None:
    """Print a table."""
    table = Table(title=title, box=SIMPLE)
    for name in rows[0]:
        first = name == "setting"
        table.add_column(
            name.replace("_", " "), justify="left" if first else "right", no_wrap=first
        )
    for row in rows:
        cells = [f"{v:.4g}" if isinstance(v, float) else str(v) for v in row.values()]
        table.add_row(*cells)
    console.print(table)


def plot(bounds: Sequence[Row], intervals: Sequence[Row], path: Path) -> None:
    """Draw coverage in every setting, with two standard errors."""
    figure = require("matplotlib.figure", extra="plots").Figure((11, 7.5), layout="constrained")
    axes = figure.subplots(1, 2)
    given = [row for row in intervals if row["covers"] is not None]
    for ax, rows, title, series in (
        (axes[0], bounds, "lower bound at most …", (
            ("covers", "D_θ", "C0"),
            ("covers_seen", "what the witness sees", "C1"),
            ("classical_covers_seen", "the same, classical release", "#9a9a9a"),
        )),
        (axes[1], given, "two-sided interval covers D_θ over the cells", (("covers", "", "C0"),)),
    ):  # fmt: skip
        place = np.arange(len(rows))[::-1]
        for key, label, color in series:
            share = np.array([row[key] for row in rows])
            error = 2 * np.sqrt(share * (1 - share) / np.array([row["runs"] for row in rows]))
            ax.errorbar(share, place, xerr=error, fmt="o", markersize=4, color=color, label=label)
        ax.axvline(LEVEL, color="#444444", linewidth=1)
        ax.set_yticks(place, [row["setting"] for row in rows], fontsize=7)
        ax.set(title=title, xlabel="share of runs", xlim=(min(0.8, ax.get_xlim()[0]), 1.005))
        ax.spines[["top", "right"]].set_visible(False)
    axes[0].legend(frameon=False, loc="lower left")
    figure.savefig(path, dpi=130)


def save(rows: Sequence[Row], path: Path) -> None:
    """Write a table as CSV."""
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, fieldnames=list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)


def tables(data: Path | None, runs: int) -> Iterator[tuple[str, str, list[Row]]]:
    """Yield each table's file, title and rows."""
    settings = bound_settings(data)
    shown = track(settings, description="lower bound")
    yield "coverage", f"lower bound, {runs} runs", [bound_row(s, runs) for s in shown]
    few = max(runs // 10, 2)
    shown = track(settings, description="numbers of groups")
    yield "groups", f"mean bound by groups, {few} runs", [groups_row(s, few) for s in shown]
    shown = track(interval_settings(data), description="two-sided interval")
    yield "interval", f"interval, {runs} runs", [interval_row(s, runs) for s in shown]


def main() -> None:
    """Run the study."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--data", type=Path, help=".npz file, LEAF folder, or femnist")
    parser.add_argument("--runs", type=int, default=2000, help="in each setting")
    parser.add_argument("--out", type=Path, default=Path("out/coverage"), help="folder to write")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    console, found = Console(), {}
    for name, title, rows in tables(options.data, options.runs):
        show(title, rows, console)
        save(rows, options.out / f"{name}.csv")
        found[name] = rows
    plot(found["coverage"], found["interval"], options.out / "coverage.png")
    console.print(f"written to {options.out}")


if __name__ == "__main__":
    main()
