"""How many years of daily checks bring a false alarm, in worlds that are traps for a monitor.

Run ``python simulations/studies/false_alarms.py [--runs 200] [--workers 2] [--out DIR]``. In each
world nothing drifts, or D_θ is exactly what is tolerated; see ``null_worlds.py``. A year is 365
checks; at most 5 % of years may alarm, by evidence over checks or by a single one. Forty years
share their first halves, hence their witnesses: each has cohorts and noise of its own in the halves
that decide. Where the same records are asked every day, years share nothing.
Writes ``false_alarms.csv``, ``false_alarms.json`` and ``false_alarms.png``.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from scipy.stats import beta

from flwr_kld._extras import require
from flwr_kld.check.decider import Alarm
from flwr_kld.inference.bets import log_evidence
from flwr_kld.inference.e_detector import EDetector
from flwr_kld.simulations.studies.null_worlds import World, worlds
from flwr_kld.simulations.studies.runner import Row, generator, in_processes, options, save, show

DAYS = 365
ALARM = Alarm(horizon=DAYS)
_TOGETHER = 40
"""Years that share their first halves."""
_SURE = 0.95


@dataclass(frozen=True)
class Lived:
    """Years of one world, which share their first halves."""

    world: str  # Its name
    # First day with an alarm by evidence, and by one check alone, of each year
    by_evidence: tuple[int | None, ...]
    at_once: tuple[int | None, ...]


def live(item: tuple[int, int, int]) -> Lived:
    """Live `years` years of the world of this number; `seed` tells them from others."""
    number, seed, years = item
    world = worlds()[number]
    rng = generator(world.name, seed)
    federation = world.make(rng)
    checks = world.checks(federation)
    detectors = [EDetector(ALARM.detector.rate, DAYS) for _ in range(years)]
    by_evidence: list[int | None] = [None] * years
    at_once: list[int | None] = [None] * years
    for day in range(1, DAYS + 1):
        plan = checks.plan(rng)
        one, other = checks.split(federation.draw(plan, world.clients, rng), rng)
        first = checks.counted(plan, one, rng)
        witness = checks.learnt(first, other, by_client=world.by_client)
        for year in range(years):
            if year:
                other = checks.split(federation.draw(plan, world.clients, rng), rng)[1]
            sums = checks.summed(witness, other, rng)
            if detectors[year].update(log_evidence(witness, sums)).alarmed:
                by_evidence[year] = by_evidence[year] or day
            if checks.found_at_once(witness, sums, ALARM):
                at_once[year] = at_once[year] or day
    return Lived(world.name, tuple(by_evidence), tuple(at_once))


def jobs(world: World, number: int, years: int) -> list[tuple[int, int, int]]:
    """Cut a world's years into pieces of work."""
    if world.same:
        return [(number, seed, 1) for seed in range(years)]
    together = min(_TOGETHER, years)
    return [(number, seed, together) for seed in range(math.ceil(years / together))]


def row(world: World, found: Sequence[Lived]) -> Row:
    """Count a world's alarms."""
    own = [lived for lived in found if lived.world == world.name]
    evidence = [day for lived in own for day in lived.by_evidence]
    alone = [day for lived in own for day in lived.at_once]
    years = len(evidence)
    alarms = sum(a is not None or b is not None for a, b in zip(evidence, alone, strict=True))
    return {
        "world": world.name,
        "D": world.nats,
        "clients": world.clients,
        "years": years,
        "by_evidence": sum(day is not None for day in evidence) / years,
        "at_once": sum(day is not None for day in alone) / years,
        "false_alarm": alarms / years,
        "at_most": at_most(alarms, years),
    }


def at_most(alarms: int, years: int) -> float:
    """Limit the probability of an alarm in a year from above (Clopper, Pearson), at 95 %."""
    return float(beta.ppf(_SURE, alarms + 1, years - alarms)) if alarms < years else 1.0


def plot(rows: Sequence[Row], path: Path) -> None:
    """Draw the fraction of years with a false alarm in each world."""
    size = (9, 1.6 + 0.24 * len(rows))
    figure = require("matplotlib.figure", extra="plots").Figure(size, layout="constrained")
    axes = figure.subplots()
    place = range(len(rows))[::-1]
    axes.barh(place, [row["false_alarm"] for row in rows], color="C0", height=0.6)
    axes.plot([row["at_most"] for row in rows], place, "|", color="#444444", label="95 % limit")
    axes.axvline(ALARM.rate, color="C3", linewidth=1, label="promised")
    axes.set_yticks(place, [row["world"] for row in rows], fontsize=8)
    axes.set(xlabel="fraction of years with a false alarm", xlim=(0, None))
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False)
    figure.savefig(path, dpi=130)


def main() -> None:
    """Run the study."""
    chosen = options(__doc__, runs=200, what="years of each world", out="false_alarms")
    console, all_worlds = Console(), worlds()
    work = [job for i, world in enumerate(all_worlds) for job in jobs(world, i, chosen.runs)]
    found = list(in_processes(live, work, chosen.workers, "living years"))
    rows = [row(world, found) for world in all_worlds]
    show(f"false alarms in {DAYS} daily checks", rows, console)
    save(rows, chosen.out, "false_alarms", {"promised": ALARM.rate})
    plot(rows, chosen.out / "false_alarms.png")
    console.print(f"written to {chosen.out}")


if __name__ == "__main__":
    main()
