"""One task: a cohort, its queries and its noise, and what every rule reads from them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from flwr_kld.ask.noisy import NoisyCounts
from flwr_kld.ask.partition import Partition
from flwr_kld.infer.divergence import skewed_divergence
from flwr_kld.infer.estimators.posterior_ratios import posterior_ratios
from flwr_kld.kernel.law import BitSource, SeededBits, sample
from flwr_kld.kernel.release import Release
from flwr_kld.simulations.studies.priest_kld.rules import (
    Floats,
    clipped,
    noised,
    paper_rule,
    scalar_rule,
)
from flwr_kld.simulations.studies.priest_kld.settings import FROM_COUNTS, OURS, THETA, Pair
from flwr_kld.simulations.studies.priest_kld.written import Integers, Written
from flwr_kld.simulations.studies.resumable import Arrays, Configuration, seed_of
from flwr_kld.trust.distributed import Distributed
from flwr_kld.trust.trusted import Trusted

SURVIVORS = 0.8
"""Fraction of a cohort whose noise shares suffice in the distributed model; all of it survives."""
_FEWEST_CELLS = 16


def measure(written: Written, task: Configuration) -> Arrays:
    """Return estimates in nats, of shape [epsilons, parameters, pairs].

    Parameters are values of λ, under ``taus/…`` all pairs of a τ and a λ.
    """
    pairs = [(i, j) for i in task["digits"] for j in task["digits"] if i != j]
    whom = np.random.default_rng(seed_of({**task, "part": ""}, "cohort"))
    rng = np.random.default_rng(seed_of(task, "queries"))
    bits = SeededBits(seed_of(task, "noise"))
    if task["anew"]:
        found = _from_counts(_anew(written, pairs, task, whom), task, rng, bits)
    else:
        cohort = written.cohort(whom.permutation(written.writers)[: task["clients"]])
        if task["part"] == OURS:
            found = _defaults(written, cohort, pairs, task, rng, bits)
        else:
            queries = _asked(written, cohort, pairs, task["draws"], rng)
            if task["part"] == FROM_COUNTS:
                found = _from_counts(queries, task, rng, bits)
            else:
                found = _one_number(queries, task, rng)
    return {name: values.astype(np.float32) for name, values in found.items()}


class Queries(NamedTuple):
    """What was asked of one pair, and the counts."""

    counts: Floats
    records: Any  # N: one number, or one for each query
    pi: Floats
    weight: Floats


def _asked(
    written: Written, cohort: Integers, pairs: list[Pair], draws: int, rng: np.random.Generator
) -> list[Queries]:
    """Draw T symbols for each pair, and ask a cohort for each of them once."""
    queries = []
    for i, j in pairs:
        times = rng.multinomial(draws, written.laws[i])
        symbols = np.flatnonzero(times)
        pi, weight = written.laws[i][symbols], times[symbols] / draws
        queries.append(Queries(cohort[j][symbols], int(cohort[j].sum()), pi, weight))
    return queries


def _one_number(
    queries: list[Queries], task: Configuration, rng: np.random.Generator
) -> dict[str, Floats]:
    """Release one number of the paper's rule, two of it, and one of the scalar rule."""
    lambdas, delta = np.array(task["lambdas"]), task["delta"]
    paper = [paper_rule(*query) for query in queries]
    scalar = [scalar_rule(*query) for query in queries]
    exact = {name: _stacked([rule.at(lambdas) for rule in of])
             for name, of in (("paper", paper), ("scalar", scalar))}  # fmt: skip
    moves = {name: _stacked([rule.sensitivity(lambdas) for rule in of])
             for name, of in (("paper", paper), ("scalar", scalar))}  # fmt: skip
    logarithm, linear = (
        np.array([getattr(rule, name) for rule in paper]) for name in ("logarithm", "linear")
    )
    log_moves = np.array([rule.sensitivity(np.zeros(1))[0] for rule in paper])
    linear_moves = np.array([rule.linear_sensitivity for rule in paper])
    found: dict[str, list[Floats]] = {
        name: [] for name in ("paper/trusted", "paper/aggregator", "scalar/central")
    }
    for epsilon in task["epsilons"]:
        found["paper/trusted"].append(noised(exact["paper"], moves["paper"], epsilon, delta, rng))
        found["scalar/central"].append(
            noised(exact["scalar"], moves["scalar"], epsilon, delta, rng)
        )
        # Algorithm 2 shares two numbers: half of ε, and of δ, each.
        b = noised(logarithm, log_moves, epsilon / 2, delta / 2, rng)
        a = noised(linear, linear_moves, epsilon / 2, delta / 2, rng)
        found["paper/aggregator"].append(lambdas[:, None] * a - b)
    return {
        "scalar/none": exact["scalar"],
        **{name: np.stack(values) for name, values in found.items()},
    }


