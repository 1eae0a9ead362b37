"""One task: a cohort, its queries and its noise, and what every rule reads from them."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache

import numpy as np

from flwr_kld.inference.divergence import skewed_divergence
from flwr_kld.inference.estimators.posterior_ratios import posterior_ratios
from flwr_kld.kernel.law import BitSource, SeededBits, sample
from flwr_kld.kernel.release import Release
from flwr_kld.query.noisy import NoisyCounts
from flwr_kld.query.partition import Partition
from flwr_kld.query.plan import QueryPlan
from flwr_kld.simulations.studies.priest_kld.rules import (
    Floats,
    Rule,
    noised,
    paper_rule,
    scalar_rule,
)
from flwr_kld.simulations.studies.priest_kld.settings import THETA, Pair
from flwr_kld.simulations.studies.priest_kld.written import Integers, Written
from flwr_kld.simulations.studies.resumable import Arrays, Configuration, seed_of
from flwr_kld.trust.distributed import Distributed
from flwr_kld.trust.trusted import Trusted

SURVIVORS = 0.8
"""Fraction of a cohort whose noise shares suffice in the distributed model; all of it survives."""
_FEWEST_CELLS = 16


def measure(written: Written, task: Configuration) -> Arrays:
    """Return estimates in nats, under ``rule/trust``, of shape [epsilons, lambdas, pairs]."""
    digits, draws = task["digits"], task["draws"]
    pairs = [(i, j) for i in digits for j in digits if i != j]
    rng = np.random.default_rng(seed_of(task, "cohort and queries"))
    bits = SeededBits(seed_of(task, "noise"))
    cohort = written.cohort(rng.permutation(written.writers)[: task["clients"]])
    found = _one_number(written, cohort, pairs, task, rng, bits)
    plans = {
        i: Partition(max(draws, _FEWEST_CELLS)).draw(written.reference(i), rng) for i in digits
    }
    found |= _defaults(written, cohort, pairs, plans, task, bits)
    return {name: values.astype(np.float32) for name, values in found.items()}


def _one_number(
    written: Written,
    cohort: Integers,
    pairs: list[Pair],
    task: Configuration,
    rng: np.random.Generator,
    bits: BitSource,
) -> dict[str, Floats]:
    """Estimate by the paper's rule under three trust models, and by the scalar rule."""
    lambdas = np.array(task["lambdas"])
    asked = [_asked(rng.multinomial(task["draws"], written.laws[i])) for i, _ in pairs]
    records = cohort.sum(axis=1)

    def rules(
        rule: Callable[[Floats, int, Floats, Floats], Rule], counts: list[Floats]
    ) -> list[Rule]:
        return [
            rule(h, int(records[j]), written.laws[i][symbols], weight)
            for (i, j), (symbols, weight), h in zip(pairs, asked, counts, strict=True)
        ]

    counts = [cohort[j][symbols] for (_, j), (symbols, _) in zip(pairs, asked, strict=True)]
    paper, scalar = rules(paper_rule, counts), rules(scalar_rule, counts)
    found: dict[str, list[Floats]] = {
        name: [] for name in ("paper/trusted", "paper/aggregator", "paper/distributed",
                              "scalar/central")
    }  # fmt: skip
    exact = {name: _stacked([rule.at(lambdas) for rule in of])
             for name, of in (("paper", paper), ("scalar", scalar))}  # fmt: skip
    moves = {name: _stacked([rule.sensitivity(lambdas) for rule in of])
             for name, of in (("paper", paper), ("scalar", scalar))}  # fmt: skip
    logarithm, linear = (
        np.array([getattr(rule, name) for rule in paper]) for name in ("logarithm", "linear")
    )
    log_moves = np.array([rule.sensitivity(np.zeros(1))[0] for rule in paper])
    linear_moves = np.array([rule.linear_sensitivity for rule in paper])
    ends = np.cumsum([len(h) for h in counts])
    for epsilon in task["epsilons"]:
        found["paper/trusted"].append(noised(exact["paper"], moves["paper"], epsilon, rng))
        found["scalar/central"].append(noised(exact["scalar"], moves["scalar"], epsilon, rng))
        # Algorithm 2 shares two numbers: half of ε each.
        b = noised(logarithm, log_moves, epsilon / 2, rng)
        a = noised(linear, linear_moves, epsilon / 2, rng)
        found["paper/aggregator"].append(lambdas[:, None] * a - b)
        table = distributed_event(epsilon, task["clients"]).table
        noise = np.split(sample(table, int(ends[-1]), bits), ends[:-1])
        noisy = rules(paper_rule, [h + z for h, z in zip(counts, noise, strict=True)])
        found["paper/distributed"].append(_stacked([rule.at(lambdas) for rule in noisy]))
    return {
        "paper/none": exact["paper"],
        "scalar/none": exact["scalar"],
        **{name: np.stack(values) for name, values in found.items()},
    }


def _defaults(
    written: Written,
    cohort: Integers,
    pairs: list[Pair],
    plans: dict[int, QueryPlan],
    task: Configuration,
    bits: BitSource,
) -> dict[str, Floats]:
    """Noised counts of a partition, and the default estimator."""
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

    epsilons = task["epsilons"]
    return {
        "default/none": truths(written, cohort, pairs),
        "default/central": np.array(
            [read(Trusted(epsilon).event(task["clients"])) for epsilon in epsilons]
        ),
        "default/distributed": np.array(
            [read(distributed_event(epsilon, task["clients"])) for epsilon in epsilons]
        ),
    }


@lru_cache(maxsize=64)
def distributed_event(epsilon: float, clients: int) -> Release:
    """Return the sum of all clients' noise shares."""
    return Distributed(epsilon, max(math.ceil(SURVIVORS * clients), 2)).event(clients)


def truths(written: Written, counts: Integers, pairs: list[Pair]) -> Floats:
    """Exact D_θ of each pair for clients with these counts, shape [pairs]."""
    return np.array([skewed_divergence(written.laws[i], counts[j], THETA) for i, j in pairs])


def _asked(times: Integers) -> tuple[Integers, Floats]:
    """Return queried symbols and their weights, from how often each was drawn."""
    symbols = np.flatnonzero(times)
    return symbols, times[symbols] / times.sum()


def _stacked(by_pair: list[Floats]) -> Floats:
    """Shape [lambdas, pairs]."""
    return np.stack(by_pair, axis=1)
