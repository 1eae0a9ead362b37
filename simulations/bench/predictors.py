"""Speed and size of the default predictor at K = 100 hypotheses and M = 65,536 labels."""

from __future__ import annotations

import json
from collections.abc import Iterator

import numpy as np
from measuring import Row, cpu, measured

from flwr_kld.kernel.law import SystemBits
from flwr_kld.predictors import BayesMixture
from flwr_kld.predictors.designs import optimal_design
from flwr_kld.predictors.local_report import LocalReports
from flwr_kld.predictors.query import Query
from flwr_kld.simulations.studies.predictor_learners import dirichlet, hypotheses_of

_REPORTS, _QUERIES = 1_000_000, 50
_ROUNDS, _COHORT = 64, 200
"""As many rounds as `PrivatePredictor` keeps apart."""


def rows(repeats: int = 5, *, quick: bool = False) -> Iterator[Row]:
    """Time the design of the queries, a client's report, and an update; ε = 0.5, 1 and 4."""
    hypotheses, labels = (10, 1000) if quick else (100, 65_536)
    candidates = hypotheses_of(dirichlet(hypotheses, labels, np.random.default_rng(1)))
    for epsilon in (1.0,) if quick else (0.5, 1.0, 4.0):
        predictor = BayesMixture(candidates, epsilon, design="design")
        config = predictor.query(0).to_config()
        million = _reports(predictor, _REPORTS, 1)

        def design(epsilon: float = epsilon) -> None:
            optimal_design.cache_clear()
            optimal_design(candidates.at(), epsilon)

        def answers(config: dict[str, int | bytes] = config) -> None:
            for _ in range(_QUERIES):
                Query.from_config(config, labels).answer(3, SystemBits())

        kept = BayesMixture(candidates, epsilon, design="design")
        for number in range(_ROUNDS):
            kept.update(_reports(kept, _COHORT, number))
        state = len(json.dumps(kept.state())) / 1000
        for what, run in (
            ("design of the queries", design),
            (f"{_QUERIES} clients read a query and answer", answers),
            (
                f"{_REPORTS:,} reports (state of {_ROUNDS} rounds of {_COHORT}: {state:.0f} kB)",
                lambda: predictor.update(million),  # noqa: B023
            ),
        ):
            yield measured("predictor", f"ε = {epsilon:g}: {what}", cpu(run), repeats=repeats)


def _reports(predictor: BayesMixture, count: int, number: int) -> LocalReports:
    """Draw as many reports as clients of one hypothesis would send in a round."""
    design, rng = predictor.design(), np.random.default_rng(number)
    law = design.law[:, 0] * np.repeat(design.shares, np.diff(design.starts))
    rows = rng.choice(len(law), size=count, p=law / law.sum())
    queries = np.searchsorted(design.starts, rows, side="right") - 1
    return LocalReports(number, queries, rows - design.starts[queries])
