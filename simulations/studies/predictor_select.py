"""How many reports `BayesMixture.select` needs: sample complexity of private hypothesis selection.

Run ``python simulations/studies/predictor_select.py [--runs 40] [--quick] [--out DIR]``; the
same command goes on where it was stopped. K laws any two of which are α apart in total variation;
the truth is one of them, or four fifths of one and a fifth of another. Only the first is within the
factor 3 of the guarantee then: the second is four times as far from the truth, all others five
times. Each round has a quarter of the reports before it. What a run gives is the number of reports
from which on `select` names that hypothesis, and a setting the 90 % quantile of its runs.

Beside it stands the order of Gopi et al. 2020, ``K / (α² min(ε, 1)²)``, whose constants and
logarithms are not printed in what cites it, and what one design for all rounds is proved to need.

Writes ``predictor_select.csv`` and ``.json``.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from scipy.linalg import hadamard

from flwr_kld.predictors import BayesMixture, Hypotheses
from flwr_kld.predictors.selection import PairScores, select
from flwr_kld.simulations.studies.predictor_learners import (
    Floats,
    Mixture,
    affinities,
    hypotheses_of,
)
from flwr_kld.simulations.studies.resumable import Arrays, Configuration, seed_of
from flwr_kld.simulations.studies.runner import (
    Row,
    computed,
    console,
    grouped,
    parser_of,
    save,
    show,
    significant,
)

HYPOTHESES = (2, 4, 8, 16, 32, 64, 128)
SETTINGS = ((0.5, 0.2), (1.0, 0.2), (2.0, 0.2), (1.0, 0.1), (1.0, 0.4))
"""Of epsilon and α."""
AWAY = {"inside": 0.0, "outside": 0.2}
"""Of the truth's mass, on another hypothesis."""
BLOCK = 8
"""Runs of a task."""
CHANCE, FACTOR, CONFIDENCE = 0.9, 3.0, 0.95
FIRST, GROWTH = 16, 0.25
SURE = 1 - 1e-9
"""Weight of one hypothesis from which on nothing changes that a table would show."""
MOST = 10**8
"""Reports of a run, at most."""
_VERSION = 1


def tasks_of(runs: int, hypotheses: Sequence[int] = HYPOTHESES) -> list[Configuration]:
    """Return a task for each block of runs; those that take longest come first."""
    return [
        {"study": "predictor selection", "version": _VERSION, "K": k, "epsilon": epsilon,
         "alpha": alpha, "truth": truth, "block": block}
        for k in sorted(hypotheses, reverse=True)
        for epsilon, alpha in SETTINGS
        for truth in AWAY
        for block in range(math.ceil(runs / BLOCK))
    ]  # fmt: skip


def perturbed(hypotheses: int, distance: float) -> Floats:
    """Laws ``(1 + 2 alpha h_i) / N``: any two are `distance` apart in total variation."""
    labels = 1 << hypotheses.bit_length()
    return np.asarray((1 + 2 * distance * hadamard(labels)[1 : hypotheses + 1]) / labels)


def known(hypotheses: int, alpha: float) -> tuple[Floats, Hypotheses]:
    """Laws, shape [K, M], and the hypotheses that say them."""
    table = perturbed(hypotheses, alpha)
    return table, hypotheses_of(table)


def needed(task: Configuration, rng: np.random.Generator) -> tuple[int, bool]:
    """Count the reports from which on the selection is right, and say if its guarantee held."""
    k, away = task["K"], AWAY[task["truth"]]
    table, hypotheses = known(k, task["alpha"])
    best, other = rng.permutation(k)[:2]
    law = (1 - away) * table[best] + away * table[other]
    far = np.abs(table - law).sum(axis=1) / 2
    right = far <= FACTOR * far.min() + 1e-12
    predictor = BayesMixture(hypotheses, task["epsilon"], share=0.0)
    learner = Mixture(predictor, (1 - away) * np.eye(k)[best] + away * np.eye(k)[other], rng)
    scores, total, since, held = PairScores(k), 0, 0, True
    while total < MOST:
        batch = max(FIRST, int(GROWTH * total))
        scores.add(*learner.report(batch))
        total += batch
        apart = scores.distances(1 - CONFIDENCE)
        laws = hypotheses.at()
        chosen, slack = select(laws, predictor.log_weights, apart, FACTOR)
        held = held and bool(
            (apart <= far + 1e-12).all() and far[chosen] <= FACTOR * far.min() + slack + 1e-12
        )
        if not right[chosen]:
            since = 0
        elif not since:
            since = total
        if since and predictor.weights[chosen] > SURE:
            break
    return since or MOST, held


