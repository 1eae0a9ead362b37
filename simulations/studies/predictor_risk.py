"""Cumulative KL-risk of the predictors, against each other and against the theorems.

Run ``python simulations/studies/predictor_risk.py [--quick] [--workers 2] [--out DIR]``; the same
command goes on where it was stopped. One client reports at a time, as in the paper's protocol, and
the truth is one of the hypotheses and never changes. The Bayesian mixtures therefore run without
fixed share, except the one that says so, which predicts once in a round of 200 reports. Two
families of hypotheses: ``dirichlet``, K laws far from each other; ``drift``, a Zipf law and K - 1
drifts of it in which 30 % of the mass moves onto random fifths of the labels. Risks are integrated
over 45 points in time, spaced evenly in ln t.

Algorithm 1 has three repeats where the others have eight, and none at K = 100, T = 100,000: it
draws K noises a report. Writes ``predictor_risk.csv`` (every setting and repeat) and
``predictor_risk.png``.
"""

from __future__ import annotations

import csv
import math
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import astuple, dataclass, fields
from itertools import product
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

from flwr_kld._extras import require
from flwr_kld.papers.learners import LocallyPrivateWMA, PureLocalEXP3, kl_risk
from flwr_kld.predictors import BayesMixture, Hypotheses
from flwr_kld.predictors.bayes_mixture import kl_risk_bound
from flwr_kld.simulations.studies.commands import computed, parser_of
from flwr_kld.simulations.studies.predictor_learners import (
    AdaHedge,
    Floats,
    Learner,
    Mixture,
    Scores,
    dirichlet,
    drift,
    hypotheses_of,
    run,
)
from flwr_kld.simulations.studies.resumable import Arrays, Configuration, Kept

HORIZONS = (1_000, 10_000, 100_000)
HYPOTHESES, LABELS, EPSILONS = (2, 10, 100), (10, 1_000, 65_536), (0.5, 1.0, 4.0)
FAMILIES = {"dirichlet": (dirichlet, 1.0), "drift": (drift, 0.5)}
"""Each with the clip that `AdaHedge` gets for it."""
ROUND, SHARE = 200, 0.01
WITH_SHARE = "design, share, rounds"
BAYES = ("design", "ovr", "mlq", "k-rr", "hadamard", "subset")
LEARNERS = (*BAYES, WITH_SHARE, "adahedge", "algorithm 2", "algorithm 1")
BOUNDS = ("bound", "theorem 5", "theorem 4")
DELTA, _VERSION = 1e-6, 1
TARGETS = {0.5: 0.14, 1.0: 0.06, 4.0: 0.01}
"""Of the risk of ``design`` over the uniform mixture's, at M = 1000, T = 10,000, by epsilon."""


@dataclass(frozen=True)
class Setting:
    """What is learnt, and at what price."""

    family: str
    hypotheses: int
    labels: int
    epsilon: float


@dataclass(frozen=True)
class Row:
    """Risk of one learner in one repeat (or a bound on it, which has no mean TV), in nats."""

    setting: Setting
    horizon: int
    repeat: int
    method: str
    risk: float
    mean_tv: float | None
    uniform: float


def truth_of(setting: Setting, repeat: int) -> tuple[Hypotheses, int]:
    """Hypotheses and the true one; the same for every epsilon."""
    name = f"{setting.family} {setting.hypotheses} {setting.labels} {repeat}"
    rng = np.random.default_rng(zlib.crc32(name.encode()))
    table = FAMILIES[setting.family][0](setting.hypotheses, setting.labels, rng)
    return hypotheses_of(table), int(rng.integers(setting.hypotheses))


