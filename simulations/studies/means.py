"""Numbers in a user's few bins: how wide the intervals of a description are, and how often true.

    python simulations/studies/means.py [--runs 200] [--workers 2] [--out DIR]

Of 3,000 records of 60 clients, in worlds made to break what a description says of numbers: heavy
tails, zeros, constants, few whole numbers, two far modes in one bin, open ends, values beyond them,
alike clients. Each is asked under every trust model, in tables of 1 to 16 columns, as the product
asks; and 60 of 600 clients are drawn, whom the intervals are then about. Noise of ε = 1, coins and
cohorts are drawn anew in each run. Mean and s.d. are of values up to the outer edges; widths are
medians of all runs, in s.d. of these values, 1 for a constant, and of bins in fractions of the
records. Writes ``means.csv`` and ``means.json``.
"""

from __future__ import annotations

from functools import lru_cache
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from flwr_kld.ask.cohort import AskedClients, Participant
from flwr_kld.ask.noisy import noisy
from flwr_kld.ask.plan import QueryPlan, each_symbol
from flwr_kld.infer.estimators.design_effect import DesignEffects
from flwr_kld.infer.figures.statistics import column_statistics
from flwr_kld.kernel.count import ClientSizes
from flwr_kld.kernel.promise import WholeClients
from flwr_kld.kernel.vector import ClearSum, ClientRows
from flwr_kld.planner.allotment import allot
from flwr_kld.report.cohort_release import CohortRelease
from flwr_kld.simulations.studies.checks import bits_of
from flwr_kld.simulations.studies.runner import Row, generator, in_processes, parser_of, save, show
from flwr_kld.strategies.statistics import counted
from flwr_kld.table.base import Domain
from flwr_kld.table.binned import Binned
from flwr_kld.table.labels import Labels
from flwr_kld.table.table import Table
from flwr_kld.trust import Trust
from flwr_kld.trust.distributed import Distributed
from flwr_kld.trust.trusted import Trusted, TrustedAggregator, TwoAggregators

Floats = NDArray[np.float64]
CLIENTS, EACH, POPULATION = 60, 50, 600
TRUSTS: dict[str, Trust] = {
    "Trusted": Trusted(1.0, 1e-6),
    "TrustedAggregator": TrustedAggregator(1.0, 1e-6, aggregator=bytes(31) + b"a"),
    "TwoAggregators": TwoAggregators(1.0, 1e-6, aggregators=(bytes(31) + b"a", bytes(31) + b"b")),
    "Distributed": Distributed(1.0, CLIENTS, 1e-6),
    "WholeClients": Trusted(1.0, 1e-6, protects=WholeClients(EACH)),
}
SETTINGS: dict[str, tuple[str, int, bool]] = {
    **{f"{n} columns": ("Trusted", n, False) for n in (1, 4, 8, 16)},
    **{f"{name}, 4 columns": (name, 4, False) for name in TRUSTS if name != "Trusted"},
    "drawn, 4 columns": ("Trusted", 4, True),
}
"""Trust model, columns of the table, and whether clients are drawn."""


def _worlds() -> dict[str, tuple[Binned, Floats]]:
    """Return bins, and values of all clients, shape [clients, records]."""
    rng, size = np.random.default_rng(0), (POPULATION, EACH)
    own = rng.normal(size=(POPULATION, 1))
    skewed = rng.gamma(0.7, 40, size)
    tails = rng.lognormal(3.0, 1.5, size)
    ages = Binned([30, 45, 60, 75])
    return {
        "ages": (ages, rng.normal(54, 15, size)),
        "ages, alike clients": (ages, 54 + 15 * (0.3 * own + 0.95 * rng.normal(size=size))),
        "a constant": (ages, np.full(size, 54.3)),
        "an edge": (ages, np.full(size, 60.0)),
        "halfway to grid points": (ages, 45 + 15 / 7 * (0.5 + rng.integers(0, 7, size))),
        "few whole numbers": (Binned([1, 2, 3, 5]), rng.poisson(2.2, size).astype(float)),
        "zeros": (Binned([0, 50, 100, 250]), np.where(rng.random(size) < 0.8, 0, skewed)),
        "heavy tails": (Binned([0, 20, 60, 200, 1000]), tails),
        "heavy tails, 20 bins": (Binned.quantiles(rng.lognormal(3.0, 1.5, 5000)), tails),
        "two far modes in a bin": (
            Binned([0, 100, 200, 300]), np.where(rng.random(size) < 0.5, 3.1, 96.7)
        ),
        "one wide bin": (Binned([0, 1, 400]), rng.exponential(2.0, size)),
        "half beyond the edges": (Binned([-0.5, 0, 0.5, 1]), rng.normal(0, 1, size)),
        "all beyond": (Binned([-9, -8, -7, -6]), rng.normal(0, 1, size)),
        "20 bins": (Binned.quantiles(rng.normal(54, 15, 5000)), rng.normal(54, 15, size)),
        "most are missing": (ages, np.where(rng.random(size) < 0.9, np.nan, 54 + 15 * own)),
    }  # fmt: skip