def measure(shared: None, task: Configuration) -> Arrays:
    """Run one block."""
    rng = np.random.default_rng(seed_of(task, "truth and reports"))
    found = [needed(task, rng) for _ in range(BLOCK)]
    return {"reports": np.array([n for n, _ in found]), "held": np.array([h for _, h in found])}


def order(hypotheses: int, epsilon: float, alpha: float) -> float:
    """``K / (α² min(ε, 1)²)``: the order of Gopi et al. 2020, logarithms left out."""
    return hypotheses / (alpha * min(epsilon, 1.0)) ** 2


def proved(hypotheses: int, epsilon: float, alpha: float) -> float:
    """Count the reports with which one-versus-rest is right with .9: ``Σ_i BC_ij**n <= .1``."""
    table = perturbed(hypotheses, alpha)
    design = BayesMixture(hypotheses_of(table), epsilon, design="ovr").design()
    nearest = np.max(affinities(design) - np.eye(hypotheses))
    return math.ceil(math.log((hypotheses - 1) / (1 - CHANCE)) / -math.log(nearest))


def rows_of(found: Sequence[tuple[Configuration, Arrays]]) -> list[Row]:
    """Quantile of each setting over its runs."""
    names = ("truth", "K", "epsilon", "alpha")
    rows: list[Row] = []
    for setting, own in sorted(grouped(found, *names).items()):
        reports = np.concatenate([result["reports"] for result in own])
        quantile = float(np.exp(np.quantile(np.log(reports), CHANCE)))
        least = order(*setting[1:])
        rows.append({
            **dict(zip(names, setting, strict=True)),
            "median": int(np.median(reports)), "reports": round(quantile),
            "over_order": significant(quantile / least, 3),
            "order": round(least), "proved": proved(*setting[1:]),
            "guarantee_held": int(sum(result["held"].sum() for result in own)),
            "runs": len(reports),
        })  # fmt: skip
    return rows


def exponents(rows: Sequence[Row]) -> dict[str, dict[str, float]]:
    """Slopes of ln reports over ln K, ln 1/α and ln 1/ε, for each truth; Gopi et al.: 1, 2, 2."""
    found = {}
    for truth in AWAY:
        own = [row for row in rows if row["truth"] == truth]
        over = np.log([[math.e, r["K"], 1 / r["alpha"], 1 / r["epsilon"]] for r in own])
        if np.linalg.matrix_rank(over) < over.shape[1]:
            continue
        slopes = np.linalg.lstsq(over, np.log([row["reports"] for row in own]), rcond=None)[0]
        found[truth] = {
            name: significant(slope, 3)
            for name, slope in zip(("K", "1/alpha", "1/epsilon"), slopes[1:], strict=True)
        }
    return found


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the study."""
    parser = parser_of(
        __doc__,
        out="predictor_select",
        runs=(40, "of each setting, in blocks of 8"),
        most=(max(HYPOTHESES), "largest K"),
    )
    parser.add_argument("--quick", action="store_true", help="one block, and K up to 8")
    chosen = parser.parse_args(arguments)
    runs, most = (BLOCK, 8) if chosen.quick else (chosen.runs, chosen.most)
    tasks = tasks_of(runs, [k for k in HYPOTHESES if k <= most])
    rows = rows_of(computed(measure, None, tasks, chosen))
    show("reports until the selection is right with probability .9", rows)
    found = exponents(rows)
    console.print(f"exponents: {found}")
    save(rows, chosen.out, "predictor_select", {"exponents": found})


if __name__ == "__main__":
    main()
