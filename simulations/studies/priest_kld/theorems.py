"""Section 4's claims beside what holds: unbiasedness (Thm 4.3, 4.7) and variance (Thm 4.4, 4.8).

The theorems ask for laws of full support, which no two digits have: P misses symbols of Π, β is
infinite and so are the bounds. They are therefore held against mixtures, 1 % of each being the mean
of all digits. Noise adds the same σ² to both sides and is left out.
"""

from __future__ import annotations

from functools import partial

import numpy as np

from flwr_kld.papers.estimators import variance_bound
from flwr_kld.simulations.studies.priest_kld.settings import DRAWS, THETA, Study
from flwr_kld.simulations.studies.priest_kld.written import Written
from flwr_kld.simulations.studies.resumable import seed_of
from flwr_kld.simulations.studies.runner import Row, significant

six = partial(significant, digits=6)
_LAMBDAS = (0.0, 0.1, 1.0)
_RUNS = 400


def theorem_rows(study: Study, written: Written, runs: int = _RUNS) -> list[Row]:
    """Measure Algorithm 1 without noise on every pair; in nats and squared nats."""
    rng = np.random.default_rng(seed_of({"data": study.data}, "theorems"))
    digits = list(study.digits)
    laws = (1 - THETA) * written.laws + THETA * written.laws[digits].mean(axis=0)
    rows: list[Row] = []
    for i, j in study.pairs:
        seen = laws[i] > 0
        pi, p = laws[i][seen], laws[j][seen]
        ratio = p / pi
        times = rng.multinomial(DRAWS, pi, size=runs)
        for lam in _LAMBDAS:
            score = lam * (ratio - 1) - np.log(ratio)
            variance = float(pi @ (score - pi @ score) ** 2)
            drawn = times @ score / DRAWS
            numbers = {
                "lam": lam, "divergence": float(-pi @ np.log(ratio)), "mean": drawn.mean(),
                "standard_error": (variance / DRAWS / runs) ** 0.5,
                "variance": variance / DRAWS, "measured_variance": drawn.var(ddof=1),
                "bound": variance_bound(pi, p, lam) / DRAWS,
            }  # fmt: skip
            rows.append(
                {"reference_digit": i, "client_digit": j}
                | {name: six(number) for name, number in numbers.items()}
            )
    return rows


def theorem_summary(rows: list[Row], study: Study, written: Written) -> Row:
    """Say in how many pairs the claims hold."""
    plain = [(written.laws[i], written.laws[j]) for i, j in study.pairs]
    infinite = sum(bool((p[pi > 0] == 0).any()) for pi, p in plain)
    outside = float(np.mean([p[pi == 0].sum() for pi, p in plain]))
    away = [abs(row["mean"] - row["divergence"]) / row["standard_error"] for row in rows]
    return {
        "pairs whose bound is infinite as they are": infinite,
        "mean share of P outside the support of the reference": six(outside),
        "largest bias of mixtures, standard errors": six(max(away)),
        "bound over variance": {
            f"lam = {lam:g}": {
                "least": six(min(ratios)),
                "median": six(float(np.median(ratios))),
            }
            for lam in _LAMBDAS
            for ratios in [[r["bound"] / r["variance"] for r in rows if r["lam"] == lam]]
        },
    }
