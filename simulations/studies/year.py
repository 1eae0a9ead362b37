"""A simulated year of daily checks: how often it alarms falsely, and how soon rightly.

Run ``python -m flwr_kld.simulations.studies.year [--years 200] [--workers 2] [--out DIR]``.
14,600 people write digits, each in a hand of their own (scikit-learn's images, redrawn). Each day
the next 200 of them are asked, half for counts and half for a bound, so that everyone is asked five
times a year at ε = 0.2: (1, 1e-6) a year with room to spare. Witness, noise tables, evidence and
alarm are the product's own; Flower's messages and the ledger are left out, and `releases` says what
a ledger would have to book.

Years without drift, years whose D_θ is exactly the threshold, and years in which from day 200 on
everybody writes more 1s and 7s: so many that what the witness sees lies 1 or 2 standard errors of a
check above the threshold. Writes ``year.csv``, ``year.json`` and ``year.png``.
"""

from __future__ import annotations

import argparse
import csv
import json
import math
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from flwr_kld._extras import require
from flwr_kld.alarm import EDetector, Evidence
from flwr_kld.bounds import GROUPS, Witness, certified_lower_bound
from flwr_kld.clients.handwriting import load_digits
from flwr_kld.counts import NoisyCounts
from flwr_kld.divergence import skewed_divergence
from flwr_kld.estimate.score import Floats
from flwr_kld.privacy import Adjacency, PrivacyEvent, SeededBits, calibrated_laplace
from flwr_kld.query import Partition
from flwr_kld.reference import Reference
from flwr_kld.simulations.studies.cohorts import Hands, merged, published
from flwr_kld.strategies.deciding import Alarm

DAYS, DRIFT_FROM = 365, 200
PEOPLE, COHORT, RECORDS = 14_600, 200, 50
"""In all, asked a day, and fresh records of each of them."""
EPSILON, CELLS, THETA, THRESHOLD = 0.2, 100, 0.01, 0.05
SIZES = (1.0, 2.0)
"""Of the drift, in standard errors of one check."""
_WRITTEN = 100
"""Images that a person's records are drawn from."""
_PAST = range(1_000_000, 1_003_000)
_PATIENCE = 100
"""Days after the drift at which a year is given up."""
_TRIALS, _STEPS = 100, 8
"""Checks at each of so many candidates for a drift of the wanted size."""
ALARM = Alarm(horizon=DAYS)
People = NDArray[np.int64]


@dataclass(frozen=True)
class Release:
    """One noisy release, for a ledger: on the records of whom, and at what cost.

    Parameters
    ----------
    people : People
        Whose records are counted.
    event : PrivacyEvent
        What each of them pays.
    """

    people: People
    event: PrivacyEvent


