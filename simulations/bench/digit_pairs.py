"""Accuracy on real handwriting: every ordered pair of digits, one as reference, one as clients.

    python simulations/bench/digit_pairs.py --data writers.npz --out out/digit-pairs

Half of the writers give the reference Π of a digit, the other half are clients who write another
digit (or the same one). Trusted counts, replace-one, pure ε, every symbol of Π asked; the truth is
the exact D_0.01 of the cohort. --data is an ``.npz`` file, a LEAF folder, "femnist", or "digits":
virtual writers who redraw scikit-learn's.
"""

from __future__ import annotations

import argparse
import csv
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.progress import track
from rich.table import Table

from flwr_kld._extras import require
from flwr_kld.clients.handwriting import Handwriting
from flwr_kld.inference.divergence import skewed_divergence
from flwr_kld.inference.estimators.registry import ESTIMATORS, estimate
from flwr_kld.kernel.law import SeededBits
from flwr_kld.kernel.vector import ClearSum, ClientRows
from flwr_kld.papers.estimators import BASELINES
from flwr_kld.query.noisy import noisy
from flwr_kld.query.partition import Partition
from flwr_kld.reference import Reference
from flwr_kld.simulations.handwriting.resample import WriterResampler
from flwr_kld.simulations.handwriting.source import load_source
from flwr_kld.strategies import Trusted

EPSILONS = (0.05, 0.5, 1.0, 3.0)
THETA = 0.01
_ESTIMATORS = {**ESTIMATORS, **BASELINES}
_VIRTUAL_WRITERS, _VIRTUAL_RECORDS = 700, 100


def load(source: str) -> Handwriting:
    """Load a source; where it names no writers, make virtual ones."""
    data = load_source(source)
    if len(data.writers) > 1:
        return data
    resampler = WriterResampler(data, seed=1)
    parts = [resampler.writer(i, _VIRTUAL_RECORDS) for i in range(_VIRTUAL_WRITERS)]
    columns = (np.concatenate([getattr(p, c) for p in parts]) for c in ("images", "labels"))
    writer = np.repeat(np.arange(_VIRTUAL_WRITERS), _VIRTUAL_RECORDS)
    return Handwriting(*columns, writer, data.pixels, data.pages)


def histograms(data: Handwriting) -> NDArray[np.int64]:
    """Count each symbol for each digit, shape [10, size]."""
    domain = data.patterns()
    symbols = domain.encode(data.images)
    return np.stack(
        [np.bincount(symbols[data.labels == d], minlength=domain.size) for d in range(10)]
    )


def errors(data: Handwriting, splits: int) -> Iterator[dict[str, Any]]:
    """Yield a row for each split, pair of digits, ε and estimator."""
    for split in range(splits):
        reference_half, client_half = data.split_writers(split)
        past, now = histograms(reference_half), histograms(client_half)
        pairs = [(i, j) for i in range(10) for j in range(10)]
        for i, j in track(pairs, description=f"writer split {split + 1} of {splits}"):
            reference = Reference.from_counts(data.patterns(), past[i])
            plan = Partition(cells=data.patterns().size).draw(reference, np.random.default_rng(0))
            cohort = np.bincount(plan.cell_of, now[j], plan.cells).astype(np.int32)
            clear = ClearSum(plan.layout, ClientRows(cohort[None], plan.layout))
            truth = skewed_divergence(reference.probabilities, now[j], THETA)
            for epsilon in EPSILONS:
                bits = SeededBits(hash((split, i, j, epsilon)) % 2**32)
                published = noisy(Trusted(epsilon=epsilon).publish(clear, plan, bits), plan)
                for name, estimator in _ESTIMATORS.items():
                    reading = estimate(published, estimator=estimator, theta=THETA)
                    yield {
                        "split": split,
                        "reference_digit": i,
                        "client_digit": j,
                        "epsilon": epsilon,
                        "estimator": name,
                        "estimate": reading.value,
                        "truth": truth,
                        "privacy_sd": reading.error.privacy,
                        "records": int(cohort.sum()),
                        "cells": plan.cells,
                    }


