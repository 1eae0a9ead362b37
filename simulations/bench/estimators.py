"""Which estimator is nearest to the cohort's and to the population's D_θ, and how long each takes.

Run ``python simulations/bench/estimators.py [--out DIR] [--quick]``. Synthetic references over
65,536 symbols, a population at a known KL from each, 600 cells, discrete Laplace noise, θ = 0.01.
Three families of drift: ``lognormal``, ln r independent from symbol to symbol; ``rank``, a steeper
power law on the same ranks; ``bits``, mixtures of products of 16 coins whose odds have moved.
``paper`` answers for θ = 0 whatever it is asked. Writes ``estimators.csv`` (every
setting) and ``estimators.png``.
"""

from __future__ import annotations

import argparse
import csv
import time
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import product
from pathlib import Path

import measuring
import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.progress import track
from rich.table import Table

from flwr_kld._extras import require
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


@dataclass(frozen=True)
class Row:
    """Root mean square errors of one setting, by (estimator, target), in nats."""

    family: str
    kl: float
    records: int
    epsilon: float
    truth: dict[str, float]
    rmse: dict[tuple[str, str], float]


def study(repeats: int, kls: tuple[float, ...], epsilons: tuple[float, ...]) -> Iterator[Row]:
    """Yield every setting's errors over `repeats` cohorts, plans and (three) instances."""
    for family, kl in product(FAMILIES, kls):
        pairs = [pair(family, kl, number) for number in range(min(repeats, 3))]
        for records, epsilon in product(RECORDS, epsilons):
            truths, errors = [], []
            for seed in range(repeats):
                reference, population = pairs[seed % len(pairs)]
                plan = Partition(CELLS).draw(reference, np.random.default_rng(seed))
                got = release(plan, population, records, epsilon, seed)
                values = {n: e(got.counts, theta=THETA).value for n, e in _ESTIMATORS.items()}
                truths.append([got.truth[t] for t in TARGETS])
                errors.append([values[n] - got.truth[t] for n, t in product(_ESTIMATORS, TARGETS)])
            rmse = np.sqrt(np.square(errors).mean(axis=0))
            yield Row(
                family, kl, records, epsilon,
                dict(zip(TARGETS, np.mean(truths, axis=0), strict=True)),
                dict(zip(product(_ESTIMATORS, TARGETS), rmse, strict=True)),
            )  # fmt: skip


def pooled(rows: list[Row], name: str, target: str) -> float:
    """Root mean square of an estimator's errors over rows."""
    return float(np.sqrt(np.mean([row.rmse[name, target] ** 2 for row in rows])))


def show(rows: list[Row], target: str, console: Console) -> None:
    """Print errors pooled over epsilon, the least in bold, and who wins in how many settings."""
    table = Table(title=f"RMSE in nats against the {target} (θ = {THETA}, {CELLS} cells)")
    for heading in ("drift", "records", "KL", "truth", *_ESTIMATORS):
        table.add_column(heading, justify="right", overflow="fold")
    for family, records, kl in sorted({(r.family, r.records, r.kl) for r in rows}):
        here = [r for r in rows if (r.family, r.records, r.kl) == (family, records, kl)]
        errors = [pooled(here, name, target) for name in _ESTIMATORS]
        shown = [f"[bold]{e:.3f}[/]" if e == min(errors) else f"{e:.3f}" for e in errors]
        truth = np.mean([row.truth[target] for row in here])
        table.add_row(family, f"{records:,}", f"{kl:g}", f"{abs(truth):.3f}", *shown)
    table.add_section()
    overall = [f"{pooled(rows, name, target):.3f}" for name in _ESTIMATORS]
    table.add_row("all settings", "", "", "", *overall)
    best = [min((row.rmse[name, target], name) for name in _ESTIMATORS)[1] for row in rows]
    wins = [f"{best.count(name)} of {len(rows)}" for name in _ESTIMATORS]
    table.add_row("nearest in", "", "", "", *wins)
    console.print(table)


