"""A year of nights of the same records: how much noise, and how soon a drift is found.

    python simulations/studies/nights.py [--years 100] [--quiet 300] [--runs 5] [--workers 2]
        [--out DIR]

Compared at the same (ε, δ) = (1, 1e-6) a year: a standing session (`Standing`), independent noise
on every night, a binary tree, and monthly checks of all records.

The noise is that of the implemented mechanism: standard deviations on every night, of a lasting
change, and the ε of a year whose nights are as exact as one Gaussian check at ε = 1. Peers have
Gaussian noise of the same calibration, for the largest norm of a record's moves.

Detection: 36,000 rows, 20 symbols, of which some are replaced each night, from night 100 on by rows
of a tilted law; nothing is tolerated. A night is decided by the product's `Decider`; in years with
a drift, from night 100 on. Nights that are far from any alarm by a χ² and three other sums are not
read (`suspect`).

Flights: the growing table of real flights from 1 May on, held against what it held by then. Writes
``nights.csv`` and ``nights.json``.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from itertools import product

import numpy as np
from numpy.typing import NDArray

from flwr_kld.ask.cohort import AskedClients, Participant
from flwr_kld.ask.noisy import NoisyCounts
from flwr_kld.ask.partition import Partition
from flwr_kld.ask.plan import QueryPlan
from flwr_kld.common.search import root
from flwr_kld.infer.alarm import Alarm
from flwr_kld.infer.divergence import skewed_divergence
from flwr_kld.infer.estimators.score import THETA
from flwr_kld.infer.one_thread import one_thread
from flwr_kld.kernel.continual import Continual
from flwr_kld.kernel.law import SeededBits, sample
from flwr_kld.kernel.promise import Allotment, Guarantee
from flwr_kld.kernel.release import Release
from flwr_kld.reference import Reference
from flwr_kld.report import Outcome
from flwr_kld.report.cohort_release import CohortRelease
from flwr_kld.report.decider import Decider, bounds_of
from flwr_kld.simulations.flights import Flights
from flwr_kld.simulations.studies.resumable import Arrays, Configuration, seed_of
from flwr_kld.simulations.studies.runner import (
    Row,
    at_most,
    computed,
    grouped,
    parser_of,
    save,
    show,
)
from flwr_kld.table.labels import Labels
from flwr_kld.trust.calibration import analytic_sigma, continual_release
from flwr_kld.trust.noise_laws import discrete_gaussian
from flwr_kld.trust.standing import Standing
from flwr_kld.trust.trusted import Trusted

Floats = NDArray[np.float64]
NIGHTS, DELTA = 365, 1e-6
ROWS, SYMBOLS, DRIFT_FROM = 36_000, 20, 100
TILTS = (0.15, 0.3, 0.6)
"""Of new rows' law, uniform before; D_θ is .004, .017 and .074 nats."""
TURNOVERS = (0.0, 0.001, 0.01, 0.1)
"""Of the rows, each night."""
SCHEMES = ("standing", "independent", "tree", "monthly")
_BLOCK, _VERSION = 20, 3
_SQUARES, _SUM = 45.0, 3.2
"""A χ² with 20 degrees of freedom, and standard deviations, that chance exceeds in one night in
1,000. Nights below both had p-values of more than .001 in 400 that were drawn around them."""
_MONTHS = np.array([30, 58, 89, 119, 150, 180, 211, 242, 272, 303, 333, 364])
"""Last nights of each, from 0."""


def released(columns: int = 1) -> Release:
    """Return the one release of a year's standing session."""
    return continual_release(Guarantee(1.0, DELTA), Continual(NIGHTS), allotted(columns))


def allotted(columns: int = 1) -> Allotment:
    """Return the steps of a session's counts."""
    return Standing(Trusted(1.0, DELTA), NIGHTS).over(columns).allotment