def summarise(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """RMSE over the 90 pairs, bias over the 10 equal ones, and MSE against ``paper``'s."""
    summary = []
    for epsilon in EPSILONS:
        for name in _ESTIMATORS:
            chosen = [r for r in rows if r["epsilon"] == epsilon and r["estimator"] == name]
            equal = np.array([r["client_digit"] == r["reference_digit"] for r in chosen])
            error = np.array([r["estimate"] - r["truth"] for r in chosen])
            summary.append(
                {
                    "epsilon": epsilon,
                    "estimator": name,
                    "rmse_pairs": float(np.sqrt(np.mean(error[~equal] ** 2))),
                    "bias_equal": float(error[equal].mean()),
                    "rmse_equal": float(np.sqrt(np.mean(error[equal] ** 2))),
                }
            )
    paper = {s["epsilon"]: s["rmse_pairs"] for s in summary if s["estimator"] == "paper"}
    for s in summary:
        s["paper_mse_ratio"] = (paper[s["epsilon"]] / s["rmse_pairs"]) ** 2
    return summary


def plot(rows: list[dict[str, Any]], summary: list[dict[str, Any]], path: Path) -> None:
    """Draw RMSE against ε, and at ε = 1 the default's estimates against the truth."""
    figure = require("matplotlib.figure", extra="plots").Figure(
        figsize=(11, 4.5), layout="constrained"
    )
    left, right = figure.subplots(1, 2)
    for name in _ESTIMATORS:
        own = [s for s in summary if s["estimator"] == name]
        left.loglog([s["epsilon"] for s in own], [s["rmse_pairs"] for s in own], "o-", label=name)
    left.set(
        xlabel="ε [nats] for each check", ylabel="RMSE over 90 digit pairs [nats]",
        title="Error by privacy budget",
    )  # fmt: skip
    left.set_xticks(EPSILONS, [f"{e:g}" for e in EPSILONS])
    left.minorticks_off()
    left.grid(alpha=0.3)
    left.legend(frameon=False)
    own = [r for r in rows if r["epsilon"] == 1.0 and r["estimator"] == "posterior_counts"]
    same = np.array([r["client_digit"] == r["reference_digit"] for r in own])
    truth, value = (np.array([r[k] for r in own]) for k in ("truth", "estimate"))
    right.plot([0, truth.max()], [0, truth.max()], color="#8a8a8a", linewidth=1)
    right.plot(truth[~same], value[~same], ".", label="different digits")
    right.plot(truth[same], value[same], "s", markersize=4, label="same digit, other writers")
    right.set(
        xlabel="exact D₀.₀₁ of the cohort [nats]", ylabel="posterior_counts at ε = 1 [nats]",
        title="Estimate against truth",
    )  # fmt: skip
    right.legend(frameon=False)
    figure.savefig(path, dpi=130)


def main() -> None:
    """Run the study."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", default="digits", help=".npz file, LEAF folder, femnist, digits")
    parser.add_argument("--splits", type=int, default=5, help="random halves of the writers")
    parser.add_argument("--out", type=Path, default=Path("out/digit-pairs"))
    options = parser.parse_args()
    data = load(options.data)
    rows = list(errors(data, options.splits))
    summary = summarise(rows)
    table = Table(title=f"{len(data):,} digits, {options.splits} writer splits, D₀.₀₁ in nats")
    for name in (
        "ε",
        "estimator",
        "RMSE 90 pairs",
        "bias 10 equal",
        "RMSE 10 equal",
        "paper's MSE ÷",
    ):
        table.add_column(name, justify="right", no_wrap=name == "estimator")
    for s in summary:
        table.add_row(
            f"{s['epsilon']:g}", s["estimator"], f"{s['rmse_pairs']:.3f}",
            f"{s['bias_equal']:+.3f}", f"{s['rmse_equal']:.3f}", f"{s['paper_mse_ratio']:,.1f}",
        )  # fmt: skip
    Console().print(table)
    options.out.mkdir(parents=True, exist_ok=True)
    for name, content in (("runs.csv", rows), ("summary.csv", summary)):
        with (options.out / name).open("w", newline="") as file:
            writer = csv.DictWriter(file, fieldnames=list(content[0]))
            writer.writeheader()
            writer.writerows(content)
    plot(rows, summary, options.out / "digit-pairs.png")
    Console().print(f"written to {options.out}")


if __name__ == "__main__":
    main()