def risks(setting: Setting, repeat: int, horizons: tuple[int, ...]) -> Iterator[Row]:
    """Yield the risks of all learners, and the bounds, in one repeat."""
    hypotheses, true = truth_of(setting, repeat)
    laws, epsilon = hypotheses.at(), setting.epsilon
    law, k = laws.probabilities[true], setting.hypotheses
    longest = max(horizons)
    uniform = float(law @ np.log(law / laws.mean))

    def row(horizon: int, method: str, risk: float, tv: float | None = None) -> Row:
        return Row(setting, horizon, repeat, method, risk, tv, horizon * uniform)

    def generator(method: str) -> np.random.Generator:
        return np.random.default_rng([zlib.crc32(f"{setting} {method}".encode()), repeat])

    def mixture(method: str, design: str, share: float) -> Mixture:
        predictor = BayesMixture(hypotheses, epsilon, design=design, share=share)
        return Mixture(predictor, true, generator(method))

    anytime: dict[str, Callable[[], tuple[Learner, int]]] = {
        **{m: lambda m=m: (mixture(m, m, 0.0), 0) for m in BAYES},  # type: ignore[misc]
        WITH_SHARE: lambda: (mixture(WITH_SHARE, "design", SHARE), ROUND),
        "adahedge": lambda: (
            AdaHedge(laws, true, epsilon, FAMILIES[setting.family][1], generator("adahedge")), 0
        ),
    }  # fmt: skip
    for method, start in anytime.items():
        learner, every = start()
        trajectory = run(learner, law, longest, every=every)
        for horizon in horizons:
            yield row(horizon, method, trajectory.risk(horizon), trajectory.mean_tv(horizon))
        if method == "design" and isinstance(learner, Mixture):
            bound = kl_risk_bound(learner.design)[true]
            yield from (row(horizon, "bound", bound) for horizon in horizons)
    for horizon in horizons:
        fixed = {"algorithm 2": Scores(
            PureLocalEXP3(laws, epsilon, horizon=horizon), law, k, generator("algorithm 2")
        )}  # fmt: skip
        if repeat < 3 and k * horizon <= 1_000_000:
            wma = LocallyPrivateWMA(laws, epsilon, delta=DELTA, horizon=horizon)
            fixed["algorithm 1"] = Scores(wma, law, 1, generator("algorithm 1"))
        for method, learner in fixed.items():
            trajectory = run(learner, law, horizon)
            yield row(horizon, method, trajectory.risk(horizon), trajectory.mean_tv(horizon))
        yield row(horizon, "theorem 5", kl_risk(k, epsilon, horizon))
        yield row(horizon, "theorem 4", kl_risk(k, epsilon, horizon, delta=DELTA))


def measure(shared: None, task: Configuration) -> Arrays:
    """Return risk, the uniform mixture's, and mean TV where there is one, by horizon and method."""
    setting = Setting(task["family"], task["K"], task["M"], task["epsilon"])
    return {
        f"{row.horizon} {row.method}": np.array(
            [row.risk, row.uniform, *([] if row.mean_tv is None else [row.mean_tv])]
        )
        for row in risks(setting, task["repeat"], tuple(task["horizons"]))
    }


def rows_of(tasks: Sequence[Configuration], kept: Kept) -> list[Row]:
    """Read what is kept."""
    rows = []
    for task in tasks:
        setting = Setting(task["family"], task["K"], task["M"], task["epsilon"])
        for name, (risk, uniform, *tv) in (kept.load(task) or {}).items():
            horizon, method = name.split(maxsplit=1)
            mean_tv = float(tv[0]) if tv else None
            rows.append(Row(setting, int(horizon), task["repeat"], method, risk, mean_tv, uniform))
    return rows


def relative(rows: list[Row], method: str, **where: float | str) -> Floats:
    """Risk over the uniform mixture's, mean over repeats, for every setting that fits."""
    risks: dict[tuple[Setting, int], list[tuple[float, float]]] = {}
    for row in rows:
        values = {**vars(row.setting), "horizon": row.horizon, "method": row.method}
        if row.method == method and all(values[key] == value for key, value in where.items()):
            risks.setdefault((row.setting, row.horizon), []).append((row.risk, row.uniform))
    means = [np.mean(pairs, axis=0) for pairs in risks.values()]
    return np.array([risk / uniform for risk, uniform in means])


def middle(ratios: Floats) -> float:
    """Geometric mean; NaN of nothing."""
    return float(np.exp(np.mean(np.log(np.maximum(ratios, 1e-9))))) if len(ratios) else math.nan


