"""A simulated year of daily checks: how often it alarms falsely, and how soon rightly.

Run ``python simulations/studies/year.py [--years 200] [--workers 2] [--out DIR]``.
14,600 people write digits, each in a hand of their own (scikit-learn's images, redrawn). Each day
the next 200 of them are asked, half for counts and half for a bound, so that everyone is asked five
times a year at ε = 0.2: (1, 1e-6) a year, and no more. Witness, noise tables, evidence and alarm
are the product's own; Flower's messages are left out. What is spent does not hang on the data, so
one year of it is enough: a ledger books it day by day, and dp-accounting computes it anew.

Years without drift, years whose D_θ is exactly the threshold, and years in which from day 200 on
everybody writes more 1s and 7s: the two drifts at which a check in ten groups of clients saw 1 and
2 standard errors above the threshold, and took 17 and 7 days to alarm. Cells are drawn anew each
day; D_θ over them is averaged. Writes ``year.csv``,
``year.json`` and ``year.png``.
"""

from __future__ import annotations

import argparse
import csv
import json
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass, field
from functools import lru_cache
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.progress import Progress
from rich.table import Table
from scipy.optimize import brentq

from flwr_kld._extras import require
from flwr_kld.accounting import Budget
from flwr_kld.check.decider import Alarm
from flwr_kld.inference.bets import log_evidence
from flwr_kld.inference.e_detector import EDetector, Standing
from flwr_kld.inference.lower_bound import lower_confidence_bound
from flwr_kld.inference.recent_checks import RecentChecks
from flwr_kld.simulations.studies.checks import Halves
from flwr_kld.simulations.studies.year_ledger import Price, price_of
from flwr_kld.simulations.studies.year_world import COHORT, PEOPLE, World

DAYS, DRIFT_FROM = 365, 200
THRESHOLD = 0.05
PARTS = {"drift of 1 s.e.": 0.8535, "drift of 2 s.e.": 0.9258}
"""Of what is written, that drifts. Named by how far it stood above the threshold in standard errors
of a check whose second half answered in groups; measured by 400 such checks at each of 10 parts."""
_PATIENCE = 100
"""Days after the drift at which a year is given up."""
ALARM = Alarm(horizon=DAYS)
BUDGET = Budget(1.0, 1e-6, window_days=DAYS)


@lru_cache(maxsize=1)
def world() -> World:
    """Return the world, built once a process."""
    return World(THRESHOLD)


@dataclass
class Memory:
    """What a monitor remembers between checks."""

    # Evidence
    detector: EDetector = field(default_factory=lambda: EDetector(ALARM.detector.rate, DAYS))
    recent: RecentChecks = field(default_factory=RecentChecks)  # What the last checks published

    def copy(self) -> Memory:
        """Return another one that has seen the same."""
        return Memory(EDetector.restore(self.detector.state()), self.recent)

    def update(self, halves: Halves) -> Standing:
        """Take in a check."""
        spread = lower_confidence_bound(halves.witness, halves.sums).spread
        self.recent = self.recent.with_check(halves.first, spread)
        return self.detector.update(log_evidence(halves.witness, halves.sums))


@dataclass(frozen=True)
class Days:
    """What a stretch of daily checks came to."""

    scenario: str  # What the people did
    year: int  # Seeds it
    # First day with an alarm by evidence over checks, and by one check alone
    by_evidence: int | None
    at_once: int | None
    path: tuple[float, ...]  # Evidence after each day, in units of the alarm

    @property
    def alarm(self) -> int | None:
        """Day of the first alarm of either kind."""
        found = [day for day in (self.by_evidence, self.at_once) if day is not None]
        return min(found, default=None)


@dataclass(frozen=True)
class Scenario:
    """From `first` to `last`, this part of what is written has drifted."""

    name: str
    part: float
    first: int
    last: int


def live(scenario: Scenario, year: int, memory: Memory, *, until_alarm: bool = False) -> Days:
    """Check daily; `memory` keeps the evidence."""
    here, name = world(), scenario.name
    people = np.random.default_rng(year).permutation(PEOPLE).reshape(-1, COHORT)
    rng = np.random.default_rng([year, *name.encode()])
    by_evidence, at_once, path = None, None, []
    for day in range(scenario.first, scenario.last + 1):
        asked = rng.permutation(people[day % len(people)])
        halves = here.check(asked, scenario.part, memory.recent, rng)
        standing = memory.update(halves)
        path.append(standing.evidence / standing.alarm_at)
        if standing.alarmed:
            by_evidence = by_evidence or day
        if here.checks.found_at_once(halves.witness, halves.sums, ALARM):
            at_once = at_once or day
        if until_alarm and by_evidence:
            break
    return Days(name, year, by_evidence, at_once, tuple(path))


def year_with_and_without(year: int) -> list[Days]:
    """Live a year without drift, and from its day 200 on the same year with each drift."""
    memory = Memory()
    before = live(Scenario("no drift, first part", 0.0, 1, DRIFT_FROM - 1), year, memory)
    remembered = memory.copy()
    after = live(Scenario("no drift, rest", 0.0, DRIFT_FROM, DAYS), year, memory)
    whole = Days(
        "no drift",
        year,
        before.by_evidence or after.by_evidence,
        before.at_once or after.at_once,
        before.path + after.path,
    )
    found = [whole]
    for name, part in PARTS.items():
        drift = Scenario(name, part, DRIFT_FROM, DRIFT_FROM + _PATIENCE)
        if not before.alarm:
            found.append(live(drift, year, remembered.copy(), until_alarm=True))
    return found


def year_at_the_threshold(year: int, part: float) -> list[Days]:
    """Live a year whose D_θ is exactly the threshold."""
    return [live(Scenario("at the threshold", part, 1, DAYS), year, Memory())]