class World:
    """Everything that is the same in all years."""

    def __init__(self) -> None:
        self.usual = Hands.virtual(range(PEOPLE), _WRITTEN)
        self.drifted = Hands.virtual(range(PEOPLE), _WRITTEN, digits=(1, 7))
        domain, past = load_digits(1).patterns(), Hands.virtual(_PAST, _WRITTEN)
        reference = Reference.from_probabilities(domain, past.law(domain.size))
        self.plan = Partition(CELLS).draw(reference, np.random.default_rng(0))
        self.event = calibrated_laplace(EPSILON, 0.0, Adjacency.REPLACE_ONE)
        laws = [hands.law(domain.size) for hands in (self.usual, self.drifted)]
        self._shares = [np.bincount(self.plan.cell_of, law, self.plan.cells) for law in laws]

    def shares(self, part: float) -> Floats:
        """P over the cells if this part of what is written has drifted."""
        usual, drifted = self._shares
        mixed: Floats = (1 - part) * usual + part * drifted
        return mixed

    def divergence(self, part: float) -> float:
        """D_θ over the cells, in nats."""
        return skewed_divergence(self.plan.mass, self.shares(part), THETA)

    def releases(self, people: People) -> tuple[Release, Release]:
        """Say what one check publishes of whom: two halves that share nobody."""
        half = len(people) // 2
        return Release(people[:half], self.event), Release(people[half:], self.event)

    def check(
        self, people: People, part: float, rng: np.random.Generator
    ) -> tuple[Witness, NoisyCounts]:
        """Run one check on these people's records of the day."""
        first, second = self.releases(people)
        bits = SeededBits(int(rng.integers(2**63)))
        counts = np.bincount(self._cells(first.people, part, rng), minlength=self.plan.cells)
        noisy = published(counts[:, None], self.plan, first.event, bits)
        witness = Witness.from_counts(noisy, theta=THETA, level=ALARM.level)
        place = self._cells(second.people, part, rng).reshape(len(second.people), -1) * GROUPS
        place += rng.integers(GROUPS, size=(len(second.people), 1))
        counts = np.bincount(place.reshape(-1), minlength=self.plan.cells * GROUPS)
        exact = merged(counts.reshape(-1, GROUPS), witness.level_of)
        return witness, published(exact, witness.query_plan(), second.event, bits)

    def _cells(self, people: People, part: float, rng: np.random.Generator) -> NDArray[np.int64]:
        symbols = self.usual.write(people, RECORDS, rng)
        if part:
            other = self.drifted.write(people, RECORDS, rng)
            symbols = np.where(rng.random(symbols.shape) < part, other, symbols)
        return self.plan.cell_of[symbols].reshape(-1).astype(np.int64)

    def seen(self, witness: Witness, part: float) -> float:
        """Return what a witness sees of D_θ, exactly, in nats."""
        mean = float(np.bincount(witness.level_of, self.shares(part)) @ witness.f)
        whole = (1 - THETA) * mean + THETA * witness.reference_mean
        return witness.log_mean - math.log(whole)


@lru_cache(maxsize=1)
def world() -> World:
    """Return the world, built once a process."""
    return World()


@dataclass(frozen=True)
class Days:
    """What a stretch of daily checks came to.

    Parameters
    ----------
    scenario : str
        What the people did.
    year : int
        Seeds it.
    by_evidence, at_once : int or None
        First day with an alarm by evidence over checks, and by one check alone.
    path : tuple[float, ...]
        Evidence after each day, in units of the alarm.
    """

    scenario: str
    year: int
    by_evidence: int | None
    at_once: int | None
    path: tuple[float, ...]

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


def live(scenario: Scenario, year: int, detector: EDetector, *, until_alarm: bool = False) -> Days:
    """Check daily; `detector` keeps the evidence."""
    here, name = world(), scenario.name
    people = np.random.default_rng(year).permutation(PEOPLE).reshape(-1, COHORT)
    rng = np.random.default_rng([year, *name.encode()])
    by_evidence, at_once, path = None, None, []
    for day in range(scenario.first, scenario.last + 1):
        asked = rng.permutation(people[day % len(people)])
        witness, second = here.check(asked, scenario.part, rng)
        evidence = Evidence.of(witness, second, theta=THETA, threshold=THRESHOLD)
        standing = detector.update(evidence)
        bound = certified_lower_bound(witness, second, theta=THETA, level=ALARM.level_at_once)
        path.append(standing.evidence / standing.alarm_at)
        if standing.alarmed:
            by_evidence = by_evidence or day
        if bound.lower > THRESHOLD:
            at_once = at_once or day
        if until_alarm and by_evidence:
            break
    return Days(name, year, by_evidence, at_once, tuple(path))


