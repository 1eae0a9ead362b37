"""Coverage and size of the upper limit of D_θ, and what a check without a drift can exclude.

    python simulations/studies/upper_limit.py --runs 500

Symbol-level truth; every run draws its own plan where symbols have to share cells. Clustered
clients have label fractions from Dirichlet(0.1 Π · symbols) of their own.
"""

from __future__ import annotations

import argparse
import csv
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.box import SIMPLE
from rich.console import Console
from rich.progress import track
from rich.table import Table

from flwr_kld._extras import require
from flwr_kld.calibration.central import calibrated_laplace
from flwr_kld.domain.labels import Labels
from flwr_kld.inference.divergence import skewed_divergence
from flwr_kld.inference.upper_limit import upper_limit
from flwr_kld.kernel import Guarantee
from flwr_kld.kernel.law import SeededBits
from flwr_kld.kernel.vector import ClearSum, ClientRows
from flwr_kld.query.noisy import NoisyCounts, noisy
from flwr_kld.query.partition import Partition
from flwr_kld.reference import Reference

THETA, LEVEL, CELLS = 0.01, 0.95, 1000
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Setting:
    """One line of the table; `clients` is 0 for independent records."""

    symbols: int
    slope: float
    drift: str
    records: int
    epsilon: float
    clients: int = 0

    @property
    def name(self) -> str:
        """What is special about it."""
        kind = f"Zipf {self.slope:g}" if self.slope else "even"
        clients = f", {self.clients} clients" if self.clients else ""
        size = f"{self.symbols:,} {kind}, N={self.records:,}"
        return f"{size}, ε={self.epsilon:g}{clients}: {self.drift}"

    def laws(self) -> tuple[Floats, Floats]:
        """Return Π and P over symbols."""
        rank = np.arange(self.symbols)
        p = (rank + 1.0) ** -self.slope
        p /= p.sum()
        rng = np.random.default_rng(1)
        q = {
            "none": p,
            "vanished": np.where(rng.random(len(p)) < 0.1, 0, p),
            "rare ones vanished": np.where(np.cumsum(p) > 0.95, 0, p),
            "one vanished": np.where(rank == len(p) // 2, 0, p),
            "one new": 0.9 * p + 0.1 * (rank == len(p) - 1),
            "tilted": p * np.exp(0.5 * np.linspace(-1, 1, len(p))),
            "alternating": p * np.where(rank % 2, 1.5, 0.5),
            "one column": p * np.where(rank // 4 % 4 % 2, 1.9, 0.1),
            "spread": p * np.exp(0.3 * rng.standard_normal(len(p))),
        }[self.drift]
        law: Floats = np.asarray(q / q.sum(), dtype=np.float64)
        return np.asarray(p, dtype=np.float64), law


def settings() -> Iterator[Setting]:
    """List all settings."""
    drifts = (
        "none", "vanished", "rare ones vanished", "one vanished", "one new", "tilted",
        "alternating", "one column", "spread",
    )  # fmt: skip
    for drift in drifts:
        yield Setting(20, 1.0, drift, 2_000, 1.0)
        yield Setting(1_000, 1.0, drift, 20_000, 1.0)
        yield Setting(4_096, 0.0, drift, 1_000_000, 1.0)
    for drift in ("one vanished", "alternating"):
        yield Setting(2, 0.5, drift, 1_000, 0.3)
        yield Setting(100, 0.5, drift, 3_000, 0.1)
        yield Setting(100, 0.5, drift, 3_000, 5.0)
        yield Setting(100_000, 1.0, drift, 1_000_000, 1.0)
    for drift in ("none", "vanished", "spread"):
        yield Setting(20, 1.0, drift, 20_000, 1.0, clients=400)


def counts_of(
    setting: Setting, q: Floats, rng: np.random.Generator
) -> tuple[NDArray[np.int64], float]:
    """Draw counts over cells of law q, and say their design effect."""
    if not setting.clients:
        return rng.multinomial(setting.records, q), 1.0
    each, alike = setting.records // setting.clients, 0.1 * setting.symbols
    shares = rng.gamma(np.maximum(alike * q, 1e-12), size=(setting.clients, len(q)))
    shares /= shares.sum(axis=1, keepdims=True)
    return rng.multinomial(each, shares).sum(axis=0), 1 + (each - 1) / (alike + 1)


Row = dict[str, Any]


def row(setting: Setting, runs: int) -> Row:
    """Try one setting."""
    rng = np.random.default_rng(zlib.crc32(setting.name.encode()))
    p, q = setting.laws()
    reference = Reference.from_counts(Labels(list(range(len(p)))), p)
    truth = skewed_divergence(p, q, THETA)
    event = calibrated_laplace(Guarantee(setting.epsilon))
    plan, found = None, []
    for run in range(runs):
        if plan is None or (setting.symbols > CELLS and run % 5 == 0):
            plan = Partition(CELLS).draw(reference, rng)
        law = np.bincount(plan.cell_of[: len(q)], q, plan.cells)
        counts, effect = counts_of(setting, law / law.sum(), rng)
        clear = ClearSum(plan.layout, ClientRows(counts[None].astype(np.int32), plan.layout))
        told = noisy(clear.release(event, SeededBits(int(rng.integers(2**62)))), plan)
        if not isinstance(told, NoisyCounts):
            raise TypeError("an upper limit needs counts")
        found.append(upper_limit(told, theta=THETA, level=LEVEL, design_effect=effect))
    values = np.array([one.value for one in found])
    return {
        "setting": setting.name,
        "truth": max(truth, 0.0),
        "covers": float(np.mean(values >= truth)),
        "limit": float(values.mean()),
        "excess": float(np.mean([one.excess for one in found])),
        "runs": runs,
    }


def show(rows: list[Row], out: Path) -> None:
    """Print the table; write it, and its plot."""
    table = Table(title="upper limit of D_θ", box=SIMPLE)
    for name in rows[0]:
        table.add_column(name, justify="left" if name == "setting" else "right")
    for one in rows:
        table.add_row(*[f"{v:.4g}" if isinstance(v, float) else str(v) for v in one.values()])
    Console().print(table)
    with (out / "upper_limit.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, fieldnames=list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    figure = require("matplotlib.figure", extra="plots").Figure((9, 9), layout="constrained")
    ax, place = figure.subplots(), np.arange(len(rows))[::-1]
    ax.plot([one["truth"] for one in rows], place, "o", color="C0", label="D_θ")
    ax.plot([one["limit"] for one in rows], place, "|", color="C1", markersize=9, label="limit")
    ax.set_yticks(
        place, [f"{one['setting']} ({100 * one['covers']:.0f} %)" for one in rows], fontsize=7
    )
    ax.set(xlabel="nats", title="mean limit (fraction of runs in which it is above D_θ)")
    ax.set_xscale("symlog", linthresh=0.05)
    ax.legend(frameon=False)
    figure.savefig(out / "upper_limit.png", dpi=130)


def main() -> None:
    """Run the study."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--runs", type=int, default=500, help="in each setting")
    parser.add_argument("--out", type=Path, default=Path("out/upper_limit"), help="folder to write")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    show([row(s, options.runs) for s in track(list(settings()), "upper limit")], options.out)


if __name__ == "__main__":
    main()
