"""How often the very first check finds a drift, at the level at which a year of checks is safe.

Run ``python simulations/studies/first_check.py [--runs 200] [--workers 2] [--out DIR]``. A single
check alarms if its p-value is below a fifth of 5 % in 365 checks: 2.7e-5. Two tables:

- D_θ three times the threshold of 0.1 nats, 10,000 records of 200 clients, ε = 1, drifts of many
  shapes: 99 % are to be found;
- drifts of 1.2 to 5 times the threshold for several numbers of symbols, clients and epsilons, and
  what checks in ten groups of clients found there (`BEFORE`).

Writes ``first_check.csv``, ``power.csv``, ``first_check.json`` and ``first_check.png``.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from rich.console import Console

from flwr_kld._extras import require
from flwr_kld.check.decider import Alarm
from flwr_kld.simulations.studies.check_setting import Setting
from flwr_kld.simulations.studies.checks import Checks
from flwr_kld.simulations.studies.runner import Row, generator, in_processes, options, save, show

THRESHOLD, BAR = 0.1, 0.99
ALARM = Alarm()
SHAPES = (
    *[
        Setting(symbols, drift, 3 * THRESHOLD, 200, 50)
        for symbols in (20, 1_000)
        for drift in ("tilted", "vanishing", "spread", "sparse", "alternating", "rare category")
    ],
    Setting(1_000, "one group", 3 * THRESHOLD, 200, 50),
    Setting(1_000, "spread", 3 * THRESHOLD, 200, 50, alike=50.0),
    Setting(4**5, "column 4", 3 * THRESHOLD, 200, 50, levels=4),
    Setting(0, "digit mix", 3 * THRESHOLD, 200, 50),
    Setting(0, "other hand", 3 * THRESHOLD, 200, 50),
)
NATS = (0.12, 0.15, 0.2, 0.3, 0.5)
BEFORE = {
    ("spread", 20, 400, 50, 1.0): (
        (0, 0.325, 0.7, 0.75, 0.775),
        (0.35, 0.975, 1, 1, 1),
    ),
    ("rare category", 20, 400, 50, 1.0): (
        (0.05, 0.675, 0.825, 0.9, 0.95),
        (0.75, 1, 1, 1, 1),
    ),
    ("spread", 1000, 400, 50, 1.0): (
        (0, 0, 0.275, 0.8, 0.95),
        (0, 0.1, 0.975, 1, 1),
    ),
    ("rare category", 1000, 400, 50, 1.0): (
        (0, 0.35, 0.9, 0.85, 0.95),
        (0.1, 1, 1, 1, 1),
    ),
    ("spread", 1000, 50, 100, 1.0): (
        (0, 0, 0, 0, 0),
        (0, 0, 0.15, 0.3, 0.45),
    ),
    ("rare category", 1000, 50, 100, 1.0): (
        (0, 0, 0, 0, 0.05),
        (0.025, 0.4, 0.225, 0.375, 0.575),
    ),
    ("spread", 1000, 400, 50, 0.3): (
        (0, 0, 0, 0.625, 0.875),
        (0, 0, 0.375, 1, 1),
    ),
    ("rare category", 1000, 400, 50, 0.3): (
        (0, 0, 0.525, 0.85, 0.95),
        (0.025, 0.625, 1, 1, 1),
    ),
    ("spread", 1000, 3000, 100, 1.0): (
        (0.775, 1, 1, 1, 1),
        (1, 1, 1, 1, 1),
    ),
    ("rare category", 1000, 3000, 100, 1.0): (
        (0.95, 1, 1, 1, 1),
        (1, 1, 1, 1, 1),
    ),
}
"""Power by drift, symbols, clients, records and epsilon, at each of `NATS`: of the check in ten
groups of clients, and of the first try at sums over clients. 40 runs each, measured when both were
at hand."""


@dataclass(frozen=True)
class Found:
    """Fractions of checks that found a drift."""

    setting: Setting  # Where
    power: float  # In [0, 1], and its standard error
    error: float


def found(item: tuple[Setting, int]) -> Found:
    """Run so many first checks."""
    setting, runs = item
    rng = generator(setting.name, int(1e4 * setting.nats))
    checks = Checks(setting.reference, setting.trust, THRESHOLD, setting.records)
    alarms = 0
    for _ in range(runs):
        halves = checks.halves(setting.federation, setting.clients, rng)
        alarms += checks.found_at_once(halves.witness, halves.sums, ALARM)
    power = alarms / runs
    return Found(setting, power, math.sqrt(power * (1 - power) / runs))


def table_settings() -> list[Setting]:
    """List the settings of the second table."""
    return [
        Setting(symbols, drift, nats, clients, records, epsilon)
        for drift, symbols, clients, records, epsilon in BEFORE
        for nats in NATS
    ]


def shape_row(one: Found) -> Row:
    """Say whether a shape is found often enough."""
    return {
        "shape": one.setting.name,
        "D": one.setting.nats,
        "found": one.power,
        "error": one.error,
        "enough": one.power >= BAR,
    }


def power_row(one: Found) -> Row:
    """Compare with the same check in groups."""
    s = one.setting
    before = BEFORE[s.drift, s.symbols, s.clients, s.records, s.epsilon]
    groups, first_try = (powers[NATS.index(s.nats)] for powers in before)
    return {
        "setting": s.name,
        "D": s.nats,
        "groups": groups,
        "first_try": first_try,
        "found": one.power,
        "error": one.error,
        "enough": one.power >= max(groups, first_try) - 2 * _spread(first_try),
    }


def _spread(power: float) -> float:
    """Return the standard error of a power that 40 runs measured."""
    share = (40 * power + 1) / 42
    return math.sqrt(share * (1 - share) / 42)


def plot(shapes: Sequence[Row], power: Sequence[Row], path: Path) -> None:
    """Draw what is found, and what was."""
    figure = require("matplotlib.figure", extra="plots").Figure((12, 5), layout="constrained")
    left, right = figure.subplots(1, 2)
    place = np.arange(len(shapes))[::-1]
    left.errorbar(
        [row["found"] for row in shapes], place, xerr=[2 * row["error"] for row in shapes], fmt="o"
    )
    left.axvline(BAR, color="#444444", linewidth=1)
    left.set_yticks(place, [row["shape"].split(", ")[0] for row in shapes], fontsize=8)
    left.set(title=f"D = {3 * THRESHOLD:g}, 10,000 records, ε = 1", xlabel="found", xlim=(0, 1.02))
    for i, name in enumerate(dict.fromkeys(row["setting"] for row in power)):
        own = [row for row in power if row["setting"] == name]
        nats = [row["D"] for row in own]
        right.plot(nats, [row["found"] for row in own], color=f"C{i}", label=name[:60])
        right.plot(nats, [row["groups"] for row in own], color=f"C{i}", linestyle=":")
    right.set(title="sums over clients (dotted: ten groups)", xlabel="D", ylim=(-0.02, 1.02))
    right.legend(frameon=False, fontsize=6)
    for axes in (left, right):
        axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, dpi=130)


def main() -> None:
    """Run the study."""
    chosen = options(__doc__, runs=200, what="checks in each setting", out="first_check")
    console = Console()
    work = [(setting, chosen.runs) for setting in (*SHAPES, *table_settings())]
    all_found = list(in_processes(found, work, chosen.workers, "checking once"))
    shapes = [shape_row(one) for one in all_found[: len(SHAPES)]]
    power = [power_row(one) for one in all_found[len(SHAPES) :]]
    show(f"first check at D = {3 * THRESHOLD:g}", shapes, console)
    show(f"power of one check at level {ALARM.level_at_once:.2g}", power, console)
    save(power, chosen.out, "power")
    save(shapes, chosen.out, "first_check", {"bar": BAR, "power": power})
    plot(shapes, power, chosen.out / "first_check.png")
    console.print(f"written to {chosen.out}")


if __name__ == "__main__":
    main()
