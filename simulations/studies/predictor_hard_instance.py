"""The paper's hardest class as a benchmark, and hypothesis selection by online-to-batch.

Run ``python simulations/studies/predictor_hard_instance.py [--quick] [--out DIR]``.
Theorem 3's class is 2K laws on N labels from rows of a Hadamard matrix: K pairs that differ by so
little that T reports can hardly tell which of a pair is true. Measured risks, averaged over the
true law, stand beside two lower bounds for anything that is epsilon-private: the paper's T a / 132,
and the same argument with its constants kept (`lower_bound`), about twenty times higher.

The second part selects one of K laws at total variation alpha from each other (section 6): the
average of a predictor's predictions is an estimate, and so is its last prediction.

Writes ``predictor_hard_instance.csv`` and ``predictor_selection.csv``.
"""

from __future__ import annotations

import argparse
import csv
import math
from collections.abc import Callable
from dataclasses import astuple, dataclass, fields
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.progress import track
from rich.table import Table
from scipy.linalg import hadamard

from flwr_kld.predictors import BayesMixture, LocallyPrivateWMA, PureLocalEXP3
from flwr_kld.predictors.risk_bound import kl_risk_bound
from flwr_kld.simulations.studies.predictor_learners import (
    AdaHedge,
    Floats,
    Learner,
    Mixture,
    Scores,
    hypotheses_of,
    run,
)

EPSILON, HORIZON, PAIRS = 1.0, 100_000, (31, 127)
LEARNERS = (
    "default",
    "design",
    "ovr",
    "hadamard",
    "k-rr",
    "adahedge",
    "algorithm 2",
    "algorithm 1",
)
DELTA = 1e-6
DISTANCES, SELECTED, HORIZONS = (0.4, 0.2, 0.1), 31, (1_000, 10_000, 100_000)
SELECTORS = ("default", "hadamard", "algorithm 2")
_STEPS = 200


def gap_of(pairs: int) -> float:
    """Return the paper's a (eq. 16): how far the laws of a pair are apart."""
    least = min(math.expm1(EPSILON) ** 2, 1.0) * math.exp(EPSILON)
    return math.sqrt(pairs / (9 * HORIZON * least))


def hard_class(pairs: int) -> Floats:
    """Theorem 3's 2K laws (eq. 16), shape [2K, N]; pair i is in rows 2i and 2i + 1."""
    labels = 1 << pairs.bit_length()
    signs = hadamard(labels)[1 : pairs + 1]
    first = np.where(signs < 0, 2 / labels, 0.0)
    return np.stack([first, first + signs * gap_of(pairs) / labels], axis=1).reshape(-1, labels)


def lower_bound(pairs: int) -> float:
    """Cumulative risk that no epsilon-private predictor can beat on average over the class, nats.

    Le Cam's two points with the paper's Parseval argument, all constants kept: a genie names the
    pair; the Bayes risk of the rest after t reports is at least ``JS (1 - TV_t)`` by concavity of
    mutual information; ``TV_t <= √(t KL / 2)``, and the KL of a report is at most
    ``a² (e**(ε/2) - 1)² / K`` on average over pairs (the paper has ``a² min(…) e**ε / 2K``).
    """
    a = gap_of(pairs)
    jensen_shannon = (
        0.5 * math.log(2 / (2 - a / 2))
        + 0.25 * a * math.log(2)
        + 0.5 * (1 - a / 2) * math.log((2 - a) / (2 - a / 2))
    )
    seen = HORIZON * a**2 * math.expm1(EPSILON / 2) ** 2 / pairs
    return HORIZON * jensen_shannon * (1 - 2 / 3 * math.sqrt(seen / 2))


def perturbed(hypotheses: int, distance: float) -> Floats:
    """Laws ``(1 + 2 alpha h_i) / N``: any two are `distance` apart in total variation."""
    labels = 1 << hypotheses.bit_length()
    return np.asarray((1 + 2 * distance * hadamard(labels)[1 : hypotheses + 1]) / labels)


def learner_of(
    method: str,
    table: Floats,
    true: int,
    horizon: int,
    rng: np.random.Generator,
    epsilon: float = EPSILON,
) -> Learner:
    """Set up a learner by its name."""
    hypotheses = hypotheses_of(table)
    k, law = len(table), table[true]
    special: dict[str, Callable[[], Learner]] = {
        "adahedge": lambda: AdaHedge(hypotheses.at(), true, epsilon, 1.0, rng),
        "algorithm 2": lambda: Scores(
            PureLocalEXP3(hypotheses, epsilon, horizon=horizon), law, k, rng
        ),
        "algorithm 1": lambda: Scores(
            LocallyPrivateWMA(hypotheses, epsilon, delta=DELTA, horizon=horizon), law, 1, rng
        ),
    }
    if method in special:
        return special[method]()
    return Mixture(BayesMixture(hypotheses, epsilon, design=method, share=0.0), true, rng)


@dataclass(frozen=True)
class Risk:
    """One run on the hard class."""

    hypotheses: int
    method: str
    repeat: int
    risk: float
    mean_tv: float


@dataclass(frozen=True)
class Selection:
    """One run of hypothesis selection: distances of two estimates from the truth."""

    distance: float
    method: str
    horizon: int
    repeat: int
    average: float
    last: float
    correct: bool


