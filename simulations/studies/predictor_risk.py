"""Cumulative KL-risk of the predictors, against each other and against the theorems.

Run ``python simulations/studies/predictor_risk.py [--quick] [--workers 2] [--out DIR]``; the same
command goes on where it was stopped. One client reports at a time, as in the paper's protocol, and
the truth is one of the hypotheses and never changes. The Bayesian mixtures therefore run without
fixed share, except the one that says so, which predicts once in a round of 200 reports; so do
queries that adapt, up to 1,000 labels. Two families of hypotheses: ``dirichlet``, K laws far from
each other; ``drift``, a Zipf law and K - 1 drifts of it in which 30 % of the mass moves onto random
fifths of the labels. Risks are integrated over 45 points in time, spaced evenly in ln t.

Algorithm 2 is run as printed, which hardly moves the weights, and with its scores read as means, at
the best of six rates in hindsight. Algorithm 1 has three repeats where the others have eight, and
none at K = 100, T = 100,000: it draws K noises a report. Writes ``predictor_risk.csv`` and
``.json``, with every setting and repeat.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Iterator, Sequence
from itertools import product

import numpy as np

from flwr_kld.predictors import BayesMixture, Hypotheses
from flwr_kld.simulations.studies.papers.learners import LocallyPrivateWMA, PureLocalEXP3, kl_risk
from flwr_kld.simulations.studies.predictor_learners import (
    FAMILIES,
    Floats,
    Mixture,
    Scores,
    hypotheses_of,
    kl_risk_bound,
    run,
)
from flwr_kld.simulations.studies.resumable import Arrays, Configuration
from flwr_kld.simulations.studies.runner import Row, computed, parser_of, save, show

HORIZONS = (1_000, 10_000, 100_000)
HYPOTHESES, LABELS, EPSILONS = (2, 10, 100), (10, 1_000, 65_536), (0.5, 1.0, 4.0)
ROUND, SHARE = 200, 0.01
WITH_SHARE = "design, share, rounds"
BAYES = ("design", "ovr", "mlq")
TUNED = {f"algorithm 2, rate {rate:g}": rate for rate in (1.0, 0.3, 0.1, 0.03, 0.01, 0.003)}
"""Rates for mean scores: the same reports, read better, so post-processing."""
BEST = "algorithm 2, best rate"
METHODS = (
    *BAYES, WITH_SHARE, "adaptive", "algorithm 2", BEST, "algorithm 1", "bound", "theorem 5",
    "theorem 4",
)  # fmt: skip
"""Learners, and bounds on their risk."""
DELTA, _VERSION = 1e-6, 5


def truth_of(task: Configuration) -> tuple[Hypotheses, int]:
    """Hypotheses and the true one; the same for every epsilon."""
    name = "{family} {K} {M} {repeat}".format(**task)
    rng = np.random.default_rng(zlib.crc32(name.encode()))
    table = FAMILIES[task["family"]](task["K"], task["M"], rng)
    return hypotheses_of(table), int(rng.integers(task["K"]))


def risks(task: Configuration) -> Iterator[tuple[str, float]]:
    """Yield horizon and learner, or bound, with its risk in nats."""
    hypotheses, true = truth_of(task)
    laws, k, epsilon = hypotheses.at(), task["K"], task["epsilon"]
    law = laws.probabilities[true]

    def generator(method: str) -> np.random.Generator:
        setting = "Setting(family={family!r}, hypotheses={K}, labels={M}, epsilon={epsilon})"
        name = f"{setting.format(**task)} {method}"
        return np.random.default_rng([zlib.crc32(name.encode()), task["repeat"]])

    anytime = {method: (method, 0.0, 0) for method in BAYES}
    anytime[WITH_SHARE] = ("design", SHARE, ROUND)
    if task["M"] < max(LABELS):
        anytime["adaptive"] = ("adaptive", 0.0, ROUND)
    for method, (design, share, every) in anytime.items():
        predictor = BayesMixture(hypotheses, epsilon, design=design, share=share)
        learner = Mixture(predictor, np.eye(k)[true], generator(method))
        trajectory = run(learner, law, max(task["horizons"]), every=every)
        for horizon in task["horizons"]:
            yield f"{horizon} {method}", trajectory.risk(horizon)
        if method == "design":
            bound = float(kl_risk_bound(predictor.design())[true])
            yield from ((f"{horizon} bound", bound) for horizon in task["horizons"])
    for horizon in task["horizons"]:
        fixed = {
            name: Scores(PureLocalEXP3(laws, epsilon, horizon=horizon, rate=rate), law, k,
                         generator("algorithm 2"))
            for name, rate in {"algorithm 2": None, **TUNED}.items()
        }  # fmt: skip
        if task["repeat"] < 3 and k * horizon <= 1_000_000:
            wma = LocallyPrivateWMA(laws, epsilon, delta=DELTA, horizon=horizon)
            fixed["algorithm 1"] = Scores(wma, law, 1, generator("algorithm 1"))
        for method, scores in fixed.items():
            yield f"{horizon} {method}", run(scores, law, horizon).risk(horizon)
        yield f"{horizon} theorem 5", kl_risk(k, epsilon, horizon)
        yield f"{horizon} theorem 4", kl_risk(k, epsilon, horizon, delta=DELTA)


def measure(shared: None, task: Configuration) -> Arrays:
    """Return what `risks` yields, and the uniform mixture's risk of one report."""
    hypotheses, true = truth_of(task)
    laws = hypotheses.at()
    law = laws.probabilities[true]
    uniform = np.array(law @ np.log(law / laws.mean))
    return {name: np.array(values) for name, values in risks(task)} | {"uniform": uniform}


