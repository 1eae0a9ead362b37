"""Speed and size of the default predictor at K = 100 hypotheses and M = 65,536 labels.

python simulations/bench/predictors.py [--labels M] [--hypotheses K]
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable

import numpy as np
from rich.console import Console
from rich.table import Table

from flwr_kld.kernel.law import SystemBits
from flwr_kld.predictors import BayesMixture
from flwr_kld.predictors.designs import optimal_design
from flwr_kld.predictors.local_report import LocalReports
from flwr_kld.predictors.query import Query
from flwr_kld.simulations.studies.predictor_learners import dirichlet, hypotheses_of

_REPORTS = 1_000_000
_ROUNDS = 64
"""As many as `PrivatePredictor` keeps apart."""
_COHORT = 200


def seconds(work: Callable[[], object], repeats: int) -> float:
    """Median wall time."""
    taken = []
    for _ in range(repeats):
        began = time.perf_counter()
        work()
        taken.append(time.perf_counter() - began)
    return statistics.median(taken)


def reports(predictor: BayesMixture, count: int, round: int, seed: int) -> LocalReports:
    """Draw as many reports as clients of one hypothesis would send."""
    rng = np.random.default_rng(seed)
    design = predictor.design()
    law = design.law[:, 0] * np.repeat(design.shares, np.diff(design.starts))
    rows = rng.choice(len(law), size=count, p=law / law.sum())
    queries = np.searchsorted(design.starts, rows, side="right") - 1
    return LocalReports(round, queries, rows - design.starts[queries])


def measure(hypotheses: int, labels: int, epsilon: float) -> dict[str, str]:
    """Time everything once for one epsilon."""
    candidates = hypotheses_of(dirichlet(hypotheses, labels, np.random.default_rng(1)))
    laws = candidates.at()
    optimal_design.cache_clear()
    build = seconds(lambda: optimal_design(laws, epsilon), 1)
    again = seconds(lambda: optimal_design(laws, epsilon), 5)
    predictor = BayesMixture(candidates, epsilon, design="design")
    query, bits = predictor.query(0), SystemBits()
    config = query.to_config()
    answer = seconds(lambda: query.answer(3, bits), 2000)
    whole = seconds(lambda: Query.from_config(config, labels).answer(3, SystemBits()), 50)
    million = reports(predictor, _REPORTS, 1, 1)
    update = seconds(lambda: BayesMixture.update(predictor, million), 3)
    weights = seconds(lambda: predictor.weights, 1)
    sizes = []
    for cohort in (_COHORT, _REPORTS // _ROUNDS):
        kept = BayesMixture(candidates, epsilon, design="design")
        for number in range(_ROUNDS):
            kept.update(reports(kept, cohort, number, number))
        sizes.append(len(json.dumps(kept.state())))
    wire = len(config["class_of"]) if isinstance(config["class_of"], bytes) else 0
    return {
        "design, s": f"{build:.1f}",
        "cached, s": f"{again:.6f}",
        "queries, rows": f"{len(predictor.design().queries)}, {len(predictor.design().law):,}",
        "answer, ms": f"{1000 * answer:.4f}",
        "read + answer, ms": f"{1000 * whole:.3f}",
        "query on the wire, kB": f"{wire / 1000:.1f}",
        "update with 1e6, s": f"{update:.3f}",
        "weights, s": f"{weights:.4f}",
        f"state, {_ROUNDS} rounds of {_COHORT}, kB": f"{sizes[0] / 1000:.0f}",
        f"state, {_ROUNDS} rounds of {_REPORTS // _ROUNDS:,}, kB": f"{sizes[1] / 1000:.0f}",
    }


def main() -> None:
    """Print the measurements."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--hypotheses", type=int, default=100)
    parser.add_argument("--labels", type=int, default=65_536)
    arguments = parser.parse_args()
    columns = {e: measure(arguments.hypotheses, arguments.labels, e) for e in (0.5, 1.0, 4.0)}
    table = Table(title=f"K = {arguments.hypotheses}, M = {arguments.labels:,}, two cores")
    table.add_column("")
    for epsilon in columns:
        table.add_column(f"ε = {epsilon:g}", justify="right")
    for name in next(iter(columns.values())):
        table.add_row(name, *(column[name] for column in columns.values()))
    Console().print(table)


if __name__ == "__main__":
    main()
