"""What the study found: a row for each setting, rule, trust model and λ."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np

from flwr_kld.simulations.studies.priest_kld.measure import truths
from flwr_kld.simulations.studies.priest_kld.rules import Floats
from flwr_kld.simulations.studies.priest_kld.settings import (
    CLIENTS,
    DRAWS,
    SERIES,
    THETA,
    Study,
)
from flwr_kld.simulations.studies.priest_kld.written import Written
from flwr_kld.simulations.studies.resumable import Kept
from flwr_kld.simulations.studies.runner import Row, significant

six = partial(significant, digits=6)
_BAND = (0.05, 0.95)


def rows_of(study: Study, written: Written, kept: Kept) -> list[Row]:
    """Compare every series with D_θ of all clients, in nats.

    ``mse`` is the mean over pairs and repeats, ``low`` and ``high`` the 5 % and 95 % quantiles over
    repeats of the mean over pairs; ``noise`` is the root mean square of what the noise changed, in
    percent of the truth. Pairs ``min`` and ``max`` have the least and the largest divergence.
    """
    truth = truths(written, written.counts, list(study.pairs))
    rows: list[Row] = []
    for clients, draws, epsilons in study.settings:
        tasks = [study.task(clients, draws, epsilons, k) for k in range(study.repeats)]
        found = [kept.load(task) for task in tasks]
        for rule, trusts in SERIES.items():
            lambdas = (0.0,) if rule == "default" else study.lambdas
            for trust in trusts:
                levels: tuple[float | None, ...] = (None,) if trust == "none" else epsilons
                values, clean = (
                    np.stack([each[f"{rule}/{who}"] for each in found if each]).astype(np.float64)
                    for who in (trust, "none")
                )
                values = values.reshape(study.repeats, len(levels), len(lambdas), len(truth))
                clean = clean.reshape(study.repeats, 1, len(lambdas), len(truth))
                for e, epsilon in enumerate(levels):
                    for at, lam in enumerate(lambdas):
                        head = {"clients": clients, "draws": draws, "epsilon": epsilon,
                                "rule": rule, "trust": trust, "lam": lam}  # fmt: skip
                        rows.append(head | _compared(values[:, e, at], clean[:, 0, at], truth))
    return rows


def _compared(values: Floats, clean: Floats, truth: Floats) -> Row:
    """Errors of one series; estimates have shape [repeats, pairs]."""
    error = values - truth
    by_pair, by_repeat = (error**2).mean(axis=0), (error**2).mean(axis=1)
    noise = 100 * np.sqrt(((values - clean) ** 2).mean(axis=0)) / truth
    least, most = int(truth.argmin()), int(truth.argmax())
    low, high = np.quantile(by_repeat, _BAND)
    numbers = {
        "mse": by_pair.mean(), "low": low, "high": high,
        "mse_min": by_pair[least], "mse_max": by_pair[most], "bias": error.mean(),
        "noise": noise.mean(), "noise_min": noise[least], "noise_max": noise[most],
    }  # fmt: skip
    return {name: six(number) for name, number in numbers.items()} | {"repeats": len(values)}


def pick(rows: list[Row], **where: Any) -> list[Row]:
    """Rows that have these values."""
    return [row for row in rows if all(row[name] == value for name, value in where.items())]


def curves(rows: list[Row], clients: int, draws: int) -> Iterator[list[Row]]:
    """Yield the rows of every ε, rule and trust model in a setting, over λ."""
    here = pick(rows, clients=clients, draws=draws)
    for rule, trust, epsilon in dict.fromkeys(
        (row["rule"], row["trust"], row["epsilon"]) for row in here
    ):
        yield pick(here, rule=rule, trust=trust, epsilon=epsilon)


def best(rows: list[Row]) -> Row:
    """Row of the λ that errs least, chosen in hindsight as in the paper."""
    return min(rows, key=lambda row: row["mse"])


def summary_of(rows: list[Row], study: Study, written: Written) -> Row:
    """Say what was studied, and what it must show."""
    truth = truths(written, written.counts, list(study.pairs))
    here = {"clients": CLIENTS, "draws": DRAWS, "epsilon": 0.5, "trust": "distributed"}
    paper = pick(rows, **here, rule="paper")
    found: Row = {
        "private": False,
        "randomness": "seeded by each task's configuration; noise of the implemented laws",
        "data": study.data,
        "writers": written.writers,
        "records": len(written.symbol),
        "theta": THETA,
        "repeats": study.repeats,
        "pairs": len(truth),
        "truth": {
            "least": six(truth.min()),
            "mean": six(truth.mean()),
            "largest": six(truth.max()),
        },
    }
    if paper:
        (ours,) = pick(rows, **here, rule="default")
        found["distributed: paper's MSE over ours"] = {
            "lam = 0": six(pick(paper, lam=0.0)[0]["mse"] / ours["mse"]),
            "best lam": six(best(paper)["mse"] / ours["mse"]),
        }
    return found
