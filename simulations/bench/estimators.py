"""Which estimator is nearest to the cohort's and to the population's D_θ, and how long each takes.

Run ``python simulations/bench/estimators.py [--out DIR] [--quick]``. Synthetic references over
65,536 symbols, a population at a known KL from each, 600 cells, discrete Laplace noise, θ = 0.01.
Three families of drift: ``lognormal``, ln r independent from symbol to symbol; ``rank``, a steeper
power law on the same ranks; ``bits``, mixtures of products of 16 coins whose odds have moved.
``paper`` answers for θ = 0 whatever it is asked. Writes ``estimators.csv`` and ``.json``. Speed is
measured by ``run.py --only estimators``.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import product

import measuring
import numpy as np
from numpy.typing import NDArray
from rich.progress import track

from flwr_kld.calibration.central import calibrated_laplace
from flwr_kld.domain.block_patterns import BlockPatterns
from flwr_kld.inference.divergence import skewed_divergence
from flwr_kld.inference.estimators.registry import ESTIMATORS
from flwr_kld.kernel import Guarantee
from flwr_kld.kernel.law import SeededBits
from flwr_kld.kernel.vector import ClearSum, ClientRows
from flwr_kld.papers.estimators import BASELINES
from flwr_kld.query.noisy import NoisyCounts, noisy
from flwr_kld.query.partition import Partition
from flwr_kld.query.plan import QueryPlan
from flwr_kld.reference import Reference
from flwr_kld.search import edge
from flwr_kld.simulations.studies.runner import Row, plain_parser, save, show

THETA, CELLS = 0.01, 600
_ESTIMATORS = {**ESTIMATORS, **BASELINES}
DOMAIN = BlockPatterns()
KLS, RECORDS, EPSILONS = (0.0, 0.1, 0.5, 2.0, 5.0), (20_000, 350_000), (0.5, 1.0, 3.0)
TARGETS = ("population", "cohort")
Law = NDArray[np.float64]
Family = Callable[[np.random.Generator], Callable[[float], Law]]
"""Draws an instance, which maps an amount of drift to P; amount 0 is Π."""


def lognormal(rng: np.random.Generator) -> Callable[[float], Law]:
    """Zipf's law, each mass times an independent lognormal factor."""
    zipf, wobble = 1 / np.arange(1, DOMAIN.size + 1), rng.standard_normal(DOMAIN.size)
    return lambda amount: _normalised(zipf * np.exp(amount * wobble))


def rank(rng: np.random.Generator) -> Callable[[float], Law]:
    """Zipf's law, its exponent raised by the amount."""
    del rng
    ranks = np.arange(1.0, DOMAIN.size + 1)
    return lambda amount: _normalised(ranks ** -(1 + amount))


def bits(rng: np.random.Generator) -> Callable[[float], Law]:
    """Six products of 16 coins, mixed with 1 % of the uniform law; log-odds move by the amount."""
    heads = (np.arange(DOMAIN.size)[:, None] >> np.arange(16)) & 1
    odds, moves = rng.normal(0, 2.5, (6, 16)), rng.standard_normal((6, 16))
    shares = rng.dirichlet(np.full(6, 3.0))

    def law(amount: float) -> Law:
        logits = odds + amount * moves
        products = np.exp(heads @ logits.T - np.logaddexp(0, logits).sum(axis=1))
        return 0.99 * _normalised(products @ shares) + 0.01 / DOMAIN.size

    return law


FAMILIES: dict[str, Family] = {"lognormal": lognormal, "rank": rank, "bits": bits}


def _normalised(mass: Law) -> Law:
    law: Law = mass / mass.sum()
    return law


def pair(family: str, kl: float, number: int) -> tuple[Reference, Law]:
    """Π and a population P with ``KL(Π || P) = kl``, the same for every run of this number."""
    law = FAMILIES[family](np.random.default_rng(zlib.crc32(f"{family} {number}".encode())))

    def nearer(amount: float) -> bool:
        with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
            return skewed_divergence(law(0.0), np.nan_to_num(law(amount)), 0.0) < kl

    amount = edge(nearer, 0.0, 30.0, within=1e-12) if kl else 0.0
    return Reference(DOMAIN, law(0.0)), law(amount)