def hidden(epsilon: float = 1.0, moves: int = 2) -> float:
    """Return the standard deviation of what is drawn on one night, in 256ths of a count."""
    ball, (steps,) = Continual(NIGHTS, moves).moved(allotted()), allotted().counts
    return per_norm(epsilon) * math.sqrt(ball.squares) / steps


def per_norm(epsilon: float = 1.0) -> float:
    """Return the standard deviation of Gaussian noise for each unit of an l2 norm."""
    return analytic_sigma(epsilon, DELTA)


@lru_cache(maxsize=1)
def by_night() -> Floats:
    """Return ``A C⁻¹``, shape [nights, nights]: what each night's draw weighs on each night."""
    first = Continual(NIGHTS).weights(NIGHTS)[::-1]
    lags = np.subtract.outer(np.arange(NIGHTS), np.arange(NIGHTS))
    return np.asarray(np.where(lags >= 0, first[np.abs(lags)], 0.0))


@lru_cache(maxsize=2)
def tree() -> NDArray[np.bool_]:
    """Say which nights' changes each node of a binary tree adds up, shape [nodes, nights]."""
    nights = np.arange(NIGHTS)
    ends = [(k << b, (k + 1) << b) for b in range(9) for k in range(NIGHTS >> b)]
    return np.array([(first <= nights) & (nights < last) for first, last in ends])


@lru_cache(maxsize=2)
def prefixes() -> NDArray[np.bool_]:
    """Say which nodes make up the count of each night, shape [nights, nodes]."""
    index = {(int(n.argmax()), int(n.sum())): i for i, n in enumerate(tree())}
    used = np.zeros((NIGHTS, len(index)), dtype=bool)
    for night in range(1, NIGHTS + 1):
        first = 0
        for size in (1 << b for b in reversed(range(9)) if night >> b & 1):
            used[night - 1, index[first, size]] = True
            first += size
    return used


def tree_norm(moves: int = 2) -> float:
    """Return the largest l2 norm by which the stays of a record move the nodes."""
    in_nodes = tree().astype(float)
    both = in_nodes.T @ in_nodes
    own = np.diag(both)
    return math.sqrt(moves / 2 * max((own[:, None] + own - 2 * both).max(), own.max()))


@lru_cache(maxsize=1000)
def deviations(scheme: str, epsilon: float = 1.0, moves: int = 2) -> Floats:
    """Return the s.d. of a count of all rows on each night: two cells move."""
    if scheme == "standing":
        return np.asarray(hidden(epsilon, moves) * np.sqrt((by_night() ** 2).sum(axis=1)))
    nights, unit = np.ones(NIGHTS), math.sqrt(2) * per_norm(epsilon)
    if scheme == "tree":
        return np.asarray(unit * tree_norm(moves) * np.sqrt(prefixes().sum(axis=1)))
    if scheme == "independent":
        return unit * math.sqrt(NIGHTS) * nights
    return unit * math.sqrt(len(_MONTHS)) * nights


def of_a_change(scheme: str, nights: int, moves: int = 2) -> float:
    """Return the s.d. of a lasting change of night 180, after so many nights with it."""
    if scheme == "standing":
        column = np.array(Continual(NIGHTS).coefficients[:nights], dtype=float)
        return hidden(moves=moves) / math.sqrt(float(column @ column))
    if scheme == "tree":
        done = tree()[:, 180 + nights :].sum(axis=1) == 0
        seen = int((tree()[:, 180] & done).sum())
        return float(deviations(scheme)[0]) / math.sqrt(seen) if seen else math.inf
    return float(deviations(scheme)[0]) / math.sqrt(nights)


def epsilon_for(scheme: str, moves: int, deviation: float) -> float:
    """Return the ε of a year in which no night is less exact."""

    def excess(log_epsilon: float) -> float:
        return math.log(deviations(scheme, math.exp(log_epsilon), moves).max() / deviation)

    return math.exp(root(excess, math.log(0.5), math.log(60.0), within=1e-3))


