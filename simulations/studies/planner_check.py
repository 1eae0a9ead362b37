"""Planner against simulation: clients with laws of their own, counted and decided as checks are.

    python simulations/studies/planner_check.py [--runs 100] [--out DIR]

Drifts are the planner's own and real ones: other mixes of digits, other hands, categories that
vanish or are new, faults in a tenth of the clients. Clients have laws of their own around the
population's (intraclass correlation ρ), or are virtual writers. Checks go through the product's own
counting, noise, witness, scores and p-value; only Flower's messages are left out. For each setting
the table has

- the predicted smallest drift and the measured one, interpolated between simulated divergences;
- the predicted root mean square error of the estimate and the measured one.

Agreed tolerance: 20 % for the smallest drift and 25 % for the error, of what the divergence exceeds
the threshold by. 100 checks at each of three divergences tell the smallest drift to about 5 %, as
many cohorts a root mean square to 7 %; the planner draws 24, which tell it to 14 %. Where clients
differ from each other in the very way in which they drift, as writers' hands do, sums over clients
vary more than one design effect for all cells says: there the forecast is too low. Writes
``planner_check.csv`` and ``.json``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property, lru_cache, partial
from typing import Any

import numpy as np
from scipy.special import ndtri

from flwr_kld.inference.divergence import skewed_divergence
from flwr_kld.inference.estimators.registry import estimate
from flwr_kld.inference.lower_bound import divergence_sum
from flwr_kld.inference.witness import Witness
from flwr_kld.kernel.law import SeededBits
from flwr_kld.kernel.promise import Adjacency
from flwr_kld.planner import Setting, forecast
from flwr_kld.planner.detection import deciding_of, whole_of
from flwr_kld.planner.drift import Drift, Law, Path, Shape, Towards
from flwr_kld.planner.setting import design_effect_of, published
from flwr_kld.query.noisy import NoisyCounts
from flwr_kld.query.partition import Partition
from flwr_kld.query.plan import QueryPlan
from flwr_kld.reference import Reference
from flwr_kld.simulations.handwriting.source import load_digits
from flwr_kld.simulations.studies import drifts
from flwr_kld.simulations.studies.federations import Clients, Equal, Federation, Groups
from flwr_kld.simulations.studies.hands import OTHER_HAND, Hands, Writers
from flwr_kld.simulations.studies.records import Records, released
from flwr_kld.simulations.studies.runner import Row, generator, in_processes, parser_of, save, show
from flwr_kld.trust.distributed import Distributed
from flwr_kld.trust.trusted import Trusted

_FACTORS = (0.75, 1.0, 1.3)
"""Divergences beyond the threshold that are simulated, relative to the predicted smallest."""
_FAULTY = 0.1
_WRITERS, _POOL = range(600), 150


class Along(Path):
    """A drift of ``simulations.studies.drifts``."""

    farthest = 1.0

    def __init__(self, name: str, family: drifts.Family) -> None:
        self.name, self._family = name, family

    def law(self, amount: float) -> Law:
        """P over the symbols, 'other' and 'missing'."""
        return np.append(self._family(amount), 0.0)


@dataclass(frozen=True, eq=False)
class Case:
    """One line of the table."""

    name: str  # What is special about it
    reference: Reference  # Π
    setting: Setting  # How to check; ``design_effect`` follows from `correlation`
    drift: Path  # Where the population goes
    correlation: float = 0.0  # ρ of a client's records, in [0, 1)
    # Writers as they are, and drifted; None for clients around the population's law
    hands: tuple[Hands, Hands] | None = None

    @cached_property
    def query(self) -> QueryPlan:
        """Cells, as the planner draws them."""
        return Partition(self.setting.cells).draw(self.reference, np.random.default_rng(0))

    def law(self, divergence: float) -> Law:
        """P of the population, shape [domain.size]."""
        return self.drift.at(divergence, self.setting.theta)

    def federation(self, divergence: float) -> Federation:
        """Clients around such a population."""
        law, pi = self.law(divergence), self.reference.probabilities
        if self.hands:
            usual, drifted = self.hands
            away = drifted.law(len(pi)) - pi
            part = float((law - pi) @ away / (away @ away))
            return Writers(usual, drifted, part, int(self.setting.records), len(pi))
        alike = (1 - self.correlation) / self.correlation if self.correlation else None
        around = partial(Clients, sizes=Equal(int(self.setting.records)), alike=alike)
        moved = self.drift.clients
        if moved == 1:
            return around(law)
        faulty = pi + (law - pi) / moved
        return Groups(((1 - moved, around(pi)), (moved, around(faulty))))

    def draw(self, federation: Federation, rng: np.random.Generator) -> tuple[NoisyCounts, Records]:
        """Draw a cohort: what its first exchange publishes, and whom a second one asks."""
        first = second = federation.draw(self.query, self.setting.clients, rng)
        if self.setting.about == "the population":
            first, second = first.by_client(rng)
        bits = SeededBits(int(rng.integers(2**62)))
        counts = first.counts(self.query.cells)
        return published(counts, self.query, self.setting.event, bits), second


def surprises(case: Case, divergence: float, runs: int, seed: int = 0) -> Law:
    """Run checks: normal quantiles of their p-values, shape [runs]; beyond the level's is found."""
    federation, rng = case.federation(divergence), generator(case.name, seed)
    setting, found = case.setting, []
    for _ in range(runs):
        first, second = case.draw(federation, rng)
        if setting.about == "these clients":
            check = whole_of(setting, case.query)
            read = check.read(first)
            surplus = read.quantile(check.threshold) - read.needed(setting.level)
            found.append(surplus + float(ndtri(setting.level)))
            continue
        witness = Witness.from_counts(first, deciding_of(setting))
        bits = SeededBits(int(rng.integers(2**62)))
        sums = released(witness.query_plan(), second, setting.sums_event, rng, bits)
        score = divergence_sum(witness, sums, 1 - setting.level)
        found.append(-float(ndtri(max(score.p_value(), 1e-300))))
    return np.array(found)


