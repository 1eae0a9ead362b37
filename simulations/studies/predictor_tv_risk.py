"""Averaged TV-risk of the predictors: its bound (section 6, Theorem 6) and what is conjectured.

Run ``python simulations/studies/predictor_tv_risk.py [--repeats 8] [--workers 2] [--out DIR]``. It
goes on where it was stopped. K laws on rows of a Hadamard matrix, any two α apart in total
variation; the worst of several α around √(K/T)/ε stands for the class that is hardest at T. Theorem
6 is a bound of order √(√(K/T)/ε), by Pinsker's inequality from Theorem 5; the paper leaves open
whether √(K/T)/ε can be reached. Writes ``predictor_tv_risk.csv`` and ``.json``.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import product
from typing import Any

import numpy as np

from flwr_kld.papers.learners import tv_risk
from flwr_kld.simulations.studies.predictor_hard_instance import learner_of, perturbed
from flwr_kld.simulations.studies.predictor_learners import run
from flwr_kld.simulations.studies.resumable import Arrays, Configuration, seed_of
from flwr_kld.simulations.studies.runner import (
    Row,
    computed,
    console,
    grouped,
    resumable_parser,
    save,
    show,
    significant,
)

HYPOTHESES, EPSILONS = (7, 31, 127), (0.5, 1.0)
HORIZONS = (1_000, 10_000, 100_000, 1_000_000)
MULTIPLES = (0.5, 1.0, 2.0, 4.0, 8.0)
"""Of √(K/T)/ε: how far the laws of a class are apart."""
FARTHEST = 0.45
LEARNERS = ("default", "algorithm 2")
_VERSION = 1


def tasks_of(repeats: int, horizons: Sequence[int] = HORIZONS) -> list[dict[str, Any]]:
    """Return a task for each run; two multiples may give one distance, the farthest."""
    tasks = []
    for k, horizon, epsilon in product(HYPOTHESES, horizons, EPSILONS):
        distances = dict.fromkeys(
            min(round(c * conjectured(k, horizon, epsilon), 6), FARTHEST) for c in MULTIPLES
        )
        tasks += [
            {"study": "predictor TV-risk", "version": _VERSION, "hypotheses": k, "repeat": repeat,
             "horizon": horizon, "epsilon": epsilon, "distance": distance, "learner": learner}
            for distance, learner, repeat in product(distances, LEARNERS, range(repeats))
        ]  # fmt: skip
    return tasks


def conjectured(hypotheses: int, horizon: int, epsilon: float) -> float:
    """√(K/T)/ε, without constants and logarithms."""
    return math.sqrt(hypotheses / horizon) / epsilon


def measure(shared: None, task: Configuration) -> Arrays:
    """Run one learner on one class; averaged TV-risk."""
    rng = np.random.default_rng(seed_of({**task, "learner": ""}, "truth and reports"))
    table = perturbed(task["hypotheses"], task["distance"])
    true, horizon = int(rng.integers(task["hypotheses"])), task["horizon"]
    learner = learner_of(task["learner"], table, true, horizon, rng, task["epsilon"])
    return {"mean_tv": np.array(run(learner, table[true], horizon).mean_tv(horizon))}


def rows_of(found: Sequence[tuple[Configuration, Arrays]]) -> list[Row]:
    """Take the worst α of every K, T, ε and learner.

    ``over_rate`` is the risk over √(K/T)/ε, ``over_root`` over its square root; at an ``edge``
    the worst α is the largest tried, and a larger one may be worse.
    """
    setting = ("learner", "hypotheses", "horizon", "epsilon")
    risks: dict[tuple[Any, ...], dict[float, list[float]]] = {}
    for (*key, distance), own in grouped(found, *setting, "distance").items():
        risks.setdefault(tuple(key), {})[distance] = [float(one["mean_tv"]) for one in own]
    rows: list[Row] = []
    for (learner, k, horizon, epsilon), by_distance in risks.items():
        distance, worst = max(by_distance.items(), key=lambda item: float(np.mean(item[1])))
        risk, wanted = float(np.mean(worst)), conjectured(k, horizon, epsilon)
        rows.append({
            "learner": learner, "K": k, "T": horizon, "epsilon": epsilon,
            "alpha": distance, "edge": distance == max(by_distance),
            "tv_risk": significant(risk, 6), "over_rate": significant(risk / wanted),
            "over_root": significant(risk / math.sqrt(wanted)),
            "theorem_6": significant(tv_risk(k, epsilon, horizon)), "repeats": len(worst),
        })  # fmt: skip
    return rows


def exponents(rows: Sequence[Row]) -> dict[str, float]:
    """Slopes of ln TV-risk over ln √(K/T)/ε: 1 as conjectured, 1/2 as Theorem 6 has it.

    Settings whose worst α is the largest tried say nothing of the rate.
    """
    return {
        learner: significant(np.polyfit(np.log(x), np.log(y), 1)[0], 3)
        for learner in LEARNERS
        for x, y in [
            (
                [conjectured(row["K"], row["T"], row["epsilon"]) for row in own],
                [row["tv_risk"] for row in own],
            )
            for own in [[row for row in rows if row["learner"] == learner and not row["edge"]]]
            if len(own) > 1
        ]
    }


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the study."""
    chosen = resumable_parser(
        __doc__,
        out="predictor_tv_risk",
        repeats=(8, "runs of each class"),
        longest=(max(HORIZONS), "largest T"),
    ).parse_args(arguments)
    tasks = tasks_of(chosen.repeats, [t for t in HORIZONS if t <= chosen.longest])
    rows = rows_of(computed(measure, None, tasks, chosen))
    show("averaged TV-risk, worst distance", rows)
    found = exponents(rows)
    console.print(f"exponent over √(K/T)/ε: {found}")
    save(rows, chosen.out, "predictor_tv_risk", {"exponents": found})


if __name__ == "__main__":
    main()
