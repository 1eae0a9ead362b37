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
day; D_θ over them is averaged. Writes ``year.csv`` and ``year.json``.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property, lru_cache
from pathlib import Path

import numpy as np
from dp_accounting.pld import privacy_loss_distribution as pld
from scipy.optimize import brentq

from flwr_kld.accounting import Budget, Charge, Clients, Cost, Ledger
from flwr_kld.check.decider import Alarm
from flwr_kld.cohort.cohort import Participant, RotatingCohort
from flwr_kld.inference.divergence import skewed_divergence
from flwr_kld.inference.e_detector import EDetector, Evidence
from flwr_kld.inference.recent_checks import RecentChecks
from flwr_kld.kernel.release import Release
from flwr_kld.query.plan import QueryPlan
from flwr_kld.reference import Reference
from flwr_kld.simulations.handwriting.source import load_digits
from flwr_kld.simulations.studies.checks import Checks, Halves
from flwr_kld.simulations.studies.drifts import THETA
from flwr_kld.simulations.studies.hands import Hands, Writers
from flwr_kld.simulations.studies.records import Integers
from flwr_kld.simulations.studies.runner import Row, console, in_processes, parser_of, save, show
from flwr_kld.trust.trusted import Trusted

PEOPLE, COHORT, RECORDS = 14_600, 200, 50
"""In all, asked a day, and fresh records of each of them."""
EPSILON, CELLS = 0.2, 100
_WRITTEN = 100
"""Images that a person's records are drawn from."""
_PAST = range(1_000_000, 1_003_000)
_DRAWS = 50
"""Draws of cells over which a divergence is averaged."""


class World:
    """Everything that is the same in all years."""

    def __init__(self, threshold: float) -> None:
        self._usual = Hands.virtual(range(PEOPLE), _WRITTEN)
        self._drifted = Hands.virtual(range(PEOPLE), _WRITTEN, digits=(1, 7))
        domain, past = load_digits(1).patterns(), Hands.virtual(_PAST, _WRITTEN)
        reference = Reference.from_probabilities(domain, past.law(domain.size))
        self.checks = Checks(reference, Trusted(EPSILON), threshold, RECORDS, CELLS)
        self._laws = [hands.law(domain.size) for hands in (self._usual, self._drifted)]

    def divergence(self, part: float, plan: QueryPlan | None = None) -> float:
        """D_θ over a check's cells, or on average over many checks, in nats."""
        if plan is None:
            return float(np.mean([self.divergence(part, plan) for plan in self._plans]))
        usual, drifted = (np.bincount(plan.cell_of, law, plan.cells) for law in self._laws)
        return skewed_divergence(plan.mass, (1 - part) * usual + part * drifted, THETA)

    def check(
        self, people: Integers, part: float, recent: RecentChecks, rng: np.random.Generator
    ) -> Halves:
        """Run one check on these people's records of the day, half and half, on fresh cells."""
        plan = self.checks.plan(rng)
        writers = Writers(
            self._usual, self._drifted, part, RECORDS, self.checks.reference.domain.size
        )
        return self.checks.in_halves(plan, writers.written(plan, people, rng), rng, recent)

    @cached_property
    def _plans(self) -> list[QueryPlan]:
        return [self.checks.plan(np.random.default_rng(i)) for i in range(_DRAWS)]


_DAY = 86_400


@dataclass(frozen=True)
class Price:
    """What a year cost the person who was asked most."""

    asked: int  # How often that was
    ledger: float  # Largest epsilon that the ledger showed on any day, in nats
    dp_accounting: float  # The same, of so many discrete Laplace releases, by dp-accounting alone