def rows_of(found: Sequence[tuple[Configuration, Arrays]]) -> list[Row]:
    """Write a row for each horizon and method of a task."""
    rows: list[Row] = []
    for task, result in found:
        uniform = float(result["uniform"])
        setting = {name: task[name] for name in ("family", "K", "M", "epsilon", "repeat")}
        for name, risk in ((n, v) for n, v in result.items() if n != "uniform"):
            horizon, method = name.split(maxsplit=1)
            rows.append({
                **setting, "horizon": int(horizon), "method": method, "risk": float(risk),
                "uniform": int(horizon) * uniform,
            })  # fmt: skip
    return rows


def relative(rows: list[Row], method: str, **where: float | str) -> Floats:
    """Risk over the uniform mixture's, mean over repeats, for every setting that fits."""
    if method == BEST:  # in hindsight, in each setting
        return np.asarray(np.min([relative(rows, name, **where) for name in TUNED], axis=0))
    where = {**where, "method": method}
    risks: dict[tuple[str | int, ...], list[tuple[float, float]]] = {}
    for row in rows:
        if all(row[key] == value for key, value in where.items()):
            key = tuple(row[name] for name in ("family", "K", "M", "epsilon", "horizon"))
            risks.setdefault(key, []).append((row["risk"], row["uniform"]))
    means = [np.mean(pairs, axis=0) for pairs in risks.values()]
    return np.array([risk / uniform for risk, uniform in means])


def middle(ratios: Floats) -> float:
    """Geometric mean; NaN of nothing."""
    return float(np.exp(np.mean(np.log(np.maximum(ratios, 1e-9))))) if len(ratios) else math.nan


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the study."""
    parser = parser_of(__doc__, out="predictor_risk", repeats=(8, "instances of each setting"))
    parser.add_argument("--quick", action="store_true", help="M = 1000, T = 10,000, two repeats")
    parser.add_argument("--labels", type=int, nargs="*", default=LABELS, help="values of M")
    chosen = parser.parse_args(arguments)
    labels = (1_000,) if chosen.quick else tuple(chosen.labels)
    horizons = (10_000,) if chosen.quick else HORIZONS
    tasks = [
        {"study": "predictor risk", "version": _VERSION, "family": family, "K": k, "M": m,
         "epsilon": epsilon, "horizons": list(horizons), "repeat": repeat}
        for m, k in product(sorted(labels, reverse=True), reversed(HYPOTHESES))
        for family, epsilon in product(FAMILIES, EPSILONS)
        for repeat in range(2 if chosen.quick else chosen.repeats)
    ]  # fmt: skip
    rows = rows_of(computed(measure, None, tasks, chosen))
    for horizon in horizons:
        table = [
            {"M, ε": method} | {
                f"{m:,}, {epsilon:g}": middle(
                    relative(rows, method, horizon=horizon, M=m, epsilon=epsilon)
                )
                for m, epsilon in product(sorted(labels), EPSILONS)
            }
            for method in METHODS
        ]  # fmt: skip
        show(f"risk / risk of the uniform mixture, T = {horizon:,}, geometric means", table)
    save(rows, chosen.out, "predictor_risk")


if __name__ == "__main__":
    main()