def show_speed(console: Console, repeats: int) -> None:
    """Print the best time of several runs, in milliseconds an estimate."""
    table = Table(title="milliseconds per estimate (20,000 records, ε = 1)")
    for heading in ("cells", *_ESTIMATORS):
        table.add_column(heading, justify="right")
    reference, population = pair("lognormal", 0.5, 0)
    for cells in (1000, DOMAIN.size):
        plan = Partition(cells).draw(reference, np.random.default_rng(0))
        counts = release(plan, population, 20_000, 1.0, 0).counts
        best = []
        for estimator in _ESTIMATORS.values():
            taken = []
            for _ in range(repeats):
                start = time.perf_counter()
                estimator(counts, theta=THETA)
                taken.append(time.perf_counter() - start)
            best.append(f"{1000 * min(taken):.1f}")
        table.add_row(f"{cells:,}", *best)
    console.print(table)


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


def save(rows: list[Row], out: Path) -> None:
    """Write every row to ``estimators.csv`` and the errors over KL to ``estimators.png``."""
    out.mkdir(parents=True, exist_ok=True)
    with (out / "estimators.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["family", "kl", "records", "epsilon", "target", "truth", *_ESTIMATORS])
        for row, target in product(rows, TARGETS):
            errors = [f"{row.rmse[name, target]:.5f}" for name in _ESTIMATORS]
            truth = f"{row.truth[target]:.5f}"
            writer.writerow([row.family, row.kl, row.records, row.epsilon, target, truth, *errors])
    figure = require("matplotlib.figure", extra="plots").Figure((11, 6.5), layout="constrained")
    panels = figure.subplots(len(TARGETS), len(FAMILIES), sharex=True, sharey="row")
    kls = sorted({row.kl for row in rows})
    for (i, target), (j, family) in product(enumerate(TARGETS), enumerate(FAMILIES)):
        axes = panels[i, j]
        for (k, name), records in product(enumerate(_ESTIMATORS), RECORDS):
            here = [[r for r in rows if (r.family, r.records, r.kl) == (family, records, kl)]
                    for kl in kls]  # fmt: skip
            axes.plot(
                range(len(kls)), [pooled(group, name, target) for group in here], color=f"C{k}",
                marker="o", linestyle="--" if records == max(RECORDS) else "-",
                label=f"{name}, N = {records:,}",
            )  # fmt: skip
        axes.set(yscale="log", title=f"{family}: against the {target}")
        axes.set_xticks(range(len(kls)), [f"{kl:g}" for kl in kls])
        axes.grid(axis="y", alpha=0.3)
        axes.spines[["top", "right"]].set_visible(False)
    for axes in panels[-1]:
        axes.set_xlabel("KL(Π ‖ P) of the population  [nats]")
    for axes in panels[:, 0]:
        axes.set_ylabel("RMSE  [nats]")
    handles, labels = panels[0, 0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=4, frameon=False)
    figure.savefig(out / "estimators.png", dpi=130)


def main() -> None:
    """Run the study."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--out", type=Path, default=Path("out/estimators"), help="folder to write")
    parser.add_argument("--quick", action="store_true", help="fewer settings and repeats")
    arguments = parser.parse_args()
    repeats = 2 if arguments.quick else 6
    kls, epsilons = ((0.0, 0.5), (1.0,)) if arguments.quick else (KLS, EPSILONS)

    console = Console()
    settings = len(FAMILIES) * len(kls) * len(RECORDS) * len(epsilons)
    steps = study(repeats, kls, epsilons)
    rows = list(track(steps, "estimating", total=settings, console=console))
    for target in TARGETS:
        show(rows, target, console)
    show_speed(console, 3 if arguments.quick else 10)
    save(rows, arguments.out)
    console.print(f"Saved estimators.csv and estimators.png in {arguments.out}")


if __name__ == "__main__":
    main()
