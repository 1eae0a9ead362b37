"""How often the limits of a check hold: the lower bound of D_θ, and the upper one.

Run ``python simulations/studies/coverage.py [--runs 1000] [--workers 2] [--out DIR]``. Each run is
one check of a fresh cohort by the product's own classes. In each setting: how often the lower
bound is at most the population's D_θ, and the upper limit at least, where 95 % is promised for
each; and their means. Writes ``coverage.csv``, ``coverage.json`` and ``coverage.png``.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from rich.console import Console

from flwr_kld._extras import require
from flwr_kld.simulations.studies.check_setting import Setting
from flwr_kld.simulations.studies.checks import Checks
from flwr_kld.simulations.studies.coverage_settings import settings
from flwr_kld.simulations.studies.lone_checks import limits
from flwr_kld.simulations.studies.runner import Row, generator, in_processes, options, save, show

LEVEL, THRESHOLD = 0.95, 0.05


def row(item: tuple[Setting, int]) -> Row:
    """Try both limits in one setting."""
    setting, runs = item
    rng, truth = generator(setting.name, int(1e4 * setting.nats)), max(setting.truth, 0.0)
    checks = Checks(setting.reference, setting.trust, THRESHOLD, setting.records)
    lower, upper = np.empty(runs), np.empty(runs)
    for i in range(runs):
        halves = checks.halves(setting.federation, setting.clients, rng)
        lower[i], above = limits(halves, LEVEL)
        upper[i] = above.value
    return {
        "setting": setting.name,
        "truth": truth,
        "lower_holds": float(np.mean(lower <= truth)),
        "upper_holds": float(np.mean(upper >= truth)),
        "lower": float(np.maximum(lower, 0.0).mean()),
        "upper": float(upper.mean()),
        "runs": runs,
    }


def plot(rows: Sequence[Row], path: Path) -> None:
    """Draw coverage in every setting, with two standard errors, and where the limits lie."""
    figure = require("matplotlib.figure", extra="plots").Figure((13, 8), layout="constrained")
    left, right = figure.subplots(1, 2, sharey=True)
    place = np.arange(len(rows))[::-1]
    for key, color in (("lower", "C0"), ("upper", "C1")):
        share = np.array([row[f"{key}_holds"] for row in rows])
        error = 2 * np.sqrt(share * (1 - share) / np.array([row["runs"] for row in rows]))
        left.errorbar(share, place, xerr=error, fmt="o", color=color, label=f"{key} limit")
    left.axvline(LEVEL, color="#444444", linewidth=1)
    left.set_yticks(place, [row["setting"] for row in rows], fontsize=7)
    left.set(xlabel="checks where it holds (fraction)", xlim=(min(0.85, left.get_xlim()[0]), 1.005))
    left.legend(frameon=False)
    right.hlines(place, [row["lower"] for row in rows], [row["upper"] for row in rows], color="C0")
    right.plot([row["truth"] for row in rows], place, "o", color="C3", label="D")
    right.set(xlabel="nats: D, and between the mean limits")
    right.legend(frameon=False)
    for axes in (left, right):
        axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, dpi=130)


def main() -> None:
    """Run the study."""
    chosen = options(__doc__, runs=1000, what="checks in each setting", out="coverage")
    console = Console()
    work = [(setting, chosen.runs) for setting in settings()]
    rows = list(in_processes(row, work, chosen.workers, "checking"))
    show(f"limits at {LEVEL:.0%}", rows, console)
    short = [r["setting"] for r in rows if min(r["lower_holds"], r["upper_holds"]) < LEVEL]
    save(rows, chosen.out, "coverage", {"level": LEVEL, "below": short})
    plot(rows, chosen.out / "coverage.png")
    console.print(f"{len(rows) - len(short)} of {len(rows)} settings hold; {chosen.out}")


if __name__ == "__main__":
    main()
