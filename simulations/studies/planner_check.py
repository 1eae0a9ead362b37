"""Planner against simulation: clients with laws of their own, counted and decided as checks are.

    python simulations/studies/planner_check.py [--runs 300] [--out DIR]

Every client has its own law, drawn from a Dirichlet around the drifted population (intraclass
correlation ρ), and its own records. Checks go through the product's own counting, noise, witness
and bound; only Flower's messages are left out. For each setting the table has

- the predicted smallest drift and the measured one, interpolated between simulated divergences;
- the predicted root mean square error of the estimate and the measured one.

Agreed tolerance: 25 % for both, of what the divergence exceeds the threshold by. The planner draws
256 checks a divergence, whose power at 0.8 is known to ± 0.05, that is 7 % of the divergence; 24
cohorts tell a root mean square to ± 14 %; and it leaves out that groups of clients differ in size.
Where clients are few, checks put records into groups and not clients: the bound then speaks of
these very clients, and the planner, which allows for other ones, is on the safe side.
Writes ``planner_check.csv``.
"""

from __future__ import annotations

import argparse
import csv
import math
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from scipy.stats import norm

from flwr_kld.counts.client_sums import ClientSums
from flwr_kld.counts.noisy_counts import NoisyCounts
from flwr_kld.counts.private_counts import ClearSum, ClientCounts
from flwr_kld.domain.labels import Labels
from flwr_kld.inference.divergence import skewed_divergence
from flwr_kld.inference.estimators.registry import estimate
from flwr_kld.inference.lower_bound import lower_confidence_bound
from flwr_kld.inference.witness import Witness
from flwr_kld.planner import Setting, forecast
from flwr_kld.planner.drift import Drift, Law, Shape
from flwr_kld.planner.setting import design_effect_of
from flwr_kld.privacy.bits import SeededBits
from flwr_kld.privacy.guarantee import Adjacency
from flwr_kld.query.partition import Partition
from flwr_kld.query.plan import QueryPlan
from flwr_kld.query.selection import Selection, record_ids
from flwr_kld.reference import Reference
from flwr_kld.trust.distributed import Distributed
from flwr_kld.trust.trusted import Trusted

TOLERANCE = 0.25
_FACTORS = (0.6, 0.75, 0.9, 1.1, 1.35, 1.7)
"""Divergences beyond the threshold that are simulated, relative to the predicted smallest."""


@dataclass(frozen=True)
class Case:
    """One line of the table.

    Parameters
    ----------
    name : str
        What is special about it.
    reference : Reference
        Π.
    setting : Setting
        How to check; ``design_effect`` follows from `correlation`.
    correlation : float
        ρ of a client's records, in [0, 1).
    drift : {"spread", "concentrated"}
        Shape.
    """

    name: str
    reference: Reference
    setting: Setting
    correlation: float = 0.0
    drift: Shape = "spread"

    @property
    def query(self) -> QueryPlan:
        """Cells, as the planner draws them."""
        return Partition(self.setting.cells).draw(self.reference, np.random.default_rng(0))


class Federation:
    """Clients around a population.

    Parameters
    ----------
    case : Case
        What is simulated.
    law : Law
        P of the population, shape [domain.size].
    seed : int
        Of everything.
    """

    def __init__(self, case: Case, law: Law, seed: int) -> None:
        self.case, self._law, self.query = case, law, case.query
        self._generator = np.random.default_rng(seed)

    def first_half(self) -> NoisyCounts:
        """Count the cells over one half of the clients."""
        return self._publish(self.case.setting.answering, self.query)

    def bound(self) -> float:
        """Run a check: its lower confidence bound, in nats."""
        setting = self.case.setting
        witness = Witness.from_counts(
            self.first_half(), theta=setting.theta, groups=setting.groups, level=setting.level
        )
        rest = setting.clients - setting.answering
        many = setting.clients >= 20 * setting.groups
        grouped = Selection(groups=setting.groups, by="client" if many else "record")
        second = self._publish(rest, witness.query_plan().over(grouped))
        return lower_confidence_bound(
            witness, second, theta=setting.theta, level=setting.level
        ).lower

    def _records(self) -> NDArray[np.int64]:
        """Symbols of one client."""
        law, rho = self._law, self.case.correlation
        if rho:
            law = self._generator.standard_gamma((1 / rho - 1) * law)
            law = law / law.sum()
        drawn = self._generator.multinomial(int(self.case.setting.records), law)
        return np.repeat(np.arange(len(law)), drawn)

    def _publish(self, clients: int, plan: QueryPlan) -> NoisyCounts:
        setting, bits = self.case.setting, SeededBits(int(self._generator.integers(2**62)))
        parts = [self._count(number, plan) for number in range(clients)]
        terms = setting.trust.noise_terms
        if terms is None:
            return _counts(ClearSum(parts, plan).release(setting.event, bits))
        share = terms.event()
        clear = ClearSum([part.noised(share, bits) for part in parts], plan)
        clear.records = int(ClearSum(parts, plan).public_total(setting.trust.guarantee.adjacency))
        return replace(_counts(clear.release_noised(setting.event)), private=bits.private)

    def _count(self, number: int, plan: QueryPlan) -> ClientCounts:
        """Count a new client's records; their order, which groups go by, says nothing of them."""
        symbols = self._generator.permutation(self._records())
        selection = plan.selection
        group = selection.group_of(record_ids(None, len(symbols)))
        return ClientCounts.count(
            symbols, plan.cell_of, plan.cells, group=group, groups=selection.groups
        )


