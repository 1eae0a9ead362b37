"""Checks simulated client by client: by the product's own counting, noise, witness and p-value."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.special import ndtri

from flwr_kld import Partition, Reference
from flwr_kld.inference.divergence import skewed_divergence
from flwr_kld.inference.estimators.registry import estimate
from flwr_kld.inference.lower_bound import divergence_sum
from flwr_kld.inference.witness import Witness
from flwr_kld.kernel.law import SeededBits
from flwr_kld.planner import Setting
from flwr_kld.planner.detection import by_counts, deciding_of
from flwr_kld.planner.drift import Drift
from flwr_kld.planner.setting import design_effect_of, published
from flwr_kld.query.plan import QueryPlan
from flwr_kld.simulations.studies import drifts
from flwr_kld.simulations.studies.federations import Clients, Equal
from flwr_kld.simulations.studies.records import released
from flwr_kld.simulations.studies.runner import generator
from flwr_kld.trust.trusted import Trusted


@dataclass(frozen=True, eq=False)
class Case:
    """How to check a population that may drift."""

    name: str
    reference: Reference
    setting: Setting  # Its design effect follows from `correlation`
    shape: str
    correlation: float  # Of a client's records, in [0, 1)

    @cached_property
    def query(self) -> QueryPlan:
        """Cells, as the planner draws them."""
        return Partition(self.setting.cells).draw(self.reference, np.random.default_rng(0))

    def law(self, divergence):
        """P of the population."""
        return Drift(self.reference, self.shape).at(divergence, self.setting.theta)

    def federation(self, divergence):
        """Clients around such a population."""
        alike = (1 - self.correlation) / self.correlation if self.correlation else None
        return Clients(self.law(divergence), Equal(int(self.setting.records)), alike)

    def draw(self, federation, rng):
        """Draw a cohort: what its first exchange publishes, and whom a second one asks."""
        first = second = federation.draw(self.query, self.setting.clients, rng)
        if self.setting.about == "the population":
            first, second = first.by_client(rng)
        bits = SeededBits(int(rng.integers(2**62)))
        counts = first.counts(self.query.cells)
        return published(counts, self.query, self.setting.event, bits), second


def case(name, symbols=300, *, correlation=0.0, drift="spread", **setting) -> Case:
    """Return a case over Zipf's law; by default 200 clients with 100 records at epsilon 1."""
    chosen = {"clients": 200, "records": 100, "trust": Trusted(1.0), "cells": symbols} | setting
    if correlation:  # of clients who are drawn: these very ones are where their own laws are
        chosen["population"] = 10 * chosen["clients"]
    asked = Setting(**chosen, design_effect=design_effect_of(chosen["records"], correlation))
    return Case(name, drifts.reference_of(drifts.zipf(symbols)), asked, drift, correlation)


def surprises(case: Case, divergence, runs, seed=0):
    """Run checks: normal quantiles of their p-values; beyond the level's is found."""
    federation, rng = case.federation(divergence), generator(case.name, seed)
    setting, found = case.setting, []
    for _ in range(runs):
        first, second = case.draw(federation, rng)
        if setting.about == "these clients":
            read = by_counts(setting, first)
            surplus = read.quantile(setting.threshold) - read.needed(setting.level)
            found.append(surplus + float(ndtri(setting.level)))
            continue
        witness = Witness.from_counts(first, deciding_of(setting))
        bits = SeededBits(int(rng.integers(2**62)))
        sums = released(witness.query_plan(), second, setting.sums_event, rng, bits)
        score = divergence_sum(witness, sums, 1 - setting.level)
        found.append(-float(ndtri(max(score.p_value(), 1e-300))))
    return np.array(found)


def error_at(case: Case, divergence, runs, seed=0) -> float:
    """Root mean square distance of simulated estimates from the population's D_θ."""
    setting, rng = case.setting, generator(case.name, seed)
    law, federation = case.law(divergence), case.federation(divergence)
    truth = skewed_divergence(case.reference.probabilities, law, setting.theta)
    firsts = [case.draw(federation, rng)[0] for _ in range(runs)]
    read = [estimate(first, theta=setting.theta).value for first in firsts]
    return float(np.sqrt(np.mean((np.array(read) - truth) ** 2)))
