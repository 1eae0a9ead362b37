"""Checks simulated client by client: by the product's own counting, noise and p-value."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.special import ndtri

from flwr_kld import Reference
from flwr_kld.ask.partition import Partition
from flwr_kld.ask.plan import QueryPlan
from flwr_kld.infer.divergence import skewed_divergence
from flwr_kld.infer.drift import Drift
from flwr_kld.infer.estimators.posterior_ratios import posterior_ratios
from flwr_kld.infer.estimators.score import THETA
from flwr_kld.infer.power import published
from flwr_kld.kernel.law import SeededBits
from flwr_kld.planner import Setting
from flwr_kld.planner.detection import by_counts
from flwr_kld.simulations.studies import drifts
from flwr_kld.simulations.studies.federations import Clients, Equal
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
        return Drift(self.reference, self.shape).at(divergence)

    def federation(self, divergence):
        """Clients around such a population."""
        alike = (1 - self.correlation) / self.correlation if self.correlation else None
        return Clients(self.law(divergence), Equal(int(self.setting.records)), alike)

    def draw(self, federation, rng):
        """Draw a cohort, and publish its counts."""
        drawn = federation.draw(self.query, self.setting.clients, rng)
        bits = SeededBits(int(rng.integers(2**62)))
        return published(drawn.counts(self.query.cells), self.query, self.setting.event, bits)


def case(name, symbols=300, *, correlation=0.0, drift="spread", **setting) -> Case:
    """Return a case over Zipf's law; by default 200 clients with 100 records at epsilon 1."""
    chosen = {"clients": 200, "records": 100, "trust": Trusted(1.0), "cells": symbols} | setting
    asked = Setting(**chosen, design_effect=1 + (chosen["records"] - 1) * correlation)
    return Case(name, drifts.reference_of(drifts.zipf(symbols)), asked, drift, correlation)


def surprises(case: Case, divergence, runs, seed=0):
    """Run checks: normal quantiles of their p-values; beyond the level's is found."""
    federation, rng = case.federation(divergence), generator(case.name, seed)
    setting, found = case.setting, []
    for _ in range(runs):
        read = by_counts(setting, [case.draw(federation, rng)])
        surplus = read.quantiles(setting.threshold) - read.needed(setting.level)
        found.append(float(surplus[0]) + float(ndtri(setting.level)))
    return np.array(found)


def error_at(case: Case, divergence, runs, seed=0) -> float:
    """Root mean square distance of simulated estimates from the population's D_θ."""
    rng = generator(case.name, seed)
    law, federation = case.law(divergence), case.federation(divergence)
    truth = skewed_divergence(case.reference.probabilities, law, THETA)
    firsts = [case.draw(federation, rng) for _ in range(runs)]
    read = [posterior_ratios(first).cohort.value for first in firsts]
    return float(np.sqrt(np.mean((np.array(read) - truth) ** 2)))