def price_of(
    event: Release,
    budget: Budget,
    *,
    people: int,
    cohort: int,
    days: Iterable[int],
    file: Path,
) -> Price:
    """Reserve and settle a check a day, of whoever was asked longest ago, half and half."""
    ledger = Ledger(f"sqlite:///{file}")
    ledger.set_budget(budget, now=0)
    present = [Participant(node) for node in range(people)]
    rotation, generator = RotatingCohort(cohort), np.random.default_rng(0)
    asked: Counter[Participant] = Counter()
    most, cost = 0.0, Cost.of(event)
    for day in days:
        rotation.recall(ledger.rotation(), present)
        chosen = rotation.draw(present, generator)
        halves = chosen[: cohort // 2], chosen[cohort // 2 :]
        charges = [Charge(cost, Clients(map(str, half))) for half in halves]
        ledger.settle(ledger.reserve(f"day {day}", charges, now=day * _DAY), {}, now=day * _DAY)
        asked.update(chosen)
        most = max(most, ledger.spent(now=day * _DAY).epsilon)
    times = max(asked.values())
    return Price(times, most, _epsilon(event, times, budget.delta))


def _epsilon(event: Release, times: int, delta: float) -> float:
    """Epsilon of so many releases at `delta`, from the noise's rate on neighbouring integers."""
    rate = math.log(event.table.probability(0) / event.table.probability(1))
    one = pld.from_discrete_laplace_mechanism(rate, value_discretization_interval=rate)
    return float(one.self_compose(2 * times).get_epsilon_for_delta(delta))


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

    def update(self, halves: Halves) -> Evidence:
        """Take in a check."""
        self.recent = self.recent.with_check(halves.first, halves.spread)
        return self.detector.update(halves.evidence)


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
        evidence = memory.update(halves)
        path.append(evidence.value / evidence.alarm_at)
        if evidence.alarmed:
            by_evidence = by_evidence or day
        if here.checks.found_at_once(halves, ALARM):
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


def summary(found: Sequence[Days]) -> list[Row]:
    """Alarm probability of the years without drift beyond the threshold; delays of the others."""
    rows = []
    for name in dict.fromkeys(days.scenario for days in found):
        own = [days for days in found if days.scenario == name]
        row: Row = {"scenario": name, "years": len(own)}
        for kind, first in (("by_evidence", "by_evidence"), ("either", "alarm")):
            alarms = [getattr(days, first) for days in own]
            drifts = name.startswith("drift")
            delays = np.array([(a or 10**6) - DRIFT_FROM + 1 for a in alarms])
            middle, most = np.median(delays), np.quantile(delays, 0.9, method="higher")
            row[f"false_alarm_{kind}"] = "" if drifts else np.mean([a is not None for a in alarms])
            row[f"median_days_{kind}"] = float(middle) if drifts else ""
            row[f"90_%_within_{kind}"] = float(most) if drifts else ""
        rows.append(row)
    return rows


def live_item(item: tuple[int, float | None]) -> list[Days]:
    """Live a year without drift and with each, or with this part of what is written drifted."""
    year, part = item
    return year_with_and_without(year) if part is None else year_at_the_threshold(year, part)


def main() -> None:
    """Run the study."""
    chosen = parser_of(__doc__, out="year", years=(200, "without drift")).parse_args()
    chosen.out.mkdir(parents=True, exist_ok=True)
    boundary = float(brentq(lambda part: world().divergence(part) - THRESHOLD, 0.0, 1.0))
    for name, part in PARTS.items():
        console.print(f"{name}: {part:.1%} drifted, {world().divergence(part):.3f} nats")
    years = range(1, chosen.years + 1)
    work: list[tuple[int, float | None]] = [(year, None) for year in years]
    work += [(year, boundary) for year in years[: max(chosen.years // 2, 1)]]
    lived = in_processes(live_item, work, chosen.workers, "living years")
    found = [days for each in lived for days in each]
    rows, spent = summary(found), price(chosen.out)
    show(f"{DAYS} daily checks, D_θ tolerated up to {THRESHOLD} nats", rows)
    console.print(
        f"ledger: asked {spent.asked} times a year, ε = {spent.ledger:.7f} of {BUDGET.epsilon:g} "
        f"at δ = {BUDGET.delta:g}; by dp-accounting {spent.dp_accounting:.7f}"
    )
    each = [
        {"scenario": d.scenario, "year": d.year, "by_evidence": d.by_evidence,
         "at_once": d.at_once, "most_evidence": max(d.path)}
        for d in found
    ]  # fmt: skip
    save(each, chosen.out, "year", {"rows": rows, "spent": asdict(spent)})


if __name__ == "__main__":
    main()
