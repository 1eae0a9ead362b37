"""Survival from noised counts: how near curves are to those of the times, and whether bands hold.

    python simulations/studies/survival.py [--runs 300] [--workers 2] [--out DIR]
    python simulations/studies/survival.py --worlds [--data FILE:TIME:EVENT:HAPPENED …]

Patients have events by a Weibull law and are last seen at some time; 24 months and what lies beyond
are counted with ε = 1, δ = 1e-6, by the law of the noise that is released. Curves are held against
Kaplan and Meier's of the very times, or of the law.

With ``--worlds``, tables of two arms without a difference are asked as an operator asks them, at
ε = 3: events that are empty or of several codes, times below 0, whole months, few events, a small
arm; and the rows of CSV files, drawn with replacement, whose arms are drawn. Each arm's band is
held against Kaplan and Meier's curve of its own times, and the test of the arms against its level.
Writes ``survival.csv`` and ``.json``.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from itertools import product
from pathlib import Path
from typing import Literal

import numpy as np
from flwr.app import Context
from flwr.clientapp import ClientApp
from numpy.typing import NDArray

from flwr_kld import Binned, Labels, Table
from flwr_kld.clients import answer_drift_queries
from flwr_kld.infer.survival import curves, kaplan_meier
from flwr_kld.report import Survival
from flwr_kld.report.survival import SurvivalCurves
from flwr_kld.simulations.in_process_grid import InProcessGrid
from flwr_kld.simulations.studies.runner import Row, generator, in_processes, parser_of, save, show
from flwr_kld.strategies import Statistics
from flwr_kld.trust.trusted import Trusted

_MONTHS, _SCALE, _SHAPE = 24, 14.0, 1.3
_PATIENTS = (500, 1_000, 5_000)


def exact(time: NDArray[np.float64], event: NDArray[np.bool_]) -> NDArray[np.float64]:
    """Return the curve of the times themselves at the end of each month, before the next begins."""
    order = np.lexsort((~event, time))
    curve = np.cumprod(1 - event[order] / np.arange(len(time), 0, -1))
    reached = np.searchsorted(time[order], np.arange(1, _MONTHS + 1))
    return np.where(reached > 0, curve[reached - 1], 1.0)


def study(item: tuple[int, int]) -> Row:
    """Read one release of the counts of so many patients."""
    patients, _ = item
    rng = generator("survival", *item)
    until, seen = rng.weibull(_SHAPE, patients) * _SCALE, rng.uniform(4, 30, patients)
    time, event = np.minimum(until, seen), until <= seen
    month = np.minimum(time, _MONTHS).astype(int)
    counts = np.stack([np.bincount(month[own], minlength=_MONTHS + 1) for own in (event, ~event)])
    noise = Trusted(1.0, 1e-6).event(1).noise
    chance = noise.probabilities / noise.probabilities.sum()
    noised = (counts + rng.choice(noise.support, counts.shape, p=chance))[None].astype(float)
    truth, binned = exact(time, event), kaplan_meier(*counts.astype(float))[:_MONTHS]
    law = np.exp(-((np.arange(1, _MONTHS + 1) / _SCALE) ** _SHAPE))
    row: Row = {"patients": patients}
    for name, effect, of in (("these", 0.0, truth), ("population", 1.0, law)):
        (curve,), _ = curves(
            noised,
            [""],
            noise=math.sqrt(noise.variance),
            records=(patients, patients),
            design_effect=effect,
        )
        read, low, high = (np.array(x)[:_MONTHS] for x in (curve.survival, curve.low, curve.high))
        row[f"{name}_held"] = bool(((low <= of + 1e-9) & (of <= high + 1e-9)).all())
        row[f"{name}_error"] = float(np.abs(read - of).max())
        row["binned_error"] = float(np.abs(read - binned).max())
    return row


Rows = tuple[NDArray[np.float64], NDArray[np.object_]]
"""Times, and codes of what happened then: "1" is the event; None is empty."""


@dataclass(frozen=True)
class World:
    """Patients of two arms that do not differ."""

    rows: Callable[[np.random.Generator, int], Rows]
    others: Literal["left out", "censored"] = "left out"  # See `Survival`
    small: float = 0.5  # Part of the patients in the smaller arm
    happened: str = "1"


def _followed(
    rng: np.random.Generator, patients: int, scale: float = 14, shape: float = 1.3, last: float = 30
) -> Rows:
    until, seen = scale * rng.weibull(shape, patients), rng.uniform(min(4, last), last, patients)
    return np.minimum(until, seen), np.where(until <= seen, "1", "0").astype(object)


def _some(rows: Rows, part: float, rng: np.random.Generator, code: str | None) -> Rows:
    """Give some of those who had no event another code."""
    time, codes = rows
    codes[(codes == "0") & (rng.random(len(time)) < part)] = code
    return time, codes


def _below_0(rows: Rows, rng: np.random.Generator) -> Rows:
    return np.where(rng.random(len(rows[0])) < 0.05, -rows[0], rows[0]), rows[1]


def _lost_at_once(rng: np.random.Generator, patients: int) -> Rows:
    time, codes = _followed(rng, patients)
    lost = (time > 6) & (rng.random(patients) < 0.6)
    return np.where(lost, 6.0, time), np.where(lost, "0", codes).astype(object)


WORLDS = {
    "Weibull": World(_followed),
    "few events": World(lambda rng, n: _followed(rng, n, scale=300)),
    "early events": World(lambda rng, n: _followed(rng, n, scale=3, shape=0.8)),
    "much censored": World(lambda rng, n: _followed(rng, n, last=8)),
    "whole months": World(lambda rng, n: (np.floor((r := _followed(rng, n))[0]), r[1])),
    "lost at once": World(_lost_at_once),
    "a small arm": World(_followed, small=0.1),
    "empty for the living": World(
        lambda rng, n: _some(_followed(rng, n), 1.0, rng, None), "censored"
    ),
    "codes 0, 1, 2 censored": World(
        lambda rng, n: _some(_followed(rng, n), 0.5, rng, "2"), "censored"
    ),
    "some unknown": World(lambda rng, n: _some(_followed(rng, n), 0.1, rng, "?")),
    "times below 0": World(lambda rng, n: _below_0(_followed(rng, n), rng)),
}


@lru_cache(maxsize=8)
def of_file(given: str) -> World:
    """Draw from the rows of a file; times are scaled so that the last is at 24."""
    path, time, event, happened = given.rsplit(":", 3)
    with Path(path).open(newline="") as file:
        rows = [row for row in csv.DictReader(file) if row[time]]
    times = np.array([float(row[time]) for row in rows])
    codes = np.array([row[event] or None for row in rows], dtype=object)
    times *= _MONTHS / times.max()

    def drawn(rng: np.random.Generator, patients: int) -> Rows:
        who = rng.integers(0, len(times), patients)
        return times[who], codes[who]

    return World(drawn, "censored", happened=happened)


def asked(item: tuple[str, int]) -> Row:
    """Ask about the patients of one world, as an operator does."""
    name, run = item
    rng, patients, clinics = generator("survival worlds", len(name), run), 4_000, 4
    world = WORLDS[name] if name in WORLDS else of_file(name)
    time, codes = world.rows(rng, patients)
    arm = np.where(rng.random(patients) < world.small, "new", "old")
    known = sorted({str(code) for code in codes if code not in (None, "?")} | {world.happened})
    if world.others == "left out":
        known = ["0", "1"]
    died = Survival("months", "died", happened=world.happened, by="arm", others=world.others)
    table = Table(
        {
            "months": Binned(list(range(_MONTHS + 1))),
            "died": Labels(known if len(known) > 1 else [*known, "0"]),
            "arm": Labels(["old", "new"]),
        },
        interactions=[died.columns],
    )
    app, of = ClientApp(), np.arange(patients) % clinics

    def rows(own: Context) -> dict[str, NDArray[np.object_]]:
        mine = of == int(own.node_config["partition-id"])
        return {"months": time[mine], "died": codes[mine], "arm": arm[mine]}

    answer_drift_queries(app, rows, table)
    read = died.of(Statistics(table, Trusted(3.0, 1e-6)).ask(InProcessGrid(app, clinics)), table)
    inside = time >= 0
    if world.others == "left out":
        inside &= np.isin(codes.astype(str), known)
    return {"world": Path(name).name.split(":")[0]} | held(read, time, codes == world.happened,
                                                           arm, inside)  # fmt: skip


def held(
    read: SurvivalCurves,
    time: NDArray[np.float64],
    event: NDArray[np.bool_],
    arm: NDArray[np.str_],
    inside: NDArray[np.bool_],
) -> Row:
    """Hold bands against the curves of the times themselves, and say if the test errs."""
    found: Row = {}
    for curve in read.curves:
        own = inside & (arm == curve.group)
        truth = exact(time[own], event[own])
        low, high = (np.array(x)[:_MONTHS] for x in (curve.low, curve.high))
        found[f"{curve.group} held"] = bool(((low <= truth + 1e-9) & (truth <= high + 1e-9)).all())
    found["tested"] = read.log_rank is not None
    found["rejected"] = read.log_rank is not None and read.log_rank < 0.05
    return found


def main() -> None:
    """Run the study."""
    parser = parser_of(__doc__, out="survival", runs=(300, "releases of each size, or world"))
    parser.add_argument("--worlds", action="store_true", help="ask as an operator does")
    parser.add_argument("--data", nargs="*", default=[], help="FILE:TIME:EVENT:HAPPENED")
    given = parser.parse_args()
    if given.worlds or given.data:
        named = [*(WORLDS if given.worlds else ()), *given.data]
        told = list(
            in_processes(asked, list(product(named, range(given.runs))), given.workers, "tables")
        )
        table: list[Row] = []
        for world in dict.fromkeys(row["world"] for row in told):
            own = [row for row in told if row["world"] == world]
            table.append({"world": world, "asked": len(own), **{
                key: float(np.mean([row[key] for row in own])) for key in list(own[0])[1:]
            }})  # fmt: skip
        show("bands that hold for each arm, and how often the arms differ at 5 %", table)
        save(table, given.out, "survival")
        return
    work = [(patients, run) for patients in _PATIENTS for run in range(given.runs)]
    rows = list(in_processes(study, work, given.workers, "releases"))
    found: list[Row] = []
    for patients in _PATIENTS:
        own = [row for row in rows if row["patients"] == patients]
        found.append(
            {
                "patients": patients,
                "error": float(np.median([row["these_error"] for row in own])),
                "of_binned": float(np.median([row["binned_error"] for row in own])),
                "held": float(np.mean([row["these_held"] for row in own])),
                "population_held": float(np.mean([row["population_held"] for row in own])),
            }
        )
    show("largest error of a curve, median; bands that hold", found)
    save(found, given.out, "survival")


if __name__ == "__main__":
    main()
