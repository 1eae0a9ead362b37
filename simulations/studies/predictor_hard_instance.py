"""The paper's hardest class as a benchmark.

Run ``python simulations/studies/predictor_hard_instance.py [--quick] [--workers 2] [--out DIR]``;
the same command goes on where it was stopped.
Theorem 3's class is 2K laws on N labels from rows of a Hadamard matrix: K pairs that differ by so
little that T reports can hardly tell which of a pair is true. Measured risks, averaged over the
true law, stand beside two lower bounds for anything that is epsilon-private: the paper's T a / 132,
and the same argument with its constants kept (`lower_bound`), about twenty times higher.

Writes ``predictor_hard_instance.csv`` and ``.json``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import product

import numpy as np
from scipy.linalg import hadamard

from flwr_kld.papers.learners import LocallyPrivateWMA, PureLocalEXP3
from flwr_kld.predictors import BayesMixture
from flwr_kld.predictors.bayes_mixture import kl_risk_bound
from flwr_kld.simulations.studies.predictor_learners import (
    Floats,
    Learner,
    Mixture,
    Scores,
    hypotheses_of,
    run,
)
from flwr_kld.simulations.studies.resumable import Arrays, Configuration
from flwr_kld.simulations.studies.runner import (
    Row,
    computed,
    grouped,
    resumable_parser,
    save,
    show,
    significant,
)

EPSILON, HORIZON, PAIRS = 1.0, 100_000, (31, 127)
LEARNERS = ("default", "design", "ovr", "adaptive", "algorithm 2", "algorithm 1")
ROUND = 100
"""Reports between two choices of queries, where these adapt."""
DELTA = 1e-6
FEWER = {"adaptive": 8, "algorithm 1": 3}
"""Repeats of what takes long."""
_VERSION = 1


def gap_of(pairs: int) -> float:
    """Return the paper's a (eq. 16): how far the laws of a pair are apart."""
    least = min(math.expm1(EPSILON) ** 2, 1.0) * math.exp(EPSILON)
    return math.sqrt(pairs / (9 * HORIZON * least))


def hard_class(pairs: int) -> Floats:
    """Theorem 3's 2K laws (eq. 16), shape [2K, N]; pair i is in rows 2i and 2i + 1."""
    labels = 1 << pairs.bit_length()
    signs = hadamard(labels)[1 : pairs + 1]
    first = np.where(signs < 0, 2 / labels, 0.0)
    return np.stack([first, first + signs * gap_of(pairs) / labels], axis=1).reshape(-1, labels)


def lower_bound(pairs: int) -> float:
    """Cumulative risk that no epsilon-private predictor can beat on average over the class, nats.

    Le Cam's two points with the paper's Parseval argument, all constants kept: a genie names the
    pair; the Bayes risk of the rest after t reports is at least ``JS (1 - TV_t)`` by concavity of
    mutual information; ``TV_t <= √(t KL / 2)``, and the KL of a report is at most
    ``a² (e**(ε/2) - 1)² / K`` on average over pairs (the paper has ``a² min(…) e**ε / 2K``).
    """
    a = gap_of(pairs)
    jensen_shannon = (
        0.5 * math.log(2 / (2 - a / 2))
        + 0.25 * a * math.log(2)
        + 0.5 * (1 - a / 2) * math.log((2 - a) / (2 - a / 2))
    )
    seen = HORIZON * a**2 * math.expm1(EPSILON / 2) ** 2 / pairs
    return HORIZON * jensen_shannon * (1 - 2 / 3 * math.sqrt(seen / 2))


def perturbed(hypotheses: int, distance: float) -> Floats:
    """Laws ``(1 + 2 alpha h_i) / N``: any two are `distance` apart in total variation."""
    labels = 1 << hypotheses.bit_length()
    return np.asarray((1 + 2 * distance * hadamard(labels)[1 : hypotheses + 1]) / labels)