def noise_table() -> list[Row]:
    """Describe the noise of each scheme."""
    rows = []
    cases = [("standing", moves) for moves in (2, 4, 8)]
    one = math.sqrt(2) * per_norm()
    for scheme, moves in [*cases, *((name, 2) for name in SCHEMES[1:])]:
        night = deviations(scheme, moves=moves)
        nightly = scheme in ("standing", "independent", "tree")
        rows.append({
            "scheme": scheme, "moves": moves, "mean": float(np.sqrt((night**2).mean())),
            "worst": float(night.max()),
            **{f"change, {m} nights": of_a_change(scheme, m, moves) if nightly else None
               for m in (1, 7, 28)},
            "as one check": epsilon_for(scheme, moves, one) if nightly else None,
        })  # fmt: skip
    return rows


def drawn(scheme: str, seed: int, cells: int, columns: int = 1) -> Floats:
    """Draw the noise of a year in whole counts, shape [nights, cells]."""
    bits = SeededBits(seed)
    if scheme == "standing":
        z = sample(released(columns=columns).table, NIGHTS * cells, bits).reshape(NIGHTS, cells)
        return np.floor(by_night() @ z / allotted(columns).counts[0] + 0.5)
    if scheme == "tree":
        node = _gaussian(float(deviations(scheme)[0]))
        z = sample(node, prefixes().shape[1] * cells, bits).reshape(-1, cells)
        return np.asarray(prefixes() @ z, dtype=float)
    table = _gaussian(float(deviations(scheme)[0]) * math.sqrt(columns))
    return sample(table, NIGHTS * cells, bits).reshape(NIGHTS, cells).astype(float)


_gaussian = lru_cache(maxsize=1000)(discrete_gaussian)


@dataclass
class Year:
    """One scheme's checks of one table, decided by the product."""

    scheme: str
    reference: Reference
    columns: int = 1

    @cached_property
    def plan(self) -> QueryPlan:
        """The same on all nights."""
        return Partition().draw(self.reference, np.random.default_rng(0))

    @cached_property
    def nights(self) -> NDArray[np.int64]:
        """Nights on which it checks, from 0."""
        return _MONTHS if self.scheme == "monthly" else np.arange(NIGHTS)

    def decider(self) -> Decider:
        """Return a fresh one, to which nothing is tolerable."""
        alarm = Alarm(horizon=len(self.nights)).shared(self.columns)
        return Decider(0.0, 0.0, alarm, self.reference, "x", self.columns)

    def measured(self, night: int, counts: Floats, records: int) -> CohortRelease:
        """Say what a check published."""
        deviation = deviations(self.scheme)[night] * math.sqrt(self.columns)
        event = replace(released(columns=self.columns), added=_gaussian(deviation))
        plan = self.plan.allotted(Allotment.even(1))
        values = NoisyCounts(counts.astype(np.int64), float(records), event, plan, False)
        clients = AskedClients([Participant(1), Participant(2)])
        return CohortRelease(values, clients, 2, {}, (0.0, 0.0))

    def suspect(self, night: int, counts: Floats, records: int) -> bool:
        """Whether a night is not far from any alarm: nothing else is worth reading."""
        inside = ~self.plan.outside
        expected = records * self.plan.mass[inside]
        noise = self.measured(night, counts, records).published.noise.variance
        z = (counts[inside] - expected) / np.sqrt(expected + noise)
        place = np.linspace(-1, 1, len(z))
        across = place**2 - np.mean(place**2)
        sums = [w @ z / np.linalg.norm(w) for w in (place, across)]
        sums.append(counts[~inside].sum() / math.sqrt(noise * max((~inside).sum(), 1)))
        return bool(z @ z > _SQUARES or np.abs(sums).max() > _SUM)

    @one_thread()
    def found(self, counts: Floats, records: int, first: int = 0) -> int:
        """Return the first night with drift, from `first` on; -1 if there is none."""
        decider = self.decider()
        for night in self.nights[self.nights >= first]:
            shown = counts[night]
            if not self.suspect(night, shown, records):
                continue
            measured = self.measured(night, shown, records)
            (found,) = bounds_of([decider], [measured.published])
            verdict, _ = decider.decide(measured, found, None, None, "nights")
            if verdict.outcome is Outcome.DRIFT:
                return int(night)
        return -1