def error_at(case: Case, divergence: float, runs: int, seed: int = 0) -> float:
    """Root mean square distance of simulated estimates from the population's D_θ."""
    setting, rng = case.setting, generator(case.name, seed)
    law, federation = case.law(divergence), case.federation(divergence)
    truth = skewed_divergence(case.reference.probabilities, law, setting.theta)
    firsts = [case.draw(federation, rng)[0] for _ in range(runs)]
    read = [estimate(first, theta=setting.theta).value for first in firsts]
    return float(np.sqrt(np.mean((np.array(read) - truth) ** 2)))


def measured_smallest(case: Case, predicted: float, runs: int) -> float:
    """Divergence with the setting's power, interpolated over ln of what exceeds the threshold."""
    tolerated = case.setting.threshold or 0.0
    beyond = (predicted - tolerated) * np.array(_FACTORS)
    exceeded = [
        np.quantile(surprises(case, tolerated + d, runs, seed=i), 1 - case.setting.power)
        for i, d in enumerate(beyond.tolist())
    ]
    slope, intercept = np.polyfit(np.log(beyond), exceeded, 1)
    return tolerated + math.exp((float(ndtri(case.setting.level)) - intercept) / slope)


def case(
    name: str,
    symbols: int = 300,
    *,
    correlation: float = 0.0,
    drift: Shape = "spread",
    **setting: Any,
) -> Case:
    """Return a case over Zipf's law; by default 200 clients with 100 records at epsilon 1."""
    reference = drifts.reference_of(drifts.zipf(symbols))
    return _case(
        name, reference, Drift(reference, drift), correlation, **({"cells": symbols} | setting)
    )


def _case(
    name: str,
    reference: Reference,
    drift: Path,
    correlation: float = 0.0,
    hands: tuple[Hands, Hands] | None = None,
    **setting: Any,
) -> Case:
    chosen: dict[str, Any] = {"clients": 200, "records": 100, "trust": Trusted(1.0)} | setting
    if correlation:  # of clients who are drawn: these very ones are where their own laws are
        chosen["population"] = 10 * chosen["clients"]
    effect = design_effect_of(chosen["records"], correlation)
    asked = Setting(**chosen, design_effect=effect)
    return Case(name, reference, asked, drift, correlation, hands)


def planners_own() -> list[Case]:
    """Drifts that the planner offers, in many settings."""
    return [
        case("base"),
        case("epsilon 0.2", trust=Trusted(0.2)),
        case("epsilon 3", trust=Trusted(3.0)),
        case("ten labels", 10, cells=16),
        case("concentrated", drift="concentrated"),
        case("threshold 0.1", threshold=0.1),
        case("100 cells of 1,000 symbols", 1000, cells=100),
        case("add-remove", trust=Trusted(1.0, adjacency=Adjacency.ADD_REMOVE)),
        case("distributed", trust=Distributed(1.0, min_clients=70)),
        case("clustered, rho 0.02", correlation=0.02),
        case("clustered, rho 0.1", correlation=0.1),
        case("few clients", clients=20, records=1000),
        case("1,000 clients of 20", clients=1000, records=20),
        case("power 0.5, level 0.99", power=0.5, level=0.99),
    ]


