"""How many years of daily checks bring a false alarm, in worlds that are traps for a monitor.

Run ``python simulations/studies/false_alarms.py [--runs 200] [--workers 2] [--out DIR]``. In each
world nothing drifts, or D_θ is exactly what is tolerated: the reference is what the clients counted
have, each with at most `most_records` records, or lies exactly that many nats away. A year is 365
checks; at most 5 % of years may alarm, by evidence over checks or by a single one. Forty years
share their first halves, hence their witnesses: each has cohorts and noise of its own in the halves
that decide. Where the same records are asked every day, years share nothing. Of one year in forty,
the 95 % limits of every check are held against D_θ, too.
Writes ``false_alarms.csv`` and ``false_alarms.json``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
from scipy.optimize import brentq

from flwr_kld.check.decider import Alarm
from flwr_kld.domain.base import Domain
from flwr_kld.domain.labels import Labels
from flwr_kld.inference.divergence import skewed_divergence
from flwr_kld.inference.estimators.score import Floats
from flwr_kld.kernel.promise import WholeClients
from flwr_kld.query.partition import Partition
from flwr_kld.query.plan import QueryPlan
from flwr_kld.reference import Reference
from flwr_kld.simulations.handwriting.source import load_digits
from flwr_kld.simulations.studies.checks import Checks, Halves, Whole
from flwr_kld.simulations.studies.drifts import THETA, zipf
from flwr_kld.simulations.studies.federations import (
    Clients,
    Equal,
    Federation,
    Geometric,
    Groups,
    Pareto,
    Silos,
    Static,
)
from flwr_kld.simulations.studies.hands import Hands, Writers
from flwr_kld.simulations.studies.lone_checks import LEVEL, limits
from flwr_kld.simulations.studies.runner import (
    Row,
    at_most,
    generator,
    in_processes,
    parser_of,
    save,
    show,
)
from flwr_kld.trust import Trust
from flwr_kld.trust.distributed import Distributed
from flwr_kld.trust.trusted import Trusted

THRESHOLD = 0.05
_SYMBOLS = 50
_RARE = (
    (10, 40, 0.03, 100, 1.0),
    (10, 40, 0.05, 100, 1.0),
    (10, 40, 0.02, 500, 1.0),
    (10, 60, 0.03, 200, 1.0),
    (10, 100, 0.02, 500, 1.0),
    (10, 100, 0.03, 100, 1.0),
    (10, 200, 0.02, 100, 1.0),
    (10, 200, 0.01, 200, 1.0),
    (50, 40, 0.05, 100, 1.0),
    (50, 40, 0.04, 100, 5.0),
    (10, 40, 0.04, 2_000, 3.0),
    (10, 40, 0.04, 10_000, 5.0),
)
"""Symbols, clients of a check, the part of them of a rare kind, records of each, and ε."""
_WRITERS, _POOL = range(2_000), 100


@dataclass(frozen=True)
class World:
    """One null world."""

    name: str  # Its trap
    make: Callable[[np.random.Generator], Federation]  # Builds the federation of a year
    clients: int = 200  # Of a check, and that a client counts
    most_records: int = 20
    # Who adds the noise
    trust: Trust = Trusted(1.0)  # noqa: RUF009  (frozen)
    nats: float = THRESHOLD  # D_θ: 0 or the threshold
    # Whether the same clients with the same records are asked in each check: a year then shares
    # nothing with another one
    same: bool = False

    def checks(self, federation: Federation) -> Checks:
        """Check the federation against a reference at this D_θ."""
        law = federation.law(self.most_records)
        reference = Reference.from_probabilities(_domain(len(law)), _away(law, self.nats))
        return Checks(reference, self.trust, THRESHOLD, self.most_records)


def worlds() -> list[World]:
    """List the worlds."""
    law = np.append(zipf(_SYMBOLS), [0.0, 0.0])
    few = np.append(zipf(10), [0.0, 0.0])
    shares = Distributed(1.0, 80)
    level = Trusted(5.0, protects=WholeClients(20))

    def fresh(alike: float | None = None, records: int = 20) -> Callable[..., Federation]:
        return lambda rng: Clients(law, Equal(records), alike)

    return [
        World("independent records", fresh(), nats=0.0),
        World("independent records, at the threshold", fresh()),
        World("different clients", fresh(5.0)),
        World("one symbol a client, no drift", fresh(0.0), nats=0.0),
        World("one symbol a client", fresh(0.0)),
        World("noise shares", fresh(5.0), trust=shares),
        World("whole clients", fresh(5.0), trust=level),
        World("1 % of clients with 500 records", _heavy(few, 0.01, 500), 400),
        World("2 % of clients with 200 records", _heavy(few, 0.02, 200), 400),
        World(
            "sizes of a Pareto law",
            lambda rng: Clients(law, Pareto(5, 1.1), 1.0),
            most_records=100,
        ),
        World(
            "sizes of a geometric law",
            lambda rng: Clients(law, Geometric(20), 2.0),
            most_records=60,
        ),
        World(
            "the same records for a year, all clients",
            lambda rng: Static.of(Clients(law, Equal(20), 5.0), 200, _whole(len(law)), rng),
            same=True,
        ),
        World(
            "the same records, rotating cohorts",
            lambda rng: Static.of(
                Clients(law, Equal(20), 5.0), 4_000, _whole(len(law)), rng, rotates=True
            ),
        ),
        World(
            "20 clients of one or two labels",
            lambda rng: Silos(rng.dirichlet(0.1 * np.ones(10), 20), 200, pad=2),
            20,
            most_records=200,
        ),
        World(
            "12 clients, new records",
            fresh(records=400),
            12,
            most_records=400,
        ),
        World(
            "12 clients, the same records for a year",
            lambda rng: Static.of(Clients(law, Equal(400)), 12, _whole(len(law)), rng),
            12,
            most_records=400,
            same=True,
        ),
        *[
            World(
                f"{share:.0%} of {clients} clients with {records} records "
                f"of {symbols} labels are of a rare kind",
                _rare(symbols, share, records),
                clients,
                records,
                Trusted(epsilon),
                nats=0.0,
            )
            for symbols, clients, share, records, epsilon in _RARE
        ],
        World("writers, no drift", _writers, most_records=50, nats=0.0),
        World("writers, at the threshold", _writers, most_records=50),
    ]


def _heavy(law: Floats, share: float, records: int) -> Callable[[np.random.Generator], Federation]:
    """Build 8,000 clients of whom some have many records, all of one symbol of their own."""
    one = np.eye(len(law))[0]
    others = law * (1 - one)
    parts = (
        (1 - share, Clients(others / others.sum(), Equal(20))),
        (share, Clients(one, Equal(records))),
    )
    return lambda rng: Static.of(
        Groups(parts, exact=True), 8_000, _whole(len(law)), rng, rotates=True
    )


def _rare(symbols: int, share: float, records: int) -> Callable[..., Federation]:
    """Build clients of whom a part hold one symbol only, and that no others hold."""
    one, law = np.eye(symbols)[symbols // 2], zipf(symbols)
    laws = [np.append(part / part.sum(), [0.0, 0.0]) for part in (law * (1 - one), one)]
    others, rare = (Clients(each, Equal(records)) for each in laws)
    return lambda rng: Groups(((1 - share, others), (share, rare)))


def _writers(rng: np.random.Generator) -> Federation:
    usual = _hands()
    return Writers(usual, usual, 0.0, 50, load_digits(1).patterns().size)


@lru_cache(maxsize=1)
def _hands() -> Hands:
    return Hands.virtual(_WRITERS, _POOL)


def _domain(size: int) -> Domain:
    patterns = load_digits(1).patterns()
    return patterns if size == patterns.size else Labels(list(range(size - 2)))


@lru_cache(maxsize=4)
def _whole(size: int) -> QueryPlan:
    """Give each symbol a cell of its own."""
    reference = Reference.from_counts(_domain(size), np.ones(size))
    return Partition(max(size, 16)).draw(reference, np.random.default_rng(0))


def _away(law: Floats, nats: float) -> Floats:
    """Return a reference from which a law is this many nats of D_θ away."""
    if nats == 0:
        return law
    tilted = law * np.exp(2.0 * np.cos(np.arange(len(law))))
    tilted /= tilted.sum()

    def excess(amount: float) -> float:
        reference = (1 - amount) * law + amount * tilted
        return skewed_divergence(reference, law, THETA) - nats

    amount = float(brentq(excess, 0.0, 1.0, xtol=1e-13))
    return np.asarray((1 - amount) * law + amount * tilted)


DAYS = 365
ALARM = Alarm(horizon=DAYS)
_TOGETHER = 40
"""Years that share their first halves."""


@dataclass(frozen=True)
class Lived:
    """Years of one world, which share their first halves."""

    world: str  # Its name
    # First day with an alarm by evidence, and by one check alone, of each year
    by_evidence: tuple[int | None, ...]
    at_once: tuple[int | None, ...]
    # Checks of the first year, one a day, in which a 95 % limit from below, or above, was false
    above: int
    below: int


def live(item: tuple[int, int, int]) -> Lived:
    """Live `years` years of the world of this number; `seed` tells them from others."""
    number, seed, years = item
    world = worlds()[number]
    rng = generator(world.name, seed)
    federation = world.make(rng)
    checks = world.checks(federation)
    detectors = [ALARM.detector] * years
    by_evidence: list[int | None] = [None] * years
    at_once: list[int | None] = [None] * years
    above = below = 0
    for day in range(1, DAYS + 1):
        for year, check in enumerate(_checks(checks, federation, world.clients, years, rng)):
            detectors[year] = detectors[year].update(check.evidence)
            if detectors[year].alarmed:
                by_evidence[year] = by_evidence[year] or day
            if checks.found_at_once(check, ALARM):
                at_once[year] = at_once[year] or day
            if not year:
                bound, upper = limits(check, LEVEL)
                above += bound.lower > world.nats
                below += upper.value < world.nats
    return Lived(world.name, tuple(by_evidence), tuple(at_once), above, below)


def _checks(
    checks: Checks, federation: Federation, clients: int, years: int, rng: np.random.Generator
) -> Iterator[Halves | Whole]:
    """Run one day's check of each year; those of a population share their first half."""
    plan = checks.plan(rng)
    first: Halves | None = None
    for _ in range(years):
        asked = federation.draw(plan, clients, rng)
        if first is None:
            check = checks.of_records(plan, asked, rng)
            first = check if isinstance(check, Halves) else None
            yield check
        else:
            sums = checks.summed(first.witness, asked.by_client(rng)[1], rng)
            yield replace(first, sums=sums)


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
        "probability_at_most": at_most(alarms, years),
        "at_least_is_false": sum(lived.above for lived in own) / (DAYS * len(own)),
        "at_most_is_false": sum(lived.below for lived in own) / (DAYS * len(own)),
    }


def main() -> None:
    """Run the study."""
    chosen = parser_of(__doc__, out="false_alarms", runs=(200, "years of each world")).parse_args()
    all_worlds = worlds()
    work = [job for i, world in enumerate(all_worlds) for job in jobs(world, i, chosen.runs)]
    found = list(in_processes(live, work, chosen.workers, "living years"))
    rows = [row(world, found) for world in all_worlds]
    show(f"false alarms in {DAYS} daily checks", rows)
    save(rows, chosen.out, "false_alarms", {"promised": ALARM.rate})


if __name__ == "__main__":
    main()