def select(method: str, distance: float, repeat: int, horizon: int) -> Selection:
    """Estimate the true law by the average of the predictions, and by the last one."""
    rng = np.random.default_rng([repeat, horizon, int(1000 * distance)])
    table = perturbed(SELECTED, distance)
    true = int(rng.integers(SELECTED))
    learner = learner_of(method, table, true, horizon, rng)
    total, at = np.zeros(table.shape[1]), np.linspace(0, horizon, _STEPS + 1).astype(int)
    for now, then in pairwise(at):
        total += (then - now) * learner.predict()
        learner.learn(int(then - now))
    last = learner.predict()

    def far(estimate: Floats) -> float:
        return float(np.maximum(table[true] - estimate, 0).sum())

    nearest = int(np.argmin(np.abs(table - last).sum(axis=1)))
    return Selection(
        distance, method, horizon, repeat, far(total / horizon), far(last), nearest == true
    )


def show_risks(risks: list[Risk], console: Console) -> None:
    """Print mean risks beside the bounds."""
    sizes = sorted({risk.hypotheses for risk in risks})
    table = Table(title=f"Theorem 3's class, T = {HORIZON:,}, ε = {EPSILON:g}: KL-risk in nats")
    table.add_column("")
    for size in sizes:
        table.add_column(f"|F| = {size}", justify="right")
    rows: dict[str, list[str]] = {
        "lower bound, as printed": [f"{HORIZON * gap_of(s // 2) / 132:.1f}" for s in sizes],
        "lower bound, constants kept": [f"{lower_bound(s // 2):.1f}" for s in sizes],
    }
    for method in LEARNERS:
        own = [[r.risk for r in risks if (r.hypotheses, r.method) == (s, method)] for s in sizes]
        rows[method] = [
            f"{np.mean(v):,.0f} ± {np.std(v) / math.sqrt(len(v)):,.0f}" if v else "" for v in own
        ]
    hypotheses = [hypotheses_of(hard_class(s // 2)) for s in sizes]
    bounds = [
        kl_risk_bound(BayesMixture(h, EPSILON, design="default").design()) for h in hypotheses
    ]
    rows["our bound for the static default"] = [f"{bound.mean():,.0f}" for bound in bounds]
    means = [h.at() for h in hypotheses]
    uniform = [
        HORIZON * np.mean([p[p > 0] @ np.log(p[p > 0] / m.mean[p > 0]) for p in m.probabilities])
        for m in means
    ]
    rows["uniform mixture"] = [f"{value:,.0f}" for value in uniform]
    for name, cells in rows.items():
        table.add_row(name, *cells)
    console.print(table)


def show_selections(selections: list[Selection], console: Console) -> None:
    """Print mean distances by horizon."""
    table = Table(title=f"selecting one of {SELECTED} laws at distance α, ε = {EPSILON:g}: mean TV")
    for name in ("α", "learner", "T", "average", "last", "correct"):
        table.add_column(name, justify="right")
    for key in dict.fromkeys((s.distance, s.method, s.horizon) for s in selections):
        own = [s for s in selections if (s.distance, s.method, s.horizon) == key]
        table.add_row(
            f"{key[0]:g}", key[1], f"{key[2]:,}", f"{np.mean([s.average for s in own]):.4f}",
            f"{np.mean([s.last for s in own]):.4f}", f"{np.mean([s.correct for s in own]):.0%}",
        )  # fmt: skip
    console.print(table)


def save(rows: list[Any], path: Path) -> None:
    """Write dataclasses as CSV."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow([field.name for field in fields(rows[0])])
        writer.writerows(astuple(row) for row in rows)


def main() -> None:
    """Run both parts."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--out", type=Path, default=Path("out/predictors"), help="folder to write")
    parser.add_argument("--quick", action="store_true", help="|F| = 62 and two repeats")
    arguments = parser.parse_args()
    repeats, pairs = (2, PAIRS[:1]) if arguments.quick else (16, PAIRS)
    console = Console()

    risks = []
    work = [
        (k, method, repeat)
        for k in pairs
        for method in LEARNERS
        for repeat in range(min(repeats, 3) if method == "algorithm 1" else repeats)
    ]
    for k, method, repeat in track(work, "hard class", console=console):
        table, rng = hard_class(k), np.random.default_rng([k, repeat])
        true = int(rng.integers(2 * k))
        learner = learner_of(method, table, true, HORIZON, rng)
        trajectory = run(learner, table[true], HORIZON)
        risk, mean_tv = trajectory.risk(HORIZON), trajectory.mean_tv(HORIZON)
        risks.append(Risk(2 * k, method, repeat, risk, mean_tv))
    show_risks(risks, console)
    save(risks, arguments.out / "predictor_hard_instance.csv")

    cases = [
        (method, distance, repeat, horizon)
        for distance in DISTANCES
        for method in SELECTORS
        for horizon in HORIZONS
        for repeat in range(repeats)
    ]
    selections = [select(*case) for case in track(cases, "selecting", console=console)]
    show_selections(selections, console)
    save(selections, arguments.out / "predictor_selection.csv")
    console.print(f"Saved both tables in {arguments.out}")


if __name__ == "__main__":
    main()
