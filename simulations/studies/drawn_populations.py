"""Intervals about the population that clients were drawn from: how often they hold.

    python simulations/studies/drawn_populations.py [--runs 200] [--workers 2] [--out DIR]

Clients are of kinds that differ, or each of its own law around one; values lie on points between
which are empty bins, so that what is not known within bins hides nothing. Each run draws a cohort,
releases its counts as the product does, and holds every interval against the law: mean, standard
deviation, deciles, histogram, the same of a group, and the figures of a check, whose reference is
the population itself or lies off it. The same numbers of the very clients are held beside it.

No interval knows of clients who were not drawn: of "3 % far, 100 clients", 5 % of cohorts have
nobody who is far, and no mean of these holds at ε = 1 and 5. Of the others' .969 and .995 hold, at
ε = .3 .928: there the noise in the number of alike records is four times the design effect, to
which one standard deviation of it is added.

Writes ``drawn_populations.csv`` and ``.json``.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from flwr_kld.ask.cohort import AskedClients, Participant
from flwr_kld.ask.noisy import noisy
from flwr_kld.ask.plan import QueryPlan, each_symbol
from flwr_kld.infer.figures.figures import Figures, distances, figures
from flwr_kld.infer.figures.statistics import ColumnStatistics
from flwr_kld.kernel.count import ClientSizes
from flwr_kld.kernel.vector import ClearSum, ClientRows
from flwr_kld.planner.allotment import allot
from flwr_kld.reference import Reference
from flwr_kld.report.cohort_release import CohortRelease
from flwr_kld.report.description import described
from flwr_kld.simulations.studies.checks import bits_of
from flwr_kld.simulations.studies.runner import Row, generator, in_processes, parser_of, save, show
from flwr_kld.table.binned import Binned
from flwr_kld.table.table import Table
from flwr_kld.trust import Trust
from flwr_kld.trust.trusted import Trusted

EPSILONS = (0.3, 1.0, 5.0)
_WIDTH = 0.01
"""Of the bin around a point."""
_GROUP = 0.3
"""Part of the records that is in the group."""
_DRIFT = 0.3
"""Part of the reference's mass that its lower half has more than the population."""
Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class World:
    """Clients of some kinds."""

    clients: int  # Drawn
    records: int  # Of each
    points: Floats  # Where values lie, shape [points]
    kinds: Floats  # Laws over the points, shape [kinds, points]
    chance: Floats  # Of each kind
    # Of the Dirichlet law of a client's law around its kind's; infinite for none
    concentration: float = np.inf

    @property
    def law(self) -> Floats:
        """The population's, shape [points]."""
        return np.asarray(self.chance @ self.kinds)

    def counts(self, rng: np.random.Generator) -> NDArray[np.int64]:
        """Draw clients, shape [clients, points]."""
        laws = self.kinds[rng.choice(len(self.chance), self.clients, p=self.chance)]
        if np.isfinite(self.concentration):
            gamma = rng.gamma(self.concentration * laws + 1e-12) + 1e-300
            laws = gamma / gamma.sum(axis=1, keepdims=True)
        return rng.multinomial(self.records, laws)


def _far(clients: int, records: int, part: float) -> World:
    kinds = np.array([[0.5, 0.5, 0], [0, 0, 1]])
    points = np.array([0.0, 2.0, 9.94])
    return World(clients, records, points, kinds, np.array([1 - part, part]))


def _evenly(points: int) -> Floats:
    return np.full(points, 1 / points)


def _shifted(spread: float, points: int = 30, kinds: int = 200) -> tuple[Floats, Floats]:
    """Kinds whose values lie around means of their own."""
    at = np.linspace(-3, 3, kinds)
    chance = np.exp(-(at**2) / 2)
    where = np.linspace(-3, 3, points)
    laws = np.exp(-((where - spread * at[:, None]) ** 2) / 2 / (1 - spread**2))
    return laws / laws.sum(axis=1, keepdims=True), chance / chance.sum()


def _zero(zeros: Floats, chance: Floats, points: int = 20) -> tuple[Floats, Floats]:
    """Kinds that have nothing in so large a part of their records."""
    rest = np.exp(-np.arange(points - 1) / 6)
    laws = np.column_stack([zeros, (1 - zeros)[:, None] * rest / rest.sum()])
    return laws, chance


