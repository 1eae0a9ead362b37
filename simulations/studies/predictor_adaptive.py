"""KL-risk of queries that adapt against one design for all rounds, in rounds of 100 reports.

Run ``python simulations/studies/predictor_adaptive.py [--runs N] [--out DIR]``; the same command
goes on where it was stopped. Two parts, each learner without fixed share: K hypotheses of the two
families of `predictor_learners`, one of which is true; and a truth outside the class, half of one
hypothesis and half of another, where the last prediction, which is the EM read-out (``mixture``)
once the class is refuted, stands beside that of the weights alone. Risks are fractions of the
uniform mixture's: means over instances with standard errors, and geometric means. Theorem 3's class
is in `predictor_hard_instance`.

Writes ``predictor_adaptive.csv`` and ``.json``.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from itertools import product
from typing import Any

import numpy as np

from flwr_kld.predictors import BayesMixture
from flwr_kld.simulations.studies.predictor_learners import (
    FAMILIES,
    Floats,
    Mixture,
    divergence,
    hypotheses_of,
    run,
)
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

BATCH, HORIZON, LABELS = 100, 10_000, 1_000
EPSILONS = (0.5, 1.0, 4.0)
STATIC_RUNS = 4
"""At most: a static design takes long to find."""
_VERSION = 3
INSIDE, OUTSIDE = "inside", "outside"


def instance_of(task: Configuration) -> tuple[Floats, int]:
    """Laws and which of them is true; the same for every epsilon and design."""
    family, k, m = task["family"], task["K"], task["M"]
    same = {"family": family, "K": k, "M": m, "run": task["run"]}
    rng = np.random.default_rng(seed_of(same, "instance"))
    return FAMILIES[family](k, m, rng), int(rng.integers(k))


def measure(shared: Any, task: Configuration) -> Arrays:
    """Run one learner on one instance."""
    began, (table, true) = time.process_time(), instance_of(task)
    rng = np.random.default_rng(seed_of(task, "reports"))
    truth = np.eye(len(table))[true]
    if task["part"] == OUTSIDE:
        truth = (truth + np.roll(truth, 1)) / 2
    law = truth @ table
    predictor = BayesMixture(
        hypotheses_of(table), task["epsilon"], design=task["design"], share=0.0
    )
    learner = Mixture(predictor, truth, rng, settles=task["part"] == INSIDE)
    found = {
        "risk": run(learner, law, task["horizon"], every=BATCH).risk(task["horizon"]),
        "uniform": task["horizon"] * divergence(law, table.mean(axis=0)),
        "predict": divergence(law, predictor.predict()),
        "weights": divergence(law, predictor.weights @ table),
        "mixture": divergence(law, predictor.mixture @ table),
        "cpu": time.process_time() - began,
    }
    return {name: np.array(value) for name, value in found.items()}


def tasks_of(runs: int, horizon: int, labels: int) -> list[Configuration]:
    """Say what is measured: run by run, so that a study that is stopped has some of everything."""
    tasks: list[Configuration] = []

    def add(part: str, family: str, k: int, m: int, epsilon: float, design: str, t: int) -> None:
        tasks.append(
            {"version": _VERSION, "part": part, "family": family, "K": k, "M": m,
             "epsilon": epsilon, "design": design, "horizon": t, "run": instance}
        )  # fmt: skip

    for instance in range(runs):
        for family in FAMILIES:
            for epsilon in EPSILONS:
                add(INSIDE, family, 100, labels, epsilon, "adaptive", horizon)
                if instance < STATIC_RUNS:
                    add(INSIDE, family, 100, labels, epsilon, "design", horizon)
            if instance < STATIC_RUNS:
                add(INSIDE, family, 24, labels, 1.0, "adaptive", horizon)
                add(INSIDE, family, 24, labels, 1.0, "design", horizon)
        if instance < STATIC_RUNS:
            for family, epsilon in product(FAMILIES, EPSILONS):
                add(OUTSIDE, family, 100, labels, epsilon, "adaptive", horizon)
    return tasks


def rows_of(found: Sequence[tuple[Configuration, Arrays]]) -> list[Row]:
    """Mean of each setting over its instances."""
    names = ("part", "family", "K", "epsilon", "design")
    rows: list[Row] = []
    for key, own in grouped(found, *names).items():
        values = {name: np.array([float(result[name]) for result in own]) for name in own[0]}
        shares = values["risk"] / values["uniform"]
        error = shares.std(ddof=1) / math.sqrt(len(own)) if len(own) > 1 else math.nan
        means = ("risk", "predict", "weights", "mixture")
        rows.append({
            **dict(zip(names, key, strict=True)),
            "instances": len(own), "share": significant(shares.mean()),
            "error": significant(error, 2),
            "geometric": significant(np.exp(np.log(shares).mean())),
            **{name: significant(values[name].mean()) for name in means},
        })  # fmt: skip
    return rows


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the study."""
    chosen = resumable_parser(
        __doc__,
        out="predictor_adaptive",
        runs=(16, "instances of each setting"),
        horizon=(HORIZON, "reports"),
        labels=(LABELS, "M"),
    ).parse_args(arguments)
    found = computed(measure, None, tasks_of(chosen.runs, chosen.horizon, chosen.labels), chosen)
    rows = rows_of(found)
    show("KL-risk over the uniform mixture's, rounds of 100", rows)
    seconds = sum(float(result["cpu"]) for _, result in found)
    console.print(f"{seconds:.0f} CPU seconds.")
    save(rows, chosen.out, "predictor_adaptive")


if __name__ == "__main__":
    main()
