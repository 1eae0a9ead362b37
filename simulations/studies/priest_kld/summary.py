"""What the study found: a row for each setting, rule, trust model and λ."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from itertools import product
from typing import Any

import numpy as np

from flwr_kld.simulations.studies.priest_kld.measure import truths
from flwr_kld.simulations.studies.priest_kld.rules import Floats
from flwr_kld.simulations.studies.priest_kld.settings import (
    CLIENTS,
    DRAWS,
    SERIES,
    TAUS,
    THETA,
    Setting,
    Study,
)
from flwr_kld.simulations.studies.priest_kld.written import Written
from flwr_kld.simulations.studies.resumable import Kept
from flwr_kld.simulations.studies.runner import Row, significant

six = partial(significant, digits=6)
_BAND = (0.05, 0.95)
BY_REPEAT = "by repeat"
"""Column of a row's mean square error in each repeat, which no file has."""
TABLE = {
    "Dist, paper": ("paper", "distributed"),
    "dithered": ("dithered", "distributed"),
    "post-processed": ("post-processed", "distributed"),
    "Dist, ours": ("default", "distributed"),
    "Trusted, paper": ("paper", "trusted"),
    "clipped": ("post-processed", "trusted"),
    "TAgg, paper": ("paper", "aggregator"),
    "TAgg, clipped": ("post-processed", "aggregator"),
    "Scalar": ("scalar", "central"),
    "ours": ("default", "central"),
}
"""Columns of the table of docs: a rule and a trust model each."""
RATIOS = "mean square error of baselines over ours"


def rows_of(study: Study, written: Written, kept: Kept) -> list[Row]:
    """Compare every series with D_θ of all clients, in nats.

    ``mse`` is the mean over pairs and repeats, ``low`` and ``high`` the 5 % and 95 % quantiles over
    repeats of the mean over pairs; ``noise`` is the root mean square of what the noise changed, in
    percent of the truth. Pairs ``min`` and ``max`` have the least and the largest divergence.
    """
    truth = truths(written, written.counts, list(study.pairs))
    rows: list[Row] = []
    clean_before = set[Setting]()  # Without noise, values of ε make no difference
    for setting in study.settings:
        alike = replace(setting, epsilons=(), delta=0.0)
        found: dict[str, list[Floats]] = {}
        for k in range(study.repeats):
            results = [kept.load(study.task(setting, part, k)) for part in study.parts(setting)]
            if None in results:
                continue  # so that all rules are compared in the same repeats
            for name, values in (item for each in results if each for item in each.items()):
                found.setdefault(name, []).append(values.astype(np.float64))
        for (rule, trust), (taus, values, clean) in _series(found, len(study.lambdas)).items():
            lambdas = (0.0,) if rule == "default" else study.lambdas
            levels: tuple[float | None, ...] = setting.epsilons
            if trust == "none":
                levels = () if alike in clean_before else (None,)
            for e, epsilon in enumerate(levels):
                for at, (tau, lam) in enumerate(product(taus, lambdas)):
                    head = {"clients": setting.clients, "draws": setting.draws,
                            "delta": setting.delta, "anew": setting.anew, "epsilon": epsilon,
                            "rule": rule, "trust": trust, "tau": tau, "lam": lam}  # fmt: skip
                    rows.append(head | _compared(values[:, e, at], clean[:, 0, at], truth))
        clean_before.add(alike)
    return rows