def year_with_and_without(year: int, parts: Sequence[float]) -> list[Days]:
    """Live a year without drift, and from its day 200 on the same year with each drift."""
    detector = ALARM.detector
    before = live(Scenario("no drift, first part", 0.0, 1, DRIFT_FROM - 1), year, detector)
    remembered = json.dumps(detector.state())
    after = live(Scenario("no drift, rest", 0.0, DRIFT_FROM, DAYS), year, detector)
    whole = Days(
        "no drift",
        year,
        before.by_evidence or after.by_evidence,
        before.at_once or after.at_once,
        before.path + after.path,
    )
    found = [whole]
    for size, part in zip(SIZES, parts, strict=True):
        drift = Scenario(f"drift of {size:g} s.e.", part, DRIFT_FROM, DRIFT_FROM + _PATIENCE)
        restored = EDetector.restore(json.loads(remembered))
        if not before.alarm:
            found.append(live(drift, year, restored, until_alarm=True))
    return found


def year_at_the_threshold(year: int, part: float) -> list[Days]:
    """Live a year whose D_θ is exactly the threshold."""
    return [live(Scenario("at the threshold", part, 1, DAYS), year, ALARM.detector)]


def part_where(excess: Callable[[float], float]) -> float:
    """Return the part that must drift for an increasing function to reach 0."""
    low, high = 0.0, 1.0
    if excess(high) < 0:
        raise ValueError("even if everything drifts it is not enough: lower the threshold")
    for _ in range(_STEPS):
        middle = (low + high) / 2
        low, high = (low, middle) if excess(middle) >= 0 else (middle, high)
    return high


def errors_above(part: float) -> float:
    """Mean excess over the threshold of what witnesses see, in standard errors of a check."""
    here, rng = world(), np.random.default_rng(0)
    people = rng.permutation(PEOPLE).reshape(-1, COHORT)
    seen, read = np.empty(_TRIALS), np.empty(_TRIALS)
    for i in range(_TRIALS):
        witness, second = here.check(people[i % len(people)], part, rng)
        seen[i] = here.seen(witness, part)
        read[i] = certified_lower_bound(witness, second, theta=THETA).point
    return float((seen.mean() - THRESHOLD) / np.sqrt(np.mean((read - seen) ** 2)))


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


def show(rows: Sequence[dict[str, Any]], console: Console) -> None:
    """Print one table."""
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
    left.legend(frameon=False, loc="lower left")
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


def save(found: Sequence[Days], rows: Sequence[dict[str, Any]], out: Path) -> None:
    """Write every year and the summary."""
    out.mkdir(parents=True, exist_ok=True)
    with (out / "year.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["scenario", "year", "by_evidence", "at_once", "most_evidence"])
        writer.writerows([d.scenario, d.year, d.by_evidence, d.at_once, max(d.path)] for d in found)
    (out / "year.json").write_text(json.dumps(rows, indent=2))
    plot(found, out / "year.png")


def main() -> None:
    """Run the study."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--years", type=int, default=200, help="without drift")
    parser.add_argument("--workers", type=int, default=2, help="processes")
    parser.add_argument("--out", type=Path, default=Path("out/year"), help="folder to write")
    options = parser.parse_args()
    console = Console()
    with console.status("looking for drifts of the wanted sizes"):
        parts = [part_where(partial(_missing, size)) for size in SIZES]
        boundary = part_where(lambda part: world().divergence(part) - THRESHOLD)
    for size, part in zip(SIZES, parts, strict=True):
        console.print(
            f"{size:g} standard errors: {part:.1%} drifted, {world().divergence(part):.3f} nats"
        )
    years, found = range(1, options.years + 1), []
    with ProcessPoolExecutor(options.workers) as pool, Progress(console=console) as progress:
        jobs = [pool.submit(year_with_and_without, year, parts) for year in years]
        half = years[: max(options.years // 2, 1)]
        jobs += [pool.submit(year_at_the_threshold, year, boundary) for year in half]
        task = progress.add_task("living years", total=len(jobs))
        for job in jobs:
            found += job.result()
            progress.advance(task)
    rows = summary(found)
    show(rows, console)
    save(found, rows, options.out)
    console.print(f"written to {options.out}")


def _missing(size: float, part: float) -> float:
    return errors_above(part) - size


if __name__ == "__main__":
    main()