@lru_cache(maxsize=1)
def worlds() -> dict[str, tuple[Binned, Floats]]:
    """Return all of them, made once a process."""
    return _worlds()


@lru_cache(maxsize=64)
def asked(world: str, setting: str) -> tuple[Domain, Trust, QueryPlan]:
    """Return what is counted of records, under which noise."""
    name, columns, drawn = SETTINGS[setting]
    others = {f"label {i}": Labels(["a", "b"]) for i in range(columns - 1)}
    table = Table({"x": worlds()[world][0], **others})
    plan = each_symbol(counted(table, TRUSTS[name]))
    trust = TRUSTS[name].over(table.per_record)
    trust = trust.over(allot(trust, plan, {}, drawn=drawn))
    return plan.reference.domain, trust, plan.allotted(trust.allotment)


def study(item: tuple[str, str, int]) -> Row:
    """Ask once; hold every interval of the numbers against the truth."""
    world, setting, _ = item
    domain, trust, plan = asked(world, setting)
    (bins, values), (_, columns, drawn) = worlds()[world], SETTINGS[setting]
    rng = generator(str(item))
    clients = rng.choice(POPULATION, CLIENTS, replace=False) if drawn else np.arange(CLIENTS)
    records = {"x": values[clients].ravel(), **_labels(columns - 1)}
    rows = np.split(domain.encode(records), CLIENTS)
    bits = bits_of(rng)
    release = trust.event(CLIENTS)
    rows_counted = ClientRows.count(rows, plan.cell_of, plan.layout, release.guarantee, bits)
    measured = CohortRelease(
        noisy(ClearSum(plan.layout, rows_counted).release(release, bits), plan),
        asked=AskedClients([Participant(i) for i in range(CLIENTS)], drawn=drawn),
        survivors=CLIENTS,
        left_out={},
        traffic=(0.0, 0.0),
        sizes=ClientSizes.of([EACH] * CLIENTS, "a client"),
    )
    column = measured.columns["x"]
    found = column_statistics(column.published, column.effects if drawn else DesignEffects(0.0))
    truth = values if drawn else values[:CLIENTS]
    return {"world": world, "setting": setting, **_held(found, bins, truth)}


@lru_cache(maxsize=8)
def _labels(columns: int) -> dict[str, NDArray[np.str_]]:
    return {f"label {n}": np.full(CLIENTS * EACH, "a") for n in range(columns)}


def _held(found: Any, bins: Binned, values: Floats) -> Row:
    present = np.sort(values[~np.isnan(values)])
    symbols = bins.encode(values.ravel())
    least, most = (bins.edges[0], bins.edges[-1]) if bins.means is None else (
        bins.means[0], bins.means[-1]
    )  # fmt: skip
    inside = np.where(symbols == 0, least, values.ravel())
    inside = np.where(symbols == len(bins.edges), most, inside)[symbols < bins.size - 1]
    sd = float(inside.std()) if np.ptp(inside) > 0 else 1.0
    numbers = found.numbers
    shares = np.bincount(symbols, minlength=bins.size)[:-1] / len(symbols)
    deciles = []
    for one in numbers.quantiles:
        at = present[int(np.ceil(one.level * len(present))) - 1]
        low = one.low_beyond == "below" or one.low <= at
        high = one.high_beyond == "above" or at <= one.high
        deciles.append(low and high)
    return {
        "mean": held(numbers.mean, float(inside.mean())),
        "s.d.": held(numbers.deviation, float(inside.std())),
        "deciles": float(np.mean(deciles)),
        "bins": all(held(one, n) for one, n in zip(found.histogram, shares, strict=True)),
        "mean's width": width(numbers.mean) / sd,
        "s.d.'s width": width(numbers.deviation) / sd,
        "median's width": width(numbers.quantiles[4]) / sd,
        "bins' width": float(np.mean([width(one) for one in found.histogram])),
    }


def width(figure: Any) -> float:
    """Width of an interval."""
    return float(figure.high - figure.low)


def held(figure: Any, truth: float) -> bool:
    """Whether an interval holds, up to rounding."""
    return bool(figure.low - 1e-9 <= truth <= figure.high + 1e-9)


def main() -> None:
    """Run the study."""
    given = parser_of(
        __doc__, out="means", runs=(200, "questions of each world and setting")
    ).parse_args()
    settings = list(product(worlds(), SETTINGS))
    work = [(*setting, run) for setting in settings for run in range(given.runs)]
    rows = list(in_processes(study, work, given.workers, "questions"))
    found: list[Row] = []
    for world, setting in settings:
        own = [row for row in rows if (row["world"], row["setting"]) == (world, setting)]
        found.append({
            "world": world, "setting": setting,
            **{key: float(np.mean([row[key] for row in own])) for key in list(own[0])[2:6]},
            **{key: float(np.median([row[key] for row in own])) for key in list(own[0])[6:]},
        })  # fmt: skip
    show("How often intervals hold, and how wide they are", found)
    save(found, given.out, "means")


if __name__ == "__main__":
    main()