@lru_cache(maxsize=1)
def uniform() -> Reference:
    """Return the law of all rows before a drift."""
    return Reference.from_probabilities(
        Labels([str(k) for k in range(SYMBOLS)]), np.full(SYMBOLS, 1 / SYMBOLS)
    )


def tilted(tilt: float) -> Floats:
    """Return the law of new rows."""
    return (1 + tilt * np.linspace(-1, 1, SYMBOLS)) / SYMBOLS


def tables(turnover: float, tilt: float, rng: np.random.Generator) -> Floats:
    """Draw counts of a year of nights, shape [nights, symbols]."""
    now, found = rng.multinomial(ROWS, tilted(0.0)), []
    for night in range(NIGHTS):
        gone = rng.binomial(now, turnover)
        law = tilted(tilt if night >= DRIFT_FROM else 0.0)
        now = now - gone + rng.multinomial(gone.sum(), law)
        found.append(now)
    return np.array(found, dtype=float)


def lived(task: Configuration) -> Arrays:
    """Live some years: the night on which a drift was found."""
    scheme, tilt = str(task["scheme"]), float(task["tilt"])
    year = Year(scheme, uniform())
    found = []
    rng = np.random.default_rng(seed_of({**task, "scheme": "any"}, "rows"))
    for number in range(int(task["years"])):
        counts = tables(float(task["turnover"]), tilt, rng)
        noise = drawn(scheme, seed_of(task, f"noise {number}"), year.plan.cells)
        shown = noise.copy()
        shown[:, ~year.plan.outside] += counts
        found.append(year.found(shown, ROWS, DRIFT_FROM if tilt else 0))
    return {"found": np.array(found)}


@lru_cache(maxsize=1)
def growing() -> tuple[Reference, NDArray[np.int64]]:
    """Return `air_time` of flights before May, and the table's counts by night of the year."""
    flights = Flights.load()
    day, column = flights.day_of_year, flights.columns["air_time"]
    domain = flights.reference.columns["air_time"].domain
    before = Reference.from_samples(domain, column[day <= MAY])
    added = np.zeros((NIGHTS, domain.size), dtype=np.int64)
    np.add.at(added, (day - 1, domain.encode(column)), 1)
    return before, added.cumsum(axis=0)


MAY = 120
"""Nights before."""


def flown(task: Configuration) -> Arrays:
    """Watch the growing table of flights from 1 May on."""
    before, counts = growing()
    year = Year(str(task["scheme"]), before, int(task["columns"]))
    noise = drawn(year.scheme, seed_of(task, "noise"), year.plan.cells, year.columns)
    # A session begins on 1 May, months stay where they are.
    shift = MAY if year.scheme != "monthly" else 0
    decider, lasting = year.decider(), year.nights[year.nights >= MAY]
    for night in lasting:
        shown = noise[night - shift] + _in_cells(counts[night], year.plan)
        measured = year.measured(int(night - shift), shown, int(counts[night].sum()))
        (found,) = bounds_of([decider], [measured.published])
        verdict, _ = decider.decide(measured, found, None, None, "flights")
        if verdict.outcome is Outcome.DRIFT:
            return {"after": np.array([night + 1 - MAY])}
    return {"after": np.array([-1])}


def _in_cells(counts: NDArray[np.int64], plan: QueryPlan) -> Floats:
    return np.asarray(np.bincount(plan.cell_of, counts, plan.cells), dtype=float)


def work(shared: None, task: Configuration) -> Arrays:
    """Do one task."""
    return flown(task) if task["study"] == "flights" else lived(task)