def _from_counts(
    queries: list[Queries], task: Configuration, rng: np.random.Generator, bits: BitSource
) -> dict[str, Floats]:
    """Estimate by Algorithm 3: from counts with noise, whole and with a dither of U(-½, ½).

    A logarithm cannot bear the exact zeros that noise in whole numbers leaves. The dither is
    post-processing, which costs nothing.
    """
    lambdas, taus = np.array(task["lambdas"]), task["taus"]
    ends = np.cumsum([len(query.counts) for query in queries])

    def read(noise: Floats, taus: Sequence[float]) -> Floats:
        by_pair = []
        for query, own in zip(queries, np.split(noise, ends[:-1]), strict=True):
            parts = (
                clipped(query.counts + own, query.records, query.pi, query.weight, tau)
                for tau in taus
            )
            by_pair.append(np.concatenate([lambdas * linear - log for linear, log in parts]))
        return _stacked(by_pair)

    whole, dithered = [], []
    for epsilon in task["epsilons"]:
        table = distributed_event(epsilon, task["clients"], task["delta"]).table
        noise = sample(table, int(ends[-1]), bits).astype(np.float64)
        whole.append(read(noise, taus[:1]))
        dithered.append(read(noise + rng.uniform(-0.5, 0.5, len(noise)), taus))
    return {
        "taus/none": read(np.zeros(int(ends[-1])), taus),
        "paper/distributed": np.stack(whole),
        "taus/distributed": np.stack(dithered),
    }


def _anew(
    written: Written, pairs: list[Pair], task: Configuration, rng: np.random.Generator
) -> list[Queries]:
    """Ask a cohort of its own for each draw, as Algorithm 3 is printed.

    One record may then be in the answers to many draws of its symbol, each with noise for one:
    Theorem 4.11 takes all answers for one histogram, so its proof does not cover this.
    """
    draws = task["draws"]
    asked = np.zeros((draws, written.writers), dtype=bool)
    for cohort in asked:
        cohort[rng.permutation(written.writers)[: task["clients"]]] = True
    records = asked @ written.records_by_writer.astype(np.float64)  # [T, 10]
    queries = []
    for i, j in pairs:
        symbols = rng.choice(np.arange(len(written.occurring)), draws, p=written.laws[i])
        query, writer = written.wrote(j, symbols)
        counts = np.bincount(query, asked[query, writer], draws).astype(np.float64)
        pi, every = written.laws[i][symbols], np.full(draws, 1 / draws)
        queries.append(Queries(counts, records[:, j], pi, every))
    return queries


def _defaults(
    written: Written,
    cohort: Integers,
    pairs: list[Pair],
    task: Configuration,
    rng: np.random.Generator,
    bits: BitSource,
) -> dict[str, Floats]:
    """Noised counts of a partition, and the default estimator."""
    cells = max(task["draws"], _FEWEST_CELLS)
    plans = {i: Partition(cells).draw(written.reference(i), rng) for i in task["digits"]}
    counts = [
        np.bincount(plans[i].cell_of[written.occurring], cohort[j], plans[i].cells).astype(np.int64)
        for i, j in pairs
    ]
    ends = np.cumsum([len(h) for h in counts])

    def read(event: Release) -> list[float]:
        noise = np.split(sample(event.table, int(ends[-1]), bits), ends[:-1])
        return [
            posterior_ratios(
                NoisyCounts(h + z, float(h.sum()), event, plans[i], bits.private)
            ).cohort.value
            for (i, _), h, z in zip(pairs, counts, noise, strict=True)
        ]

    epsilons, delta = task["epsilons"], task["delta"]
    return {
        "default/none": truths(written, cohort, pairs),
        "default/central": np.array(
            [read(Trusted(epsilon, delta).event(task["clients"])) for epsilon in epsilons]
        ),
        "default/distributed": np.array(
            [read(distributed_event(epsilon, task["clients"], delta)) for epsilon in epsilons]
        ),
    }


@lru_cache(maxsize=64)
def distributed_event(epsilon: float, clients: int, delta: float) -> Release:
    """Return the sum of all clients' noise shares."""
    least = max(math.ceil(SURVIVORS * clients), 2)
    return Distributed(epsilon, least, delta or Distributed.delta).event(clients)


def truths(written: Written, counts: Integers, pairs: list[Pair]) -> Floats:
    """Exact D_θ of each pair for clients with these counts, shape [pairs]."""
    return np.array([skewed_divergence(written.laws[i], counts[j], THETA) for i, j in pairs])


def _stacked(by_pair: list[Floats]) -> Floats:
    """Shape [lambdas, pairs]."""
    return np.stack(by_pair, axis=1)