def release(plan: QueryPlan, population: Law, records: int, epsilon: float, seed: int) -> Released:
    """Draw a cohort and release its counts the way a check does."""
    cohort = np.random.default_rng(seed).multinomial(records, population)
    counts = np.bincount(plan.cell_of, cohort, plan.cells).astype(np.int32)
    clear = ClearSum(plan.layout, ClientRows(counts[None], plan.layout))
    event = calibrated_laplace(Guarantee(epsilon))
    return Released(
        noisy(clear.release(event, SeededBits(seed)), plan),
        {
            name: skewed_divergence(plan.reference.probabilities, other, THETA)
            for name, other in (("population", population), ("cohort", cohort))
        },
    )


@dataclass(frozen=True)
class Released:
    """Public counts, and the two numbers that they may be held against, in nats."""

    counts: NoisyCounts
    truth: dict[str, float]


def study(repeats: int, kls: tuple[float, ...], epsilons: tuple[float, ...]) -> Iterator[Row]:
    """Yield every setting's errors over `repeats` cohorts, plans and (three) instances, in nats."""
    for family, kl in product(FAMILIES, kls):
        pairs = [pair(family, kl, number) for number in range(min(repeats, 3))]
        for records, epsilon in product(RECORDS, epsilons):
            got = []
            for seed in range(repeats):
                reference, population = pairs[seed % len(pairs)]
                plan = Partition(CELLS).draw(reference, np.random.default_rng(seed))
                got.append(release(plan, population, records, epsilon, seed))
            values = {
                name: np.array([estimator(one.counts, theta=THETA).value for one in got])
                for name, estimator in _ESTIMATORS.items()
            }
            for target in TARGETS:
                truth = np.array([one.truth[target] for one in got])
                setting = {"drift": family, "KL": kl, "records": records, "epsilon": epsilon}
                yield setting | {"target": target, "truth": float(truth.mean())} | {
                    name: float(np.sqrt(np.mean((read - truth) ** 2)))
                    for name, read in values.items()
                }  # fmt: skip


def nearest(rows: list[Row]) -> list[Row]:
    """Error over all settings, and in how many of them each estimator is nearest."""
    found = []
    for name, target in product(_ESTIMATORS, TARGETS):
        own = [row for row in rows if row["target"] == target]
        wins = sum(row[name] == min(row[n] for n in _ESTIMATORS) for row in own)
        rmse = float(np.sqrt(np.mean([row[name] ** 2 for row in own])))
        settings = {"settings": len(own), "nearest_in": wins}
        found.append({"estimator": name, "target": target, "rmse": rmse, **settings})
    return found


def rows(repeats: int = 5, *, quick: bool = False) -> Iterator[measuring.Row]:
    """Time the default estimator."""
    reference, population = pair("lognormal", 0.5, 0)
    for cells in (1000,) if quick else (1000, 8000, DOMAIN.size):
        plan = Partition(cells).draw(reference, np.random.default_rng(0))
        counts = release(plan, population, 20_000, 1.0, 0).counts
        once = measuring.cpu(lambda c=counts: _ESTIMATORS["posterior_counts"](c, theta=THETA))
        yield measuring.measured(
            "estimate", "posterior_counts, by cells", once, repeats=repeats, size=cells
        )


def main() -> None:
    """Run the study."""
    parser = plain_parser(__doc__, out="estimators")
    parser.add_argument("--quick", action="store_true", help="fewer settings and repeats")
    chosen = parser.parse_args()
    repeats = 2 if chosen.quick else 6
    kls, epsilons = ((0.0, 0.5), (1.0,)) if chosen.quick else (KLS, EPSILONS)
    settings = len(FAMILIES) * len(kls) * len(RECORDS) * len(epsilons) * len(TARGETS)
    rows_of = list(track(study(repeats, kls, epsilons), "estimating", total=settings))
    show(f"RMSE in nats (θ = {THETA}, {CELLS} cells)", rows_of)
    show("all settings", nearest(rows_of))
    save(rows_of, chosen.out, "estimators", {"nearest": nearest(rows_of)})


if __name__ == "__main__":
    main()