def _series(
    found: dict[str, list[Floats]], lambdas: int
) -> dict[tuple[str, str], tuple[tuple[float, ...], Floats, Floats]]:
    """Return τ, the estimates and those without noise, [repeats, epsilons, parameters, pairs]."""
    arrays = {name: np.stack(values) for name, values in found.items()}
    arrays = {name: x[:, None] if name.endswith("/none") else x for name, x in arrays.items()}
    for name, x in [*arrays.items()]:
        rule, _, trust = name.partition("/")
        if rule == "default":
            arrays[name] = x[:, :, None]
        elif rule == "taus":
            arrays[f"post-processed/{trust}"] = x
            arrays[f"{'paper' if trust == 'none' else 'dithered'}/{trust}"] = x[:, :, :lambdas]
        elif rule == "paper":
            arrays.setdefault(f"post-processed/{trust}", x)
    series: dict[tuple[str, str], tuple[tuple[float, ...], Floats, Floats]] = {}
    for rule, trust in ((rule, trust) for rule, trusts in SERIES.items() for trust in trusts):
        values = arrays.get(f"{rule}/{trust}")
        clean = arrays.get(f"{'paper' if rule == 'dithered' else rule}/none")
        if values is None or clean is None:
            continue
        if rule in ("post-processed", "scalar"):  # D_θ lies between 0 and -ln θ
            values, clean = (np.clip(x, 0, -math.log(THETA)) for x in (values, clean))
        taus = TAUS if values.shape[2] > lambdas else TAUS[:1]
        series[rule, trust] = taus, values, clean
    return series


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
    found: Row = {name: six(number) for name, number in numbers.items()}
    return found | {"repeats": len(values), BY_REPEAT: by_repeat}


def pick(rows: list[Row], **where: Any) -> list[Row]:
    """Rows that have these values."""
    return [row for row in rows if all(row[name] == value for name, value in where.items())]


def best(rows: list[Row]) -> Row:
    """Row of the λ and τ that err least, chosen in hindsight as in the paper."""
    return min(rows, key=lambda row: row["mse"])


def at_best(rows: list[Row], clients: int) -> Iterator[tuple[Row, dict[str, Row]]]:
    """Yield each setting of so many clients, and the table's rules at their best λ and τ."""
    here, names = pick(rows, clients=clients, draws=DRAWS), ("epsilon", "delta", "anew", "repeats")
    for values in dict.fromkeys(tuple(row[name] for name in names) for row in here):
        fixed = dict(zip(names, values, strict=True))
        if fixed["epsilon"] is not None:
            found = {name: pick(here, **fixed, rule=rule, trust=trust)
                     for name, (rule, trust) in TABLE.items()}  # fmt: skip
            yield fixed, {name: best(own) for name, own in found.items() if own}


def table_of(rows: list[Row], clients: int) -> list[Row]:
    """Return the mean squared errors in nats², a row for each setting."""
    return [
        fixed | {name: rules[name]["mse"] if name in rules else "–" for name in TABLE}
        for fixed, rules in at_best(rows, clients)
    ]


def ratio(above: Row, below: Row) -> tuple[float, float]:
    """Quotient of two mean square errors, and its standard error over repeats (delta method)."""
    a, b = above[BY_REPEAT], below[BY_REPEAT]
    quotient = a.mean() / b.mean()
    error = (a - quotient * b).std(ddof=1) / math.sqrt(len(a)) / b.mean()
    return significant(quotient, 3), significant(error, 2)


def ratios(rows: list[Row], clients: int) -> list[Row]:
    """Compare what errs least of each baseline with our defaults of the same trust model."""
    found = []
    for fixed, rules in at_best(rows, clients):
        if fixed["repeats"] == 1:
            continue  # no standard error
        for least in rules.values():
            ours = rules.get("Dist, ours" if least["trust"] == "distributed" else "ours")
            if ours and least["rule"] != "default":
                quotient, error = ratio(least, ours)
                shown = {name: least[name] for name in ("rule", "trust", "tau", "lam", "mse")}
                shown |= {"ours": ours["mse"], "ratio": quotient, "standard_error": error}
                found.append(shown | fixed)
    return found


def summary_of(rows: list[Row], study: Study, written: Written) -> Row:
    """Say what was studied, and what it must show."""
    truth = truths(written, written.counts, list(study.pairs))
    return {
        "private": False,
        "randomness": "seeded by each task's configuration; noise of the implemented laws",
        "data": study.data,
        "writers": written.writers,
        "records": len(written.symbol),
        "symbols that occur": len(written.occurring),
        "left out": list(study.left_out),
        "theta": THETA,
        "repeats": study.repeats,
        "pairs": len(truth),
        "truth": {
            "least": six(truth.min()),
            "mean": six(truth.mean()),
            "largest": six(truth.max()),
        },
        RATIOS: ratios(rows, study.of_paper(CLIENTS)),
    }
