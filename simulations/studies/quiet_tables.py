"""How many years of monthly checks of a table bring a false alarm, where nothing drifts.

Run ``python simulations/studies/quiet_tables.py [--runs 200] [--workers 2] [--out DIR]``. The table
is that of ``flights.py``: eleven columns, one release, .05 nats tolerated in each. The clients of a
month are as many aircraft, drawn with replacement, each with its flights of January: columns depend
on each other, clients are clustered and of unequal size. In one world January is the reference; in
the other each column's reference has more of the rarest symbol, so that D_θ is exactly what is
tolerated. In at most 5 % of the years may any column alarm, by evidence over checks or by a single
one. Twenty years share their first halves, hence their witnesses: each has a cohort and noise of
its own in the half that decides.
Writes ``quiet_tables.csv`` and ``quiet_tables.json``.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from scipy.optimize import brentq

from flwr_kld.check.decider import Alarm
from flwr_kld.inference.deciding import default_most_records
from flwr_kld.inference.design_effect import Spread
from flwr_kld.inference.divergence import skewed_divergence
from flwr_kld.reference import Reference
from flwr_kld.simulations.flights import MONTHS, Flights
from flwr_kld.simulations.studies.checks import Checks, Halves
from flwr_kld.simulations.studies.drifts import THETA
from flwr_kld.simulations.studies.false_alarms import THRESHOLD, at_most
from flwr_kld.simulations.studies.records import Integers, Records
from flwr_kld.simulations.studies.runner import Row, generator, in_processes, parser_of, save, show
from flwr_kld.trust.trusted import Trusted

ALARM = Alarm(horizon=len(MONTHS))
WORLDS = {"like January": 0.0, "at the threshold": THRESHOLD}
"""D_θ of every column, in nats."""
_TOGETHER = 20
"""Years that share their first halves."""


@dataclass(frozen=True, eq=False)
class January:
    """The aircraft of January, and what they did."""

    names: tuple[str, ...]  # Of the columns
    references: tuple[Reference, ...]  # January's law in each column
    # Of each flight within each column, shape [flights, columns], one aircraft's after another's
    symbols: Integers
    sizes: Integers  # Flights of each aircraft, >= 1

    @classmethod
    @lru_cache(maxsize=1)
    def load(cls) -> January:
        """Read the flights once a process."""
        flights = Flights.load()
        columns, parts = flights.reference.columns, flights.table.parts
        symbols = flights.table.encode(flights.of(None, 1)) - np.array([p.start for p in parts])
        sizes = np.bincount(flights.aircraft[flights.month == 1])
        return cls(tuple(columns), tuple(columns.values()), symbols, sizes[sizes > 0])

    def half(self, rng: np.random.Generator) -> tuple[Integers, Integers]:
        """Draw half as many aircraft; return their flights' symbols, and how many each has."""
        who = rng.integers(len(self.sizes), size=len(self.sizes) // 2)
        sizes = self.sizes[who]
        first = (np.cumsum(self.sizes) - self.sizes)[who] - (np.cumsum(sizes) - sizes)
        return self.symbols[np.arange(sizes.sum()) + np.repeat(first, sizes)], sizes


def live(item: tuple[str, int, int]) -> Counter[tuple[int, str]]:
    """Live some years of a world; count the alarms of each year and column."""
    world, seed, years = item
    january, rng = January.load(), generator(world, seed)
    trust = Trusted(1.0, 1e-6).over(len(january.names))
    alarm = ALARM.shared(len(january.names))
    most = default_most_records(len(january.symbols) // 2, len(january.sizes) // 2)
    checks = [
        Checks(_moved(reference, WORLDS[world]), trust, THRESHOLD, most)
        for reference in january.references
    ]
    detectors = [[alarm.detector for _ in checks] for _ in range(years)]
    alarms: Counter[tuple[int, str]] = Counter()
    for _ in MONTHS:
        halves = [january.half(rng) for _ in range(1 + years)]
        for k, (name, column) in enumerate(zip(january.names, checks, strict=True)):
            plan = column.plan(rng)
            first, *rest = (
                Records(plan.cell_of[symbols[:, k]].astype(np.int64), sizes)
                for symbols, sizes in halves
            )
            counted = column.counted(plan, first, rng)
            witness = column.learnt(counted, rest[0])
            for year, other in enumerate(rest):
                sums = column.summed(witness, other, rng)
                check = Halves(counted, witness, sums, Spread(1.0, 0.0))
                evidence = detectors[year][k].update(check.evidence)
                if evidence.alarmed or column.found_at_once(check, alarm):
                    alarms[year, name] += 1
    return alarms


@lru_cache(maxsize=64)
def _moved(reference: Reference, nats: float) -> Reference:
    """Return a reference from which this one's law is so many nats of D_θ away."""
    law = reference.probabilities
    rarest = np.arange(len(law)) == np.where(law > 0, law, 1).argmin()

    def excess(amount: float) -> float:
        return skewed_divergence((1 - amount) * law + amount * rarest, law, THETA) - nats

    amount = float(brentq(excess, 0.0, 0.99, xtol=1e-13)) if nats else 0.0
    moved = (1 - amount) * law + amount * rarest
    return Reference.from_probabilities(reference.domain, moved)


def jobs(years: int) -> list[tuple[str, int, int]]:
    """Cut each world's years into pieces of work."""
    together = min(_TOGETHER, years)
    pieces = range(math.ceil(years / together))
    return [(world, seed, together) for world in WORLDS for seed in pieces]


def row(world: str, found: Sequence[tuple[tuple[str, int, int], Counter[tuple[int, str]]]]) -> Row:
    """Count a world's years with a false alarm of any column."""
    own = [(item[2], alarms) for item, alarms in found if item[0] == world]
    years = sum(number for number, _ in own)
    false = sum(len({year for year, _ in alarms}) for _, alarms in own)
    columns = Counter(name for _, alarms in own for _, name in alarms)
    return {
        "world": world,
        "D": WORLDS[world],
        "years": years,
        "false_alarm": false / years,
        "at_most": at_most(false, years),
        "columns": ", ".join(f"{name} {number}" for name, number in columns.most_common()),
    }


def main() -> None:
    """Run the study."""
    chosen = parser_of(__doc__, out="quiet_tables", runs=(200, "years of each world")).parse_args()
    work = jobs(chosen.runs)
    found = list(zip(work, in_processes(live, work, chosen.workers, "living years"), strict=True))
    rows = [row(world, found) for world in WORLDS]
    show(f"false alarms of a table in {len(MONTHS)} monthly checks", rows)
    save(rows, chosen.out, "quiet_tables", {"promised": ALARM.rate})


if __name__ == "__main__":
    main()