def learner_of(
    method: str,
    table: Floats,
    true: int,
    horizon: int,
    rng: np.random.Generator,
    epsilon: float = EPSILON,
) -> Learner:
    """Set up a learner by its name."""
    hypotheses = hypotheses_of(table)
    k, law = len(table), table[true]
    special: dict[str, Callable[[], Learner]] = {
        "algorithm 2": lambda: Scores(
            PureLocalEXP3(hypotheses.at(), epsilon, horizon=horizon), law, k, rng
        ),
        "algorithm 1": lambda: Scores(
            LocallyPrivateWMA(hypotheses.at(), epsilon, delta=DELTA, horizon=horizon), law, 1, rng
        ),
    }
    if method in special:
        return special[method]()
    predictor = BayesMixture(hypotheses, epsilon, design=method, share=0.0)
    return Mixture(predictor, np.eye(k)[true], rng)


def measure(shared: None, task: Configuration) -> Arrays:
    """Run a learner on the hard class."""
    k, repeat = task["pairs"], task["repeat"]
    table, rng = hard_class(k), np.random.default_rng([k, repeat])
    true = int(rng.integers(2 * k))
    learner = learner_of(task["method"], table, true, HORIZON, rng)
    every = ROUND if task["method"] == "adaptive" else 0
    trajectory = run(learner, table[true], HORIZON, every=every)
    return {
        "risk": np.array(trajectory.risk(HORIZON)),
        "mean_tv": np.array(trajectory.mean_tv(HORIZON)),
    }


def bounds() -> list[Row]:
    """Bound the risk on the hard class from below, as printed and better, and our own above."""
    rows = []
    for pairs in PAIRS:
        hypotheses = hypotheses_of(hard_class(pairs))
        laws = hypotheses.at()
        ours = kl_risk_bound(BayesMixture(hypotheses, EPSILON, design="default").design())
        uniform = [p[p > 0] @ np.log(p[p > 0] / laws.mean[p > 0]) for p in laws.probabilities]
        rows.append({
            "hypotheses": 2 * pairs, "lower_as_printed": HORIZON * gap_of(pairs) / 132,
            "lower_constants_kept": lower_bound(pairs), "upper_static_default": float(ours.mean()),
            "uniform_mixture": HORIZON * float(np.mean(uniform)),
        })  # fmt: skip
    return rows


def averaged(found: Sequence[tuple[Configuration, Arrays]], *names: str) -> list[Row]:
    """Mean of each setting over its repeats, and its standard error."""
    rows = []
    for key, own in grouped(found, *names).items():
        row: Row = dict(zip(names, key, strict=True))
        for name in own[0]:
            values = np.array([float(result[name]) for result in own])
            row |= {name: significant(values.mean(), 6)}
            row |= {f"{name}_error": significant(values.std() / math.sqrt(len(own)), 3)}
        rows.append({**row, "repeats": len(own)})
    return rows


def tasks_of(*, quick: bool) -> list[Configuration]:
    """Return a task for each run."""
    repeats, pairs = (2, PAIRS[:1]) if quick else (16, PAIRS)
    return [
        {"study": "predictor hard instance", "version": _VERSION, "part": "risk", "pairs": k,
         "method": method, "repeat": repeat}
        for k, method in product(pairs, LEARNERS)
        for repeat in range(min(repeats, FEWER.get(method, repeats)))
    ]  # fmt: skip


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the study."""
    parser = resumable_parser(__doc__, out="predictor_hard_instance")
    parser.add_argument("--quick", action="store_true", help="|F| = 62 and two repeats")
    chosen = parser.parse_args(arguments)
    found = computed(measure, None, tasks_of(quick=chosen.quick), chosen)
    risks = averaged(found, "pairs", "method")
    show("bounds on KL-risk in nats", bounds())
    show(f"Theorem 3's class, T = {HORIZON:,}, ε = {EPSILON:g}: KL-risk in nats", risks)
    save(risks, chosen.out, "predictor_hard_instance", {"bounds": bounds()})


if __name__ == "__main__":
    main()
