"""Years of daily checks of clients who are drawn anew every night: how many say "drift" falsely.

    python simulations/studies/years.py [--runs 40] [--world TEXT] [--workers 2] [--out DIR]

A year is 365 checks at ε = 1, δ = 1e-6, with .05 nats tolerated, of a population of 10,000 clients
of its own, from which nothing moves: D_θ is 0, or four fifths of what is tolerated. At most 5 % of
years may have a drift. The product decides each night; first, what it asks for besides is held
against the night's counts, the cheapest first: a verdict of drift needs all of it. Writes
``years.csv`` and ``years.json``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.optimize import brentq

from flwr_kld.infer.cell_fractions import as_law, noisy_fractions
from flwr_kld.infer.divergence import skewed_divergence
from flwr_kld.infer.estimators.posterior_ratios import posterior_ratios
from flwr_kld.infer.estimators.score import THETA, Floats
from flwr_kld.infer.part_of_records import least_if_missed, missed_part
from flwr_kld.reference import Reference
from flwr_kld.report import Outcome
from flwr_kld.report.cohort_release import CohortRelease
from flwr_kld.report.explanation import outside_fraction
from flwr_kld.simulations.studies.checks import Checks, bits_of, measured
from flwr_kld.simulations.studies.records import Integers
from flwr_kld.simulations.studies.runner import (
    Row,
    at_most,
    generator,
    in_processes,
    parser_of,
    save,
    show,
)  # fmt: skip
from flwr_kld.table.base import Domain
from flwr_kld.table.labels import Labels
from flwr_kld.table.table import Table
from flwr_kld.trust.trusted import Trusted

THRESHOLD, TRUST, DAYS, CLIENTS = 0.05, Trusted(1.0, 1e-6), 365, 10_000
_NATS = (0.0, 0.8 * THRESHOLD)
_RECORDS = 50
Population = Callable[[np.random.Generator, int], Integers]
"""Draws the counts of all clients, shape [clients, symbols + 2], the last ones of 'other' and
'missing', for so many symbols."""


def dirichlet(each: float, sizes: Callable[..., Integers] | None = None) -> Population:
    """Let every client have a law of its own, of this concentration a label."""

    def draw(rng: np.random.Generator, symbols: int) -> Integers:
        pi = _law(symbols)
        laws = rng.dirichlet(np.maximum(pi * each * symbols, 1e-3), CLIENTS)
        records = np.full(CLIENTS, _RECORDS) if sizes is None else sizes(rng)
        return _padded(rng.multinomial(records, laws))

    return draw


def one_label(rng: np.random.Generator, symbols: int) -> Integers:
    """Let each client have one label only."""
    labels = rng.choice(symbols, CLIENTS, p=_law(symbols))
    return _padded(_RECORDS * np.eye(symbols, dtype=np.int64)[labels])


def two_kinds(rng: np.random.Generator, symbols: int) -> Integers:
    """Let half of the clients have the even labels, and half the odd ones."""
    pi, even = _law(symbols), np.arange(symbols) % 2 == 0
    laws = np.where((rng.random(CLIENTS) < pi[even].sum())[:, None], pi * even, pi * ~even)
    return _padded(rng.multinomial(_RECORDS, laws / laws.sum(axis=1, keepdims=True)))


def rare(
    share: float, records: int, others: int | None = None, *, other: bool = False
) -> Population:
    """Let a part of the clients hold one label that nobody else has, or 'other', only."""

    def draw(rng: np.random.Generator, symbols: int) -> Integers:
        place, one = symbols if other else symbols // 2, rng.random(CLIENTS) < share
        pi = _law(symbols)
        if not other:
            pi = pi * (np.arange(symbols) != place)
        counts = _padded(rng.multinomial(others or records, pi / pi.sum(), CLIENTS))
        counts[one] = records * np.eye(symbols + 2, dtype=np.int64)[place]
        return counts

    return draw


def pareto(rng: np.random.Generator) -> Integers:
    """Draw sizes of which a few are most."""
    return np.minimum(10 * rng.random(CLIENTS) ** (-1 / 1.1), 5_000).astype(np.int64)


def tilted(counts: Integers) -> Floats:
    """Direction of the reference from the population: half of the labels are rarer than there."""
    return np.exp(2.0 * np.cos(np.arange(counts.shape[1])))


def rarer(counts: Integers) -> Floats:
    """Direction of a reference that hardly has what a rare kind holds, in the middle."""
    return np.asarray(np.arange(counts.shape[1]) != (counts.shape[1] - 2) // 2, dtype=np.float64)


def commoner(counts: Integers) -> Floats:
    """Direction of a reference that has much more of that."""
    return 50.0 - 49.0 * rarer(counts)


@dataclass(frozen=True)
class World:
    """A population, and how it is asked."""

    name: str
    people: Population
    symbols: int
    clients: int  # That are drawn
    away: Callable[[Integers], Floats] = tilted
    sample: int = 0  # Rows that the reference is counted from; 0 if it is a law
    columns: int = 1  # Of a table, each the same population with labels of its own
    nats: tuple[float, ...] = _NATS  # D_θ of the population


def worlds() -> list[World]:
    """List the worlds."""
    found = [
        World(f"Dirichlet {each:g}", dirichlet(each), *shape)
        for each in (1, 3, 20)
        for shape in ((5, 40), (20, 60), (20, 200), (200, 400))
    ]
    for name, people in (("one label each", one_label), ("two kinds", two_kinds)):
        found += [World(name, people, *s) for s in ((5, 60), (20, 40), (20, 200), (200, 400))]
    kinds = (
        (10, 40, 0.03, 100), (10, 40, 0.05, 100), (10, 40, 0.02, 500), (10, 60, 0.03, 200),
        (10, 100, 0.02, 500), (10, 200, 0.01, 200), (50, 40, 0.05, 100), (50, 400, 0.01, 50),
        (20, 200, 0.05, 50), (10, 40, 0.04, 2_000),
    )  # fmt: skip
    found += [World(f"rare kind {p:g} of {m}", rare(p, m), k, n) for k, n, p, m in kinds]
    found += [
        World(f"frequent kind {p:g} of {m} beside {o}", rare(p, m, o), k, n, rarer, nats=_NATS[1:])
        for k, n, p, m, o in (
            (20, 40, 0.05, 50, 50), (20, 100, 0.05, 50, 50), (20, 400, 0.05, 50, 50),
            (20, 100, 0.01, 500, 50), (20, 400, 0.01, 500, 50), (200, 100, 0.05, 50, 50),
            (5, 200, 0.05, 2_000, 2_000),
        )
    ]  # fmt: skip
    found += [
        World(
            f"seldom kind {p:g} of {m} beside {o}", rare(p, m, o), 20, n, commoner, nats=_NATS[1:]
        )
        for n, p, m, o in (
            (40, 0.05, 50, 50), (100, 0.05, 50, 50), (400, 0.02, 50, 50), (400, 0.05, 50, 50),
            (400, 0.1, 50, 50), (400, 0.01, 500, 50), (100, 0.05, 2_000, 2_000),
        )
    ]  # fmt: skip
    found += [World("unequal sizes", dirichlet(3, pareto), 20, n) for n in (60, 200, 400)]
    found += [
        World(f"reference of {rows:,} rows", dirichlet(each), k, n, sample=rows)
        for rows, each, k, n in ((1_000, 20, 20, 200), (5_000, 3, 50, 200), (20_000, 3, 20, 400))
    ]
    found += [
        World(
            f"'other' of a kind of {0.8 * THRESHOLD:g} of {m}",
            rare(0.8 * THRESHOLD, m, other=True),
            20,
            n,
            nats=(0.0,),
        )
        for n, m in ((40, 50), (100, 50), (400, 50), (100, 1_000))
    ]
    found += [
        World("ten columns", dirichlet(3), 20, 200, columns=10),
        World("ten columns of one label", one_label, 20, 200, columns=10),
    ]
    return found


def _law(symbols: int) -> Floats:
    law = np.linspace(1.0, 5.0, symbols)
    return np.asarray(law / law.sum())


def _padded(counts: Integers) -> Integers:
    return np.pad(counts, ((0, 0), (0, 2)))


class Year:
    """A population, and its checks."""

    def __init__(self, world: World, nats: float, rng: np.random.Generator) -> None:
        columns = [world.people(rng, world.symbols) for _ in range(world.columns)]
        domain: Domain = Labels([*range(world.symbols)])
        laws = [_reference(world, counts, nats, rng) for counts in columns]
        if world.columns > 1:
            domain = Table({f"c{i}": domain for i in range(world.columns)})
            reference = Reference.from_counts(domain, {f"c{i}": r for i, r in enumerate(laws)})
        elif world.sample:
            reference = Reference.from_counts(domain, laws[0])
        else:
            reference = Reference.from_probabilities(domain, laws[0])
        self.checks = Checks(reference, TRUST, THRESHOLD, drawn=True)
        self.plan = self.checks.plan(rng)
        cells = np.eye(self.plan.cells, dtype=np.int64)[self.plan.cell_of]
        self.counts = np.concatenate(columns, axis=1) @ cells
        self.sizes = columns[0].sum(axis=1)
        pairs = np.stack([(c * (c - 1)).sum(axis=1) for c in columns], axis=1)
        self.alike = pairs / np.maximum(self.sizes - 1, 1)[:, None] + (self.sizes == 1)[:, None]
        self.clients = world.clients
        alarm = self.checks.decider.alarm
        self.missed = missed_part(world.clients, alarm.rate / alarm.horizon)

    def nights(self, rng: np.random.Generator) -> Iterator[CohortRelease]:
        """Check fresh clients, night after night."""
        bits, event = bits_of(rng), self.checks.event(self.clients)
        for _ in range(DAYS):
            who = rng.choice(CLIENTS, self.clients, replace=False)
            yield measured(
                self.plan, event, self.counts[who].sum(axis=0), self.alike[who].sum(axis=0),
                self.sizes[who], bits, drawn=True,
            )  # fmt: skip

    def passed(self, night: CohortRelease) -> str:
        """Return the last of what a drift needs that a night has."""
        return max((self._passed(column) for column in night.columns.values()), key=_STEPS.index)

    def _passed(self, column: CohortRelease) -> str:
        counts, decider = column.published, self.checks.decider
        mass = counts.plan.mass
        law = as_law(noisy_fractions(counts), mass)
        share = (1 - self.missed) * float(law[mass == 0].sum()) > decider.outside
        least = least_if_missed(mass, law, self.missed) > THRESHOLD
        if not (share or least):
            return _STEPS[0]
        found = posterior_ratios(counts, effects=column.effects).population if least else None
        told = outside_fraction(counts, column.effects) if share else None
        populations = decider.shown(column, found, told, law)
        shown = any(one is not None and one.shown for one in populations)
        return _STEPS[2] if shown else _STEPS[1]


_STEPS = ("nothing", "no missed kind", "the population", "drift")


def _reference(world: World, counts: Integers, nats: float, rng: np.random.Generator) -> Floats:
    """Return a reference from which the population is this many nats of D_θ away, or a sample."""
    law = counts.sum(axis=0) / counts.sum()
    far = law * world.away(counts)
    far /= far.sum()

    def mixed(amount: float) -> Floats:
        return np.asarray((1 - amount) * law + amount * far)

    def excess(amount: float) -> float:
        return skewed_divergence(mixed(amount), law, THETA) - nats

    amount = float(brentq(excess, 0.0, 1.0, xtol=1e-13)) if nats else 0.0
    chosen = mixed(amount)
    return rng.multinomial(world.sample, chosen).astype(float) if world.sample else chosen


def live(item: tuple[int, float, int]) -> Counter[str]:
    """Live one year of a world: how far its nights came."""
    number, nats, run = item
    world = worlds()[number]
    rng = generator(f"{world.name} {world.symbols} {world.clients}", int(1000 * nats), run)
    year = Year(world, nats, rng)
    found = Counter[str]()
    for night in year.nights(rng):
        step = year.passed(night)
        if step == _STEPS[2]:
            said = year.checks.conclude(night)
            verdicts = [one.verdict for one in said.values()]
            if any(v is not None and v.outcome is Outcome.DRIFT for v in verdicts):
                step = _STEPS[3]
        found[step] += 1
    return found


def row(world: World, nats: float, years: Sequence[Counter[str]]) -> Row:
    """Count the years of a world that have a drift."""
    alarms = sum(year["drift"] > 0 for year in years)
    return {
        "world": world.name, "symbols": world.symbols, "drawn": world.clients, "D": nats,
        "years": len(years), "false": alarms, "false_at_most": at_most(alarms, len(years)),
        "nights": sum(year["drift"] for year in years),
        **{f"only {step}": sum(year[step] for year in years) for step in _STEPS[1:3]},
    }  # fmt: skip


def main() -> None:
    """Run the study."""
    parser = parser_of(__doc__, out="years", runs=(40, "years of each world"))
    parser.add_argument("--world", default="", help="part of the names of the worlds to live in")
    chosen = parser.parse_args()
    kinds = [
        (number, world, nats)
        for number, world in enumerate(worlds())
        if chosen.world in world.name
        for nats in world.nats
    ]
    work = [(number, nats, run) for number, _, nats in kinds for run in range(chosen.runs)]
    found, rows = in_processes(live, work, chosen.workers, "living years"), []
    for _, world, nats in kinds:
        rows.append(row(world, nats, [next(found) for _ in range(chosen.runs)]))
        show(f"false drifts in years of {DAYS} checks", rows[-1:])
    save(rows, chosen.out, "years", {"promised": 0.05})


if __name__ == "__main__":
    main()