def price(folder: Path) -> Price:
    """Book a year's checks."""
    days = range(1, DAYS + 1)
    file, event = folder / "drift.db", world().checks.trust.event(COHORT // 2)
    file.unlink(missing_ok=True)
    return price_of(event, BUDGET, people=PEOPLE, cohort=COHORT, days=days, file=file)


def summary(found: Sequence[Days]) -> list[dict[str, Any]]:
    """Alarm probability of the years without drift beyond the threshold; delays of the others."""
    rows = []
    for name in dict.fromkeys(days.scenario for days in found):
        own = [days for days in found if days.scenario == name]
        row: dict[str, Any] = {"scenario": name, "years": len(own)}
        if name.startswith("drift"):
            for key, first in (("evidence", "by_evidence"), ("either", "alarm")):
                alarms = [getattr(days, first) for days in own]
                delays = np.array([(a or 10**6) - DRIFT_FROM + 1 for a in alarms])
                row[f"median_delay_{key}"] = float(np.median(delays))
                row[f"delay_90_{key}"] = float(np.quantile(delays, 0.9, method="higher"))
        else:
            for key, first in (("evidence", "by_evidence"), ("either", "alarm")):
                row[f"alarm_{key}"] = np.mean([getattr(d, first) is not None for d in own])
        rows.append(row)
    return rows


def show(rows: Sequence[dict[str, Any]], spent: Price, console: Console) -> None:
    """Print alarms and delays, and what they cost."""
    table = Table(title=f"{DAYS} daily checks, D_θ tolerated up to {THRESHOLD} nats")
    for heading in ("scenario", "years", "false alarm by evidence", "of either kind",
                    "median days by evidence", "of either kind", "90 % within"):  # fmt: skip
        table.add_column(heading, justify="left" if heading == "scenario" else "right")
    keys = ("alarm_evidence", "alarm_either", "median_delay_evidence", "median_delay_either",
            "delay_90_either")  # fmt: skip
    for row in rows:
        cells = [f"{row[key]:.3g}" if key in row else "" for key in keys]
        table.add_row(row["scenario"], str(row["years"]), *cells)
    console.print(table)
    console.print(
        f"ledger: asked {spent.asked} times a year, ε = {spent.ledger:.7f} of {BUDGET.epsilon:g} "
        f"at δ = {BUDGET.delta:g}; by dp-accounting {spent.dp_accounting:.7f}"
    )


def plot(found: Sequence[Days], path: Path) -> None:
    """Draw evidence over the days, and how many days alarms took."""
    figure = require("matplotlib.figure", extra="plots").Figure((11, 4.4), layout="constrained")
    left, right = figure.subplots(1, 2)
    names = list(dict.fromkeys(days.scenario for days in found))
    for k, name in enumerate(names):
        first = DRIFT_FROM if name.startswith("drift") else 1
        for i, days in enumerate([d for d in found if d.scenario == name][:12]):
            at = np.arange(first, first + len(days.path))
            left.plot(
                at, days.path, color=f"C{k}", alpha=0.6, linewidth=0.8,
                label=name if i == 0 else None,
            )  # fmt: skip
    left.axhline(1.0, color="#444444", linewidth=1)
    left.set(yscale="log", ylim=(1e-6, 300), xlabel="day", title="evidence over checks, alarm = 1")
    left.legend(frameon=False, loc="upper left")
    for k, name in enumerate(names):
        if name.startswith("drift"):
            delays = [
                d.by_evidence - DRIFT_FROM + 1
                for d in found
                if d.scenario == name and d.by_evidence
            ]
            right.hist(delays, np.arange(0.5, 60.5), color=f"C{k}", alpha=0.7, label=name)
    right.set(xlabel="days from drift to alarm", ylabel="years", title="delay")
    right.legend(frameon=False)
    for axes in (left, right):
        axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, dpi=130)


def save(found: Sequence[Days], rows: Sequence[dict[str, Any]], spent: Price, out: Path) -> None:
    """Write every year and the summary."""
    with (out / "year.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["scenario", "year", "by_evidence", "at_once", "most_evidence"])
        writer.writerows([d.scenario, d.year, d.by_evidence, d.at_once, max(d.path)] for d in found)
    (out / "year.json").write_text(json.dumps({"rows": rows, "spent": asdict(spent)}, indent=2))
    plot(found, out / "year.png")


def main() -> None:
    """Run the study."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--years", type=int, default=200, help="without drift")
    parser.add_argument("--workers", type=int, default=2, help="processes")
    parser.add_argument("--out", type=Path, default=Path("out/year"), help="folder to write")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    console = Console()
    boundary = float(brentq(lambda part: world().divergence(part) - THRESHOLD, 0.0, 1.0))
    for name, part in PARTS.items():
        console.print(f"{name}: {part:.1%} drifted, {world().divergence(part):.3f} nats")
    years, found = range(1, options.years + 1), []
    pool = ProcessPoolExecutor(options.workers, get_context("spawn"))
    with pool, Progress(console=console) as progress:
        jobs = [pool.submit(year_with_and_without, year) for year in years]
        half = years[: max(options.years // 2, 1)]
        jobs += [pool.submit(year_at_the_threshold, year, boundary) for year in half]
        booked = pool.submit(price, options.out)
        task = progress.add_task("living years", total=len(jobs))
        for job in jobs:
            found += job.result()
            progress.advance(task)
    rows, spent = summary(found), booked.result()
    show(rows, spent, console)
    save(found, rows, spent, options.out)
    console.print(f"written to {options.out}")


if __name__ == "__main__":
    main()