def tasks_of(years: int, quiet: int, runs: int) -> list[Configuration]:
    """List what is to be done, first what decides."""
    common = {"version": _VERSION, "study": "nights"}
    one_percent = TURNOVERS[2]
    worlds = [(one_percent, tilt) for tilt in TILTS]
    worlds += [(t, tilt) for t, tilt in product(TURNOVERS, TILTS) if t not in (0.0, one_percent)]
    drifts = [
        (scheme, *world, years if world[0] == one_percent else min(years, _BLOCK))
        for world in worlds
        for scheme in SCHEMES
    ]
    wanted = [("standing", one_percent, 0.0, quiet), *drifts]
    few = min(quiet, 5 * _BLOCK)
    wanted += [("standing", t, 0.0, few) for t in TURNOVERS if t != one_percent]
    wanted += [(scheme, one_percent, 0.0, few) for scheme in SCHEMES[1:4]]
    flights: list[Configuration] = [
        {"version": _VERSION, "study": "flights", "scheme": scheme, "columns": columns, "run": run}
        for columns in (1, 11)
        for scheme in ("standing", "monthly")
        for run in range(runs)
    ]
    found: list[Configuration] = []
    for scheme, turnover, tilt, number in wanted:
        found += [
            {**common, "scheme": scheme, "turnover": turnover, "tilt": tilt, "block": block,
             "years": min(_BLOCK, number - block)}
            for block in range(0, number, _BLOCK)
        ]  # fmt: skip
    return flights + found


def delay(nights: NDArray[np.int64]) -> float:
    """Median of nights after the first with drifted rows; infinite where half find none."""
    after = np.where(nights >= DRIFT_FROM, nights - DRIFT_FROM, np.inf)
    return float(np.median(after))


def summary(found: Sequence[tuple[Configuration, Arrays]]) -> list[Row]:
    """Return a row for each scheme in each world."""
    rows = []
    nights = [one for one in found if one[0]["study"] == "nights"]
    for key, blocks in grouped(nights, "turnover", "tilt", "scheme").items():
        turnover, tilt, scheme = key
        nights_of = np.concatenate([block["found"] for block in blocks])
        alarms = int((nights_of >= 0).sum())
        part, years = alarms / len(nights_of), len(nights_of)
        row: Row = {
            "scheme": scheme, "turnover": turnover, "years": years,
            "D": skewed_divergence(tilted(0.0), tilted(tilt), THETA),
            "delay": delay(nights_of) if tilt else None, "found": part if tilt else None,
            "false": None if tilt else part,
            "false_at_most": None if tilt else at_most(alarms, years),
        }  # fmt: skip
        rows.append(row)
    return rows


def of_flights(found: Sequence[tuple[Configuration, Arrays]]) -> list[Row]:
    """Return a row for each way of watching flights."""
    flights = [one for one in found if one[0]["study"] == "flights"]
    rows = []
    for (columns, scheme), runs in grouped(flights, "columns", "scheme").items():
        after = np.array([run["after"][0] for run in runs])
        rows.append({
            "columns": columns, "scheme": scheme, "runs": len(after),
            "nights_from_1_May": float(np.median(np.where(after < 0, np.inf, after))),
            "at_most": int(after.max()), "found": float((after > 0).mean()),
        })  # fmt: skip
    return rows


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the study."""
    parser = parser_of(
        __doc__, out="nights", years=(100, "with each drift"), quiet=(300, "without a drift"),
        runs=(5, "of the flights"),
    )  # fmt: skip
    chosen = parser.parse_args(arguments)
    noise = noise_table()
    show("standard deviation of a count, and ε of a year whose nights are as one check", noise)
    found = computed(work, None, tasks_of(chosen.years, chosen.quiet, chosen.runs), chosen)
    rows, flights = summary(found), of_flights(found)
    show("nights until the verdict is drift, and years with a false one", rows)
    show("flights: the growing table's air_time from 1 May on", flights)
    save(rows, chosen.out, "nights", {"noise": noise, "flights": flights})


if __name__ == "__main__":
    main()
