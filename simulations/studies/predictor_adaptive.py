"""KL-risk of queries that adapt against one design for all rounds, in rounds of 100 reports.

Run ``python simulations/studies/predictor_adaptive.py [--runs N] [--out DIR]``; the same command
goes on where it was stopped. Three parts, each learner without fixed share: K hypotheses of the two
families of `predictor_learners`, one of which is true; Theorem 3's class; and a truth outside the
class, half of one hypothesis and half of another, where predictions, which go over to the EM
read-out (``mixture``) once the class is refuted, stand beside those of the weights alone. Every
query that is asked is held against epsilon in exact arithmetic. Risks are fractions of the uniform
mixture's: means over instances with standard errors, and geometric means.

Writes ``predictor_adaptive.csv`` and ``.json``.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Sequence
from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np

from flwr_kld.kernel.delta import exp_below
from flwr_kld.predictors import BayesMixture
from flwr_kld.predictors.local_report import LocalReports
from flwr_kld.predictors.query import Query
from flwr_kld.simulations.studies.predictor_hard_instance import hard_class
from flwr_kld.simulations.studies.predictor_learners import FAMILIES, Floats, hypotheses_of
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
HARD_PAIRS = 127
STATIC_RUNS, HARD_RUNS = 4, 8
"""At most: a static design takes long to find, and Theorem 3's class has 1,000 rounds."""
SURE = 1 - 1e-9
"""Weight of the truth from which on nothing more is lost that the table would show."""
_VERSION = 2
"""Of what is kept; clients' reports are the same in all versions."""
INSIDE, OUTSIDE, HARD = "inside", "outside", "theorem 3"


class Asked:
    """Counts the queries that were asked, and holds each against epsilon."""

    def __init__(self, epsilon: float) -> None:
        self._bound = exp_below(epsilon)
        self._held: set[Query] = set()

    @property
    def count(self) -> int:
        """How many different queries were asked."""
        return len(self._held)

    def hold(self, query: Query) -> None:
        """Compare all labels' laws of the symbol, in integers."""
        if query in self._held:
            return
        self._held.add(query)
        classes = np.unique(query.class_of).tolist()
        for symbol in range(query.channel.symbols):
            weights = [query.channel.weight(c, symbol) for c in classes]
            if Fraction(max(weights), min(weights)) > self._bound:
                raise AssertionError("a query that was asked is not private")


def play(
    predictor: BayesMixture, law: Floats, rounds: int, rng: np.random.Generator, asked: Asked
) -> Iterator[Floats]:
    """Yield the prediction before each round, then let 100 clients of that law report."""
    for number in range(1, rounds + 1):
        yield predictor.predict()
        design = predictor.design(round=number)
        often = rng.multinomial(BATCH, design.shares)
        queries, symbols = [], []
        for place, count in zip(predictor.numbers(number), often, strict=True):
            if count:
                query = predictor.query(place)
                asked.hold(query)
                summed = np.bincount(query.class_of, law, query.channel.classes)
                masses: Floats = np.asarray(summed, dtype=np.float64)
                chances = query.channel.push(masses)
                drawn = rng.multinomial(count, chances / chances.sum())
                symbols.append(np.repeat(np.arange(len(drawn)), drawn))
                queries.append(np.full(count, place))
        predictor.update(LocalReports(number, np.concatenate(queries), np.concatenate(symbols)))


def divergence(law: Floats, predicted: Floats) -> float:
    """``KL(law || predicted)`` in nats."""
    some = law > 0
    return float(law[some] @ np.log(law[some] / predicted[some]))


def instance(task: Configuration) -> tuple[Floats, int]:
    """Laws and which of them is true; the same for every epsilon and design."""
    family, k, m = task["family"], task["K"], task["M"]
    same = {"family": family, "K": k, "M": m, "run": task["run"]}
    rng = np.random.default_rng(seed_of(same, "instance"))
    table = hard_class(k // 2) if family == HARD else FAMILIES[family](k, m, rng)
    return table, int(rng.integers(k))


def measure(shared: Any, task: Configuration) -> Arrays:
    """Run one learner on one instance."""
    began, (table, true) = time.process_time(), instance(task)
    seeded = {name: value for name, value in task.items() if name != "version"}
    rng = np.random.default_rng(seed_of(seeded, "reports"))
    law = table[true]
    if task["part"] == OUTSIDE:
        law = (law + table[(true + 1) % len(table)]) / 2
    asked, epsilon = Asked(task["epsilon"]), task["epsilon"]
    predictor = BayesMixture(hypotheses_of(table), epsilon, design=task["design"], share=0.0)
    risk = weighed = 0.0
    for number, predicted in enumerate(play(predictor, law, task["horizon"] // BATCH, rng, asked)):
        risk += BATCH * divergence(law, predicted)
        if task["part"] == OUTSIDE:
            weighed += BATCH * divergence(law, predictor.weights @ table)
        else:
            predictor.settle(number)
            if predictor.weights[true] > SURE:
                break
    found = {
        "risk": risk,
        "uniform": task["horizon"] * divergence(law, table.mean(axis=0)),
        "queries": asked.count,
        "weighed": weighed or risk,
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
             "epsilon": epsilon, "design": design, "horizon": t, "run": run}
        )  # fmt: skip

    for run in range(runs):
        for family in FAMILIES:
            for epsilon in EPSILONS:
                add(INSIDE, family, 100, labels, epsilon, "adaptive", horizon)
                if run < STATIC_RUNS:
                    add(INSIDE, family, 100, labels, epsilon, "design", horizon)
            if run < STATIC_RUNS:
                add(INSIDE, family, 24, labels, 1.0, "adaptive", horizon)
                add(INSIDE, family, 24, labels, 1.0, "design", horizon)
        if run < STATIC_RUNS:
            for family, epsilon in product(FAMILIES, EPSILONS):
                add(OUTSIDE, family, 100, labels, epsilon, "adaptive", horizon)
        if run < HARD_RUNS:
            add(HARD, HARD, 2 * HARD_PAIRS, 0, 1.0, "adaptive", 10 * horizon)
    return tasks


def rows_of(found: Sequence[tuple[Configuration, Arrays]]) -> list[Row]:
    """Mean of each setting over its instances."""
    names = ("part", "family", "K", "epsilon", "design")
    rows: list[Row] = []
    for key, own in grouped(found, *names).items():
        values = {name: np.array([float(result[name]) for result in own]) for name in own[0]}
        shares = values["risk"] / values["uniform"]
        error = shares.std(ddof=1) / math.sqrt(len(own)) if len(own) > 1 else math.nan
        means = ("risk", "weighed", "predict", "weights", "mixture")
        rows.append({
            **dict(zip(names, key, strict=True)),
            "instances": len(own), "share": significant(shares.mean()),
            "error": significant(error, 2),
            "geometric": significant(np.exp(np.log(shares).mean())),
            **{name: significant(values[name].mean()) for name in means},
            "queries": int(values["queries"].sum()),
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
    console.print(f"Every query asked is epsilon-private. {seconds:.0f} CPU seconds.")
    save(rows, chosen.out, "predictor_adaptive")


if __name__ == "__main__":
    main()
