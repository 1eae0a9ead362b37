"""How often "no drift" is said of a drift that is to be excluded.

Run ``python simulations/studies/false_no_drift.py [--runs 50] [--workers 2] [--out DIR]``. In more
than 200 settings D_θ is exactly threshold + resolution, the least that "no drift" excludes, and a
single check decides. In none of the settings may it say "no drift" in more than 20 % of the runs;
how often it says "drift" or "inconclusive" is shown beside, and how often "no drift" is said where
nothing drifted (in a quarter of so many runs): a check that never says it would pass, too.
Writes ``false_no_drift.csv``, ``false_no_drift.json`` and ``false_no_drift.png``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
from rich.console import Console

from flwr_kld._extras import require
from flwr_kld.check.decider import Alarm
from flwr_kld.inference.verdict import Outcome
from flwr_kld.simulations.studies.check_setting import Setting
from flwr_kld.simulations.studies.checks import Checks
from flwr_kld.simulations.studies.false_no_drift_settings import settings
from flwr_kld.simulations.studies.lone_checks import verdict
from flwr_kld.simulations.studies.runner import Row, generator, in_processes, options, save, show

THRESHOLD, MOST = 0.1, 0.2
ALARM = Alarm(horizon=1)
_SHOWN = 30
"""Settings in the printed table: those with most false statements."""


def outcomes(setting: Setting, runs: int) -> Counter[Outcome]:
    """Run so many checks, each of which stands alone."""
    rng = generator(setting.name, int(1e4 * setting.nats))
    checks = Checks(setting.reference, setting.trust, THRESHOLD, setting.records)
    return Counter(
        verdict(checks.halves(setting.federation, setting.clients, rng), ALARM).outcome
        for _ in range(runs)
    )


def row(item: tuple[Setting, int]) -> Row:
    """Count what is said with the drift, and without."""
    setting, runs = item
    drifted = outcomes(setting, runs)
    few = max(runs // 4, 1)
    rest = outcomes(replace(setting, nats=0.0), few)
    return {
        "setting": setting.name,
        "D": setting.truth,
        "false_no_drift": drifted[Outcome.NO_DRIFT] / runs,
        "inconclusive": drifted[Outcome.INCONCLUSIVE] / runs,
        "drift": drifted[Outcome.DRIFT] / runs,
        "no_drift_at_0": rest[Outcome.NO_DRIFT] / few,
        "runs": runs,
    }


def plot(rows: Sequence[Row], path: Path) -> None:
    """Draw what is said in each setting, and what without a drift."""
    figure = require("matplotlib.figure", extra="plots").Figure((12, 5), layout="constrained")
    left, right = figure.subplots(1, 2)
    ordered = sorted(rows, key=lambda row: (row["drift"], row["false_no_drift"]))
    place, bottom = np.arange(len(rows)), np.zeros(len(rows))
    for key, color in (("drift", "C0"), ("inconclusive", "#cccccc"), ("false_no_drift", "C3")):
        share = np.array([row[key] for row in ordered])
        left.bar(place, share, 1.0, bottom, color=color, label=key.replace("_", " "))
        bottom += share
    left.set(xlabel="setting", ylabel="fraction of checks", title="D = threshold + resolution")
    left.legend(loc="lower right")
    right.hist([row["false_no_drift"] for row in rows], np.linspace(0, 1, 41), color="C3")
    right.axvline(MOST, color="#444444", linewidth=1)
    right.set(yscale="log", xlabel='fraction of false "no drift"', ylabel="settings")
    for axes in (left, right):
        axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, dpi=130)


def main() -> None:
    """Run the study."""
    chosen = options(__doc__, runs=50, what="checks in each setting", out="false_no_drift")
    console = Console()
    work = [(setting, chosen.runs) for setting in settings(THRESHOLD + ALARM.resolution)]
    rows = list(in_processes(row, work, chosen.workers, "checking"))
    worst = sorted(rows, key=lambda row: -row["false_no_drift"])
    show(f"the {_SHOWN} worst of {len(rows)} settings", worst[:_SHOWN], console)
    columns = ("false_no_drift", "inconclusive", "drift", "no_drift_at_0")
    summary: Row = {
        "settings": len(rows),
        "worst": worst[0]["false_no_drift"],
        "above": sum(row["false_no_drift"] > MOST for row in rows),
        **{f"mean_{key}": float(np.mean([row[key] for row in rows])) for key in columns},
    }
    show("in all settings", [summary], console)
    save(rows, chosen.out, "false_no_drift", summary)
    plot(rows, chosen.out / "false_no_drift.png")
    console.print(f"written to {chosen.out}")


if __name__ == "__main__":
    main()