def _heavy(points: int = 24) -> tuple[Floats, Floats, Floats]:
    """Kinds of which few have values that are many times as large."""
    places = np.arange(points)
    centres = np.arange(0, points, 2)
    laws = np.exp(-((places - centres[:, None]) ** 2) / 4)
    chance = 0.6 ** np.arange(len(centres))
    return np.asarray(1.35**places), laws / laws.sum(axis=1, keepdims=True), chance / chance.sum()


def worlds() -> dict[str, World]:
    """Return all of them."""
    even, line = _evenly(20), np.arange(20.0)
    halves = np.array([np.append(0.5, np.repeat([0.5 / 15, 0], 15)),
                       np.append(0.5, np.repeat([0, 0.5 / 15], 15))])  # fmt: skip
    heavy = _heavy()
    some = np.array([0.5, 0.8, 1.0])
    third = np.full(3, 1 / 3)
    return {
        "independent": World(200, 50, line, even[None], np.ones(1)),
        "Dirichlet, effect 3": World(200, 50, line, even[None], np.ones(1), 49 / 2 - 1),
        "Dirichlet, effect 10": World(200, 50, line, even[None], np.ones(1), 49 / 9 - 1),
        "one value a client": World(200, 50, line, np.eye(20), even),
        "shifted means": World(200, 50, np.linspace(-3, 3, 30), *_shifted(0.4)),
        "two kinds": World(200, 50, np.arange(31.0), halves, np.full(2, 0.5)),
        "zero-inflated": World(200, 50, line, *_zero(some, third)),
        "all or nothing zero": World(
            200, 50, line, *_zero(np.array([0.0, 1.0]), np.array([0.15, 0.85]))
        ),
        "heavy tails": World(300, 40, *heavy),
        "1 % far, 400 clients": _far(400, 50, 0.01),
        "1 % far, 1000 clients": _far(1000, 50, 0.01),
        "2 % far, 200 records": _far(400, 200, 0.02),
        "3 % far, 100 clients": _far(100, 50, 0.03),
    }


@lru_cache(maxsize=32)
def _table(name: str) -> Table:
    edges = np.add.outer(worlds()[name].points, [0.0, _WIDTH]).ravel()
    return Table({"g": ["a", "b"], "x": Binned(edges.tolist())}, by="g")


@lru_cache(maxsize=64)
def _asked(name: str, epsilon: float) -> tuple[Trust, QueryPlan]:
    table = _table(name)
    plan = each_symbol(table)
    trust = Trusted(epsilon, 1e-6).over(table.per_record)
    trust = trust.over(allot(trust, plan, {}, drawn=True))
    return trust, plan.allotted(trust.allotment)


def released(name: str, epsilon: float, rng: np.random.Generator) -> tuple[CohortRelease, Floats]:
    """Ask a cohort; return what is published, and the records of its points."""
    world, table, (trust, plan) = worlds()[name], _table(name), _asked(name, epsilon)
    counts = world.counts(rng)
    places = [np.repeat(np.arange(len(world.points)), own) for own in counts]
    every = np.concatenate(places)
    group = rng.random(len(every)) < _GROUP
    values = world.points[every] + _WIDTH / 2
    symbols = table.encode({"g": np.where(group, "b", "a"), "x": values})
    rows = np.split(symbols, len(places))
    bits = bits_of(rng)
    release = trust.event(world.clients)
    clear = ClearSum(
        plan.layout,
        ClientRows.count(rows, plan.cell_of, plan.layout, release.guarantee, bits),
    )
    found = CohortRelease(
        noisy(clear.release(release, bits), plan),
        asked=AskedClients([Participant(i) for i in range(world.clients)], drawn=True),
        survivors=world.clients,
        left_out={},
        traffic=(0.0, 0.0),
        sizes=ClientSizes.of([world.records] * world.clients, "a client"),
    )
    return found, counts.sum(axis=0) / counts.sum()


def numbers(found: ColumnStatistics, points: Floats, law: Floats) -> dict[str, float]:
    """Say which intervals hold of a law over the points."""
    own = found.numbers
    if own is None:
        raise ValueError("the column has numbers")
    middle = points + _WIDTH / 2
    mean = float(law @ middle)
    sd = float(np.sqrt(law @ (middle - mean) ** 2))
    below = np.cumsum(law)
    deciles = []
    for quantile in own.quantiles:
        if np.abs(below - quantile.level).min() > 1e-6:  # else any value between two points is one
            deciles.append(held(quantile, middle[np.searchsorted(below, quantile.level)]))
    shares = np.array([(one.low, one.high) for one in found.histogram])[1::2][: len(law)]
    histogram = (shares[:, 0] <= law + 1e-9) & (law - 1e-9 <= shares[:, 1])
    return {
        "mean": held(own.mean, mean),
        "s.d.": held(own.deviation, sd),
        "deciles": float(np.mean(deciles)) if deciles else 1.0,
        "histogram": bool(histogram.all()),
    }