def show(rows: list[Row], console: Console) -> None:
    """Print geometric means over families and K, and the targets."""
    horizons = sorted({row.horizon for row in rows})
    columns = sorted({(row.setting.labels, row.setting.epsilon) for row in rows})
    for horizon in horizons:
        table = Table(title=f"risk / risk of the uniform mixture, T = {horizon:,}, geometric means")
        table.add_column("M, ε", overflow="fold")
        for labels, epsilon in columns:
            table.add_column(f"{labels:,}, {epsilon:g}", justify="right")
        for method in (*LEARNERS, *BOUNDS):
            cells = [
                middle(relative(rows, method, horizon=horizon, labels=labels, epsilon=epsilon))
                for labels, epsilon in columns
            ]
            table.add_row(method, *("" if math.isnan(c) else f"{c:.3g}" for c in cells))
        console.print(table)
    for epsilon, target in TARGETS.items():
        where = {"horizon": 10_000, "labels": 1_000, "epsilon": epsilon}
        ours = relative(rows, "design", **where)
        if len(ours):
            paper = middle(relative(rows, "algorithm 2", **where))
            console.print(
                f"T = 10,000, M = 1000, ε = {epsilon:g}: design without fixed share "
                f"{middle(ours):.4f} of the uniform mixture (target {target}; settings "
                f"{ours.min():.4f} to {ours.max():.4f}), {paper / middle(ours):.1f} times below "
                f"Algorithm 2; with fixed share {middle(relative(rows, WITH_SHARE, **where)):.4f}"
            )


def save(rows: list[Row], out: Path) -> None:
    """Write every row to ``predictor_risk.csv`` and the means to ``predictor_risk.png``."""
    out.mkdir(parents=True, exist_ok=True)
    with (out / "predictor_risk.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        names = [field.name for field in (*fields(Setting), *fields(Row)[1:])]
        writer.writerow(names)
        for row in rows:
            writer.writerow([*astuple(row.setting), *astuple(row)[1:]])
    figure = require("matplotlib.figure", extra="plots").Figure((13, 4.6), layout="constrained")
    epsilons = sorted({row.setting.epsilon for row in rows})
    horizons = sorted({row.horizon for row in rows})
    panels = figure.subplots(1, len(epsilons), sharey=True, squeeze=False)[0]
    shown = (*LEARNERS, "bound")
    for axes, epsilon in zip(panels, epsilons, strict=True):
        for i, method in enumerate(shown):
            curve = [
                middle(relative(rows, method, horizon=horizon, epsilon=epsilon))
                for horizon in horizons
            ]
            style = "--" if method == "bound" else "-"
            axes.plot(
                horizons, curve, marker="o", linestyle=style, color=f"C{i % 10}", label=method
            )
        axes.axhline(1, color="#8a8a8a", linewidth=1)
        axes.set(xscale="log", yscale="log", title=f"ε = {epsilon:g}", xlabel="reports T")
        axes.set_ylim(1e-4, 30)
        axes.grid(alpha=0.3)
        axes.spines[["top", "right"]].set_visible(False)
    panels[0].set_ylabel("risk / risk of the uniform mixture")
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside right", frameon=False)
    figure.savefig(out / "predictor_risk.png", dpi=130)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the study."""
    parser = parser_of(__doc__, out="out/predictor_risk")
    parser.add_argument("--quick", action="store_true", help="M = 1000, T = 10,000, two repeats")
    parser.add_argument("--labels", type=int, nargs="*", default=LABELS, help="values of M")
    parser.add_argument("--repeats", type=int, default=8, help="instances of each setting")
    chosen, console = parser.parse_args(arguments), Console()
    labels = (1_000,) if chosen.quick else tuple(chosen.labels)
    horizons = (10_000,) if chosen.quick else HORIZONS
    tasks = [
        {"study": "predictor risk", "version": _VERSION, "family": family, "K": k, "M": m,
         "epsilon": epsilon, "horizons": list(horizons), "repeat": repeat}
        for m, k in product(sorted(labels, reverse=True), reversed(HYPOTHESES))
        for family, epsilon in product(FAMILIES, EPSILONS)
        for repeat in range(2 if chosen.quick else chosen.repeats)
    ]  # fmt: skip
    kept = computed(measure, None, tasks, chosen, console)
    rows = rows_of(tasks, kept)
    show(rows, console)
    save(rows, chosen.out)
    console.print(f"Saved predictor_risk.csv and predictor_risk.png in {chosen.out}")


if __name__ == "__main__":
    main()
