"""What hypothesis selection and prediction need where a trust model adds labels up.

    python simulations/studies/selection_from_counts.py [--runs 200] [--workers 2] [--out DIR]

The laws, truths and question of `predictor_select`, which asks under local privacy: K laws any two
of which are .2 apart. Here each client's label is counted in one noised histogram, whose noise is
that of `Trusted`, or of two aggregators that each add as much. The number of reports is the least,
within four per cent, with which `CountsMixture.select` is right in nine runs of ten.

And the cumulative KL-risk of predictions in the paper's protocol, of laws that are more or less far
apart: of counts, one histogram a round, and of local reports, in the same rounds. Beside it stands
the order of the paper's Theorems 1 and 2, ``√(K T) / ε``, which is for local privacy.

Noise is seeded: nothing here is private. Writes ``selection_from_counts.csv``, ``risk.csv`` and
``.json``.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from flwr_kld.kernel.law import noise_sum
from flwr_kld.kernel.release import Release
from flwr_kld.predictors import BayesMixture, Hypotheses
from flwr_kld.predictors.counts_mixture import CountsMixture
from flwr_kld.query.noisy import NoisyCounts
from flwr_kld.query.plan import each_symbol
from flwr_kld.simulations.studies.predictor_learners import Floats, Learner, Mixture, run
from flwr_kld.simulations.studies.predictor_select import AWAY, CHANCE, FACTOR, known, order
from flwr_kld.simulations.studies.runner import Row, in_processes, parser_of, save, show
from flwr_kld.strategies import Trusted

HYPOTHESES, EPSILONS, ALPHA = (8, 32, 128), (0.5, 1.0, 2.0), 0.2
ADDERS = {"trusted": 1, "two aggregators": 2}
"""Who add noise, each as much as would do alone."""

DISTANCES, HORIZON, ROUND = (0.025, 0.05, 0.1, 0.2, 0.4), 10_000, 50
RISK_RUNS, RISK_EPSILON = 4, 1.0
"""Runs of a setting at most, as adaptive local queries to 128 laws take long; ε of each report."""

Item = tuple[str, str, int, float, int]


def noise_of(way: str, epsilon: float) -> Release:
    """Return the release, with all noise that is in it."""
    event = Trusted(epsilon).event(1)
    return replace(event, added=noise_sum(event.table, ADDERS[way]))


def right(item: Item, reports: int) -> tuple[float, int]:
    """Return the fraction of runs that select rightly, and how many guarantees were wrong."""
    way, truth, k, epsilon, runs = item
    table, hypotheses = known(k, ALPHA)
    plan, event = each_symbol(hypotheses.domain), noise_of(way, epsilon)
    noise, rng = event.noise, np.random.default_rng([reports, k, runs])
    odds = noise.probabilities / noise.probabilities.sum()
    found = wrong = 0
    for _ in range(runs):
        best, other = rng.permutation(k)[:2]
        law = (1 - AWAY[truth]) * table[best] + AWAY[truth] * table[other]
        counts = rng.multinomial(reports, law) + rng.choice(noise.support, len(law), p=odds)
        mixture = CountsMixture(hypotheses, share=0.0)
        counted = NoisyCounts(counts, float(reports), event, plan, False)
        mixture.update(1, counted, held=True)
        chosen = mixture.select(factor=FACTOR)
        far = np.abs(table - law).sum(axis=1) / 2
        found += bool(far[chosen.index] <= FACTOR * far.min() + 1e-12)
        held = far[chosen.index] <= FACTOR * far.min() + chosen.slack + 1e-12
        wrong += not (held and chosen.distance <= far[chosen.index] + 1e-12)
    return found / runs, wrong


def needed(item: Item) -> Row:
    """Search for the number of reports of one setting."""
    way, truth, k, epsilon, _ = item
    low, high, wrong = 8, 16, 0

    def enough(reports: int) -> bool:
        nonlocal wrong
        found, broken = right(item, reports)
        wrong += broken
        return found >= CHANCE

    while not enough(high):
        low, high = high, 2 * high
    while high - low > max(1, high // 25):
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return {
        "way": way, "truth": truth, "K": k, "epsilon": epsilon, "reports": high,
        "over_order": round(high / order(k, epsilon, ALPHA), 4), "guarantees_wrong": wrong,
    }  # fmt: skip


class Counts:
    """A `CountsMixture` that is given one noised histogram a round."""

    def __init__(
        self, hypotheses: Hypotheses, law: Floats, event: Release, rng: np.random.Generator
    ) -> None:
        self._mixture = CountsMixture(hypotheses, share=0.0)
        self._plan = each_symbol(hypotheses.domain)
        self._law, self._event, self._rng, self._round = law, event, rng, 0

    def predict(self) -> Floats:
        """Distribution of the next label, shape [M]."""
        return self._mixture.predict()

    def learn(self, count: int) -> None:
        """Let so many clients report, in a round of their own."""
        noise = self._event.noise
        odds = noise.probabilities / noise.probabilities.sum()
        counts = self._rng.multinomial(count, self._law)
        counts += self._rng.choice(noise.support, len(counts), p=odds)
        self._round += 1
        counted = NoisyCounts(counts, float(count), self._event, self._plan, False)
        self._mixture.update(self._round, counted, held=True)
        self._mixture.settle(self._round)


def risk(item: tuple[int, float, int]) -> Row:
    """Add up the KL-risk of one setting's predictions: counts', and local reports'."""
    k, alpha, runs = item
    table, hypotheses = known(k, alpha)
    event, rng = noise_of("two aggregators", RISK_EPSILON), np.random.default_rng([k, runs])
    found: dict[str, list[float]] = {"counts": [], "local": []}
    for _ in range(runs):
        true = int(rng.integers(k))
        local = BayesMixture(hypotheses, RISK_EPSILON, share=0.0)
        learners: dict[str, Learner] = {
            "counts": Counts(hypotheses, table[true], event, rng),
            "local": Mixture(local, np.eye(k)[true], rng),
        }
        for way, learner in learners.items():
            told = run(learner, table[true], HORIZON, every=ROUND)
            found[way].append(ROUND * float(told.kl.sum()))
    paper = math.sqrt(k * HORIZON) / RISK_EPSILON
    means = {way: round(float(np.mean(risks)), 1) for way, risks in found.items()}
    return {
        "K": k, "alpha": alpha, **means,
        "counts_over_order": round(means["counts"] / paper, 4),
        "local_over_order": round(means["local"] / paper, 4),
    }  # fmt: skip


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the study."""
    chosen = parser_of(
        __doc__, out="selection_from_counts", runs=(200, "at each number")
    ).parse_args(arguments)
    items = [
        (way, truth, k, epsilon, chosen.runs)
        for k in HYPOTHESES
        for way in ADDERS
        for truth in AWAY
        for epsilon in EPSILONS
    ]
    rows = list(in_processes(needed, items, chosen.workers, "settings"))
    show("reports until the selection is right with probability .9", rows)
    save(rows, chosen.out, "selection_from_counts")
    settings = [(k, alpha, min(chosen.runs, RISK_RUNS)) for k in HYPOTHESES for alpha in DISTANCES]
    risks = list(in_processes(risk, settings, chosen.workers, "settings"))
    show(f"KL-risk of {HORIZON:,} predictions in nats", risks)
    save(risks, chosen.out, "risk")


if __name__ == "__main__":
    main()