def held(figure: Any, truth: float) -> bool:
    """Whether an interval holds, up to rounding."""
    return bool(figure.low - 1e-9 <= truth <= figure.high + 1e-9)


def of_figures(found: Figures, law: Floats, reference: Floats, points: Floats) -> dict[str, float]:
    """Say which figures of a check hold."""
    names = ("psi", "jensen_shannon", "total_variation", "hellinger")
    truth = distances(law[None], reference)[:, 0]
    told: dict[str, float] = {
        name: held(getattr(found, name), float(one)) for name, one in zip(names, truth, strict=True)
    }
    if found.ordered is None:
        raise ValueError("the column has an order")
    middle = points + _WIDTH / 2
    apart = np.abs(np.cumsum(law - reference))[:-1]
    told["wasserstein"] = held(found.ordered.wasserstein, float(apart @ np.diff(middle)))
    told["figure: mean"] = held(found.ordered.mean, float(law @ middle))
    return told


def study(item: tuple[str, float, int]) -> Row:
    """Ask one cohort; hold every interval against the truth."""
    name, epsilon, _ = item
    world, rng = worlds()[name], generator(str(item))
    found, own = released(name, epsilon, rng)
    columns = described(found)
    statistics = columns["x"].statistics
    row: Row = {"world": name, "epsilon": epsilon}
    row |= numbers(statistics, world.points, world.law)
    row["effect"] = found.columns["x"].effects.average
    in_group = numbers(columns["g × x"].groups["b"], world.points, world.law)
    row |= {f"group's {key}": value for key, value in in_group.items()}
    these = described(replace(found, asked=AskedClients(found.asked.participants, drawn=False)))
    row |= {f"these: {k}": v for k, v in
            numbers(these["x"].statistics, world.points, own).items()}  # fmt: skip
    column = found.columns["x"]
    for drift in (0.0, _DRIFT):
        tilted = world.law * (1 + drift * np.where(np.cumsum(world.law) <= 0.5, 1, -1))
        reference = tilted / tilted.sum()
        full = np.zeros(column.published.plan.cells)
        full[1 : 2 * len(reference) : 2] = reference
        law, against = full.copy(), full
        law[1 : 2 * len(reference) : 2] = world.law
        plan = each_symbol(column.published.plan.reference.domain)
        pi = Reference.from_probabilities(plan.reference.domain, full)
        known = replace(plan, reference=pi, weight=full, allotment=column.published.plan.allotment)
        own_figures = figures(replace(column.published, plan=known), column.effects)
        told = of_figures(own_figures, law, against, _all_points(world.points))
        row |= {f"{key}, drift {drift:g}": value for key, value in told.items()}
    numbers_told = statistics.numbers
    if numbers_told is not None:
        row["width"] = numbers_told.mean.high - numbers_told.mean.low
    return row


def _all_points(points: Floats) -> Floats:
    """One value for each symbol: empty bins are where the point before them is."""
    between = np.append(points[0] - _WIDTH, np.repeat(points, 2))
    return np.append(between, between[-1])


def main() -> None:
    """Run the study."""
    given = parser_of(
        __doc__, out="drawn_populations", runs=(200, "cohorts of each world and ε")
    ).parse_args()
    settings = list(product(worlds(), EPSILONS))
    work = [(*setting, run) for setting in settings for run in range(given.runs)]
    rows = list(in_processes(study, work, given.workers, "cohorts"))
    found: list[Row] = []
    for name, epsilon in settings:
        own = [row for row in rows if (row["world"], row["epsilon"]) == (name, epsilon)]
        found.append({
            "world": name, "epsilon": epsilon,
            **{key: float(np.mean([row[key] for row in own])) for key in list(own[0])[2:]},
        })  # fmt: skip
    show("how often intervals hold", found)
    save(found, given.out, "drawn_populations")


if __name__ == "__main__":
    main()