def power_at(case: Case, divergence: float, runs: int, seed: int = 0) -> float:
    """Part of the simulated checks whose bound exceeds the threshold."""
    setting = case.setting
    law = Drift(case.reference, case.drift).at(divergence, setting.theta)
    federation = Federation(case, law, seed)
    return float(np.mean([federation.bound() > (setting.threshold or 0) for _ in range(runs)]))


def error_at(case: Case, divergence: float, runs: int, seed: int = 0) -> float:
    """Root mean square distance of simulated estimates from the population's D_θ."""
    setting = case.setting
    law = Drift(case.reference, case.drift).at(divergence, setting.theta)
    truth = skewed_divergence(case.reference.probabilities, law, setting.theta)
    federation = Federation(case, law, seed)
    read = [estimate(federation.first_half(), theta=setting.theta).value for _ in range(runs)]
    return float(np.sqrt(np.mean((np.array(read) - truth) ** 2)))


def measured_smallest(case: Case, predicted: float, runs: int) -> float:
    """Divergence at which the simulated power is the setting's.

    A line through probits of the power over ln of the divergence beyond the threshold.
    """
    tolerated = case.setting.threshold or 0.0
    beyond = (predicted - tolerated) * np.array(_FACTORS)
    power = np.array([power_at(case, tolerated + d, runs, seed=i) for i, d in enumerate(beyond)])
    near = (power > 0.1) & (power < 0.99)
    if near.sum() < 2:
        return math.nan
    slope, intercept = np.polyfit(np.log(beyond[near]), norm.ppf(power[near]), 1)
    return tolerated + float(np.exp((norm.ppf(case.setting.power) - intercept) / slope))


def zipf(symbols: int) -> Reference:
    """Return a reference with Zipf's law."""
    weight = 1 / np.arange(1, symbols + 1)
    return Reference(Labels(list(range(symbols))), weight / weight.sum())


def case(name: str, symbols: int, *, correlation: float = 0.0, drift: Shape = "spread",
         **setting: object) -> Case:  # fmt: skip
    """Return a case over Zipf's law; by default 200 clients with 100 records at epsilon 1."""
    chosen: dict[str, object] = {
        "clients": 200, "records": 100, "trust": Trusted(1.0), "cells": symbols,
    }  # fmt: skip
    chosen |= setting
    effect = design_effect_of(float(str(chosen["records"])), correlation)
    return Case(
        name,
        zipf(symbols),
        Setting(**chosen, design_effect=effect),  # type: ignore[arg-type]
        correlation,
        drift,
    )


CASES = (
    case("base", 300),
    case("epsilon 0.2", 300, trust=Trusted(0.2)),
    case("epsilon 3", 300, trust=Trusted(3.0)),
    case("ten labels", 10, cells=16),
    case("concentrated", 300, drift="concentrated"),
    case("threshold 0.1", 300, threshold=0.1),
    case("100 cells of 1,000 symbols", 1000, cells=100),
    case("add-remove", 300, trust=Trusted(1.0, adjacency=Adjacency.ADD_REMOVE)),
    case("distributed", 300, trust=Distributed(1.0, min_survivors=70)),
    case("clustered, rho 0.02", 300, correlation=0.02),
    case("clustered, rho 0.1", 300, correlation=0.1),
    case("clustered, few clients", 300, clients=60, records=300, correlation=0.02),
    case("1,000 clients of 20", 300, clients=1000, records=20),
    case("power 0.5, level 0.99", 300, power=0.5, level=0.99),
)


@dataclass(frozen=True)
class Row:
    """Predictions beside what was measured, in nats."""

    setting: str
    threshold: float
    smallest: float
    measured_smallest: float
    error: float
    measured_error: float

    @classmethod
    def of(cls, each: Case, runs: int) -> Row:
        """Predict and simulate."""
        told = forecast(each.reference, each.setting, drift=each.drift)
        smallest = math.nan if told.smallest is None else told.smallest
        return cls(
            each.name,
            each.setting.threshold or 0.0,
            smallest,
            measured_smallest(each, smallest, runs),
            told.error,
            error_at(each, each.setting.threshold or 0.0, runs),
        )

    @property
    def ratios(self) -> tuple[float, float]:
        """Prediction over measurement, of the smallest drift and of the error."""
        predicted, measured = (x - self.threshold for x in (self.smallest, self.measured_smallest))
        return predicted / measured, self.error / self.measured_error

    def __str__(self) -> str:
        drift, error = self.ratios
        return (
            f"{self.setting:<28} smallest {self.smallest:.4f} / {self.measured_smallest:.4f} "
            f"= {drift:.2f}   error {self.error:.4f} / {self.measured_error:.4f} = {error:.2f}"
        )


def _counts(published: NoisyCounts | ClientSums) -> NoisyCounts:
    if isinstance(published, ClientSums):
        raise TypeError("a forecast is held against counts")
    return published


def main() -> None:
    """Predict, simulate, and print a line for each setting."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=300, help="simulated checks a divergence")
    parser.add_argument("--out", type=Path, help="folder for planner_check.csv")
    arguments = parser.parse_args()
    console, rows = Console(width=120), []
    console.print(f"predicted / measured over {arguments.runs} checks a divergence, in nats")
    for each in CASES:
        rows.append(Row.of(each, arguments.runs))
        console.print(str(rows[-1]), highlight=False)
    worst = max(abs(math.log(ratio)) for row in rows for ratio in row.ratios)
    console.print(f"largest deviation {math.expm1(worst):.0%}; agreed: {TOLERANCE:.0%}")
    if arguments.out:
        arguments.out.mkdir(parents=True, exist_ok=True)
        with (arguments.out / "planner_check.csv").open("w", newline="") as file:
            writer = csv.DictWriter(file, list(asdict(rows[0])))
            writer.writeheader()
            writer.writerows(asdict(row) for row in rows)


if __name__ == "__main__":
    main()