def real() -> list[Case]:
    """Drifts as they happen."""
    pi, rng = drifts.zipf(300), np.random.default_rng(0)
    reference = drifts.reference_of(pi)
    along = {
        "categories vanish": drifts.vanishing,
        "a category outside": drifts.new_category,
        "a rare category": drifts.rare_category,
        "tilted": drifts.tilted,
        "alternating": drifts.alternating,
        "sparse": drifts.sparse,
    }
    cases = [
        _case(name, reference, Along(name, family(pi, rng)), 0.02, cells=300)
        for name, family in along.items()
    ]
    joint = drifts.table(2, 17)
    paired = Along("columns agree", drifts.pair(joint, 17, rng))
    cases.append(_case("columns agree", drifts.reference_of(joint), paired, 0.02, cells=300))
    one = np.eye(len(reference.probabilities))[5]
    for name, law in (("one value", one), ("noise", np.append(np.ones(300), [0.0, 0.0]))):
        fault = Towards(reference, law, name=name, clients=_FAULTY)
        many: dict[str, Any] = {"clients": 1000, "records": 20, "cells": 300}
        cases.append(_case(f"fault in 10 %: {name}", reference, fault, 0.02, **many))
    return [*cases, *_written()]


def _written() -> list[Case]:
    """Virtual writers of scikit-learn's digits."""
    domain, usual = load_digits(1).patterns(), Hands.virtual(_WRITERS, _POOL)
    reference = Reference.from_probabilities(domain, usual.law(domain.size))
    cases = []
    for name, drifted in (
        ("more 1 and 7", Hands.virtual(_WRITERS, _POOL, digits=(1, 7))),
        ("more 0 and 8", Hands.virtual(_WRITERS, _POOL, digits=(0, 8))),
        ("another hand", Hands.virtual(_WRITERS, _POOL, styles=OTHER_HAND)),
    ):
        drift = Towards(reference, drifted.law(domain.size), name=name)
        rho = correlation_of(usual, domain.size)
        cases.append(_case(name, reference, drift, rho, (usual, drifted), records=50, cells=300))
    return cases


def correlation_of(hands: Hands, size: int) -> float:
    """Intraclass correlation of what writers write, from their pools, over all symbols at once."""
    writer = np.repeat(np.arange(len(hands.size)), hands.size)
    _, pairs = np.unique(writer * size + hands.symbols, return_counts=True)
    pool = float(hands.size.mean())
    alike = float((pairs * (pairs - 1)).sum()) / (len(hands.size) * pool * (pool - 1))
    by_chance = float((hands.law(size) ** 2).sum())
    return (alike - by_chance) / (1 - by_chance)


@lru_cache(maxsize=1)
def cases() -> list[Case]:
    """List all cases; another process makes them anew, as drifts cannot be sent."""
    return [*planners_own(), *real()]


def compared(number: int, runs: int) -> Row:
    """Predict and simulate a case; divergences in nats, ratios of predicted to measured."""
    each = cases()[number]
    told = forecast(each.reference, each.setting, drift=each.drift)
    tolerated = each.setting.threshold or 0.0
    smallest = math.nan if told.smallest is None else told.smallest
    measured = measured_smallest(each, smallest, runs)
    error = error_at(each, tolerated, runs)
    return {
        "setting": each.name,
        "threshold": tolerated,
        "smallest": smallest,
        "measured_smallest": measured,
        "smallest_ratio": (smallest - tolerated) / (measured - tolerated),
        "error": told.error,
        "measured_error": error,
        "error_ratio": told.error / error,
    }


def main() -> None:
    """Predict, simulate, and print a line for each setting."""
    given = parser_of(__doc__, out="planner_check", runs=(100, "checks a divergence")).parse_args()
    work = partial(compared, runs=given.runs)
    numbers = range(len(cases()))
    rows = list(in_processes(work, numbers, given.workers, "settings"))
    show("predicted and measured, in nats", rows)
    save(rows, given.out, "planner_check")


if __name__ == "__main__":
    main()
