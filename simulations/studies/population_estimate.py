"""A divergence from one cohort's noised counts, by every estimator: errors, and what is stated.

Run ``python simulations/studies/population_estimate.py [--writers writers.npz] [--everyone]
[--runs 10] [--splits 1] [--workers 2] [--out DIR]``. Real digits: half of the writers give the
reference of one digit; the others are a population who write the same or another one, and a check
asks a random cohort of them, or everyone, each with all records. The population's truth is the law
of all of these writers, the cohort's that of its own records. Without ``--writers``, virtual
writers redraw scikit-learn's digits. The first number of a report: all digits of half of the
writers are the reference, each of the others is asked for 50 records of whatever digit, and the
number is to be within two of its stated deviations of the D_θ of their own laws.
Writes ``population_estimate.csv`` and ``.json``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from itertools import product

import numpy as np

from flwr_kld.calibration.central import calibrated_laplace
from flwr_kld.clients.handwriting.dataset import Handwriting
from flwr_kld.domain.base import Domain
from flwr_kld.inference.divergence import skewed_divergence
from flwr_kld.inference.estimators.posterior_counts import posterior_counts
from flwr_kld.inference.estimators.posterior_ratios import posterior_ratios
from flwr_kld.inference.estimators.score import THETA, Floats
from flwr_kld.kernel import Guarantee
from flwr_kld.kernel.law import SeededBits
from flwr_kld.kernel.vector import ClearSum, ClientRows
from flwr_kld.query.noisy import NoisyCounts, noisy
from flwr_kld.query.partition import Partition
from flwr_kld.reference import Reference
from flwr_kld.simulations.handwriting.source import load_writers, split_writers
from flwr_kld.simulations.studies.checks import Checks
from flwr_kld.simulations.studies.hands import Hands, Writers
from flwr_kld.simulations.studies.papers.estimators import paper
from flwr_kld.simulations.studies.records import Integers
from flwr_kld.simulations.studies.runner import Row, generator, in_processes, parser_of, save, show
from flwr_kld.trust.trusted import Trusted

EPSILONS = (0.05, 0.2, 0.5, 1.0, 3.0, 5.0)
_ESTIMATORS = (("cohort", posterior_counts), ("population", posterior_ratios), ("cohort", paper))
"""Whose divergence each is of."""
_VIRTUAL_WRITERS, _VIRTUAL_RECORDS = 700, 80
_EACH, _FIRST = 50, (0.3, 1.0, 3.0, 8.0)
"""Records of a writer in a report, and its ε."""


@dataclass(frozen=True, eq=False)
class World:
    """Digits of many writers: half of them in the past, half of them now."""

    domain: Domain  # Of patterns
    past: Integers  # Records of each symbol, by digit, shape [10, size]
    now: list[Hands]  # What the other writers write, by digit
    hands: Hands  # All of it

    @classmethod
    def of(cls, data: Handwriting, split: int) -> World:
        """Split the writers."""
        past, now = split_writers(data, split)
        domain = data.patterns()
        symbols = domain.encode(past.images)
        counts = [np.bincount(symbols[past.labels == d], minlength=domain.size) for d in range(10)]
        by_digit = [Hands.of(now.with_labels([d])) for d in range(10)]
        return cls(domain, np.stack(counts), by_digit, Hands.of(now))

    def everyone(self, digit: int) -> Integers:
        """Count all records of all of these writers, shape [size]."""
        return np.bincount(self.now[digit].symbols, minlength=self.domain.size)

    def cohort(self, digit: int, rng: np.random.Generator) -> Integers:
        """Count all records of random writers, half as many as there are, shape [size]."""
        hands = self.now[digit]
        who = rng.integers(0, len(hands.size), len(hands.size) // 2)
        places = [np.arange(hands.start[i], hands.start[i] + hands.size[i]) for i in who]
        return np.bincount(hands.symbols[np.concatenate(places)], minlength=self.domain.size)

    def law(self, digit: int) -> Floats:
        """P of all of these writers, shape [size]."""
        counts = self.everyone(digit)
        return np.asarray(counts / counts.sum(), dtype=np.float64)


@cache
def world(source: str, split: int) -> World:
    """Load a world."""
    return World.of(load_writers(source, _VIRTUAL_WRITERS, _VIRTUAL_RECORDS), split)


def readings(
    reference: Reference, population: Floats, cohort: Integers, epsilon: float, seed: int
) -> list[Row]:
    """Read one cohort with every estimator; each has its own truth."""
    plan = Partition(max(reference.domain.size, 16)).draw(reference, np.random.default_rng(0))
    counts = np.bincount(plan.cell_of, cohort, plan.cells).astype(np.int32)
    event = calibrated_laplace(Guarantee(epsilon))
    clear = ClearSum(plan.layout, ClientRows(counts[None], plan.layout))
    published = noisy(clear.release(event, SeededBits(seed)), plan)
    if not isinstance(published, NoisyCounts):
        raise TypeError("estimators read counts")
    truth = {
        "population": skewed_divergence(reference.probabilities, population, THETA),
        "cohort": skewed_divergence(reference.probabilities, cohort, THETA),
    }
    rows = []
    for target, estimator in _ESTIMATORS:
        found = estimator(published)
        # Of the cohort everything is known but the noise.
        stated = found.error.privacy if target == "cohort" else found.error.total
        rows.append(
            {
                "epsilon": epsilon, "estimator": estimator.__name__, "target": target,
                "truth": truth[target], "estimate": found.value, "stated": stated,
            }
        )  # fmt: skip
    return rows


def of_digits(item: tuple[str, bool, int, int, int]) -> list[Row]:
    """Read cohorts who write one digit against the reference of another, at every ε."""
    source, everyone, split, past, now = item
    found = world(source, split)
    reference = Reference.from_counts(found.domain, found.past[past])
    rng = generator("digits", split, past, now)
    rows = []
    for epsilon in EPSILONS:
        seed = int(rng.integers(2**32))
        cohort = found.everyone(now) if everyone else found.cohort(now, rng)
        rows += readings(reference, found.law(now), cohort, epsilon, seed)
    drift = "same digit" if past == now else "another digit"
    return [{"drift": drift, "past": past, "now": now, **row} for row in rows]


def first_number(item: tuple[str, int, float, int]) -> Row:
    """Say how far the first number of one report is from the truth, in stated deviations."""
    source, split, epsilon, run = item
    found = world(source, split)
    reference = Reference.from_counts(found.domain, found.past.sum(axis=0))
    checks = Checks(reference, Trusted(epsilon), 0.05, drawn=False)
    rng, size = generator("all digits", split, run), found.domain.size
    plan, everyone = checks.plan(rng), np.arange(len(found.hands.size))
    asked = Writers(found.hands, found.hands, 0.0, _EACH, size).written(plan, everyone, rng)
    column = next(iter(checks.conclude(checks.ask(plan, asked, rng)).values()))
    told = column.reading
    truth = skewed_divergence(reference.probabilities, found.hands.law(size), THETA)
    if told.population_estimate is None or told.population_deviation is None:
        raise ValueError(told.note)
    off = told.population_estimate - truth
    return {"epsilon": epsilon, "truth": truth, "off": off, "z": off / told.population_deviation}


def within(rows: Sequence[Row]) -> list[Row]:
    """Say how often the first number is within two of its stated deviations, for each ε."""
    found: list[Row] = []
    for epsilon in dict.fromkeys(row["epsilon"] for row in rows):
        own = [row for row in rows if row["epsilon"] == epsilon]
        z, off = np.array([row["z"] for row in own]), np.array([row["off"] for row in own])
        found.append(
            {
                "epsilon": epsilon, "reports": len(own), "within_2": float(np.mean(np.abs(z) <= 2)),
                "z_rms": float(np.sqrt(np.mean(z**2))), "rmse": float(np.sqrt(np.mean(off**2))),
                "truth": own[0]["truth"],
            }
        )  # fmt: skip
    return found


def summary(rows: Sequence[Row], *by: str) -> list[Row]:
    """Root mean square error, bias, and what was stated, for each estimator and value of `by`."""
    found: list[Row] = []
    for key in dict.fromkeys(tuple(row[name] for name in (*by, "estimator")) for row in rows):
        chosen = [row for row in rows if tuple(row[n] for n in (*by, "estimator")) == key]
        off = np.array([row["estimate"] - row["truth"] for row in chosen])
        stated = np.array([row["stated"] for row in chosen])
        z = off / np.maximum(stated, 1e-9)
        found.append(
            {
                **dict(zip((*by, "estimator"), key, strict=True)), "target": chosen[0]["target"],
                "rmse": float(np.sqrt(np.mean(off**2))), "bias": float(off.mean()),
                "stated": float(np.sqrt(np.mean(stated**2))), "z_sd": float(z.std()),
                "z_rms": float(np.sqrt(np.mean(z**2))),
            }
        )  # fmt: skip
    return found


def main() -> None:
    """Run the study."""
    parser = parser_of(
        __doc__,
        out="population_estimate",
        splits=(1, "random halves of the writers"),
        runs=(10, "reports at each ε"),
    )
    parser.add_argument("--writers", default="digits", help="of an .npz file, or femnist")
    parser.add_argument("--everyone", action="store_true", help="ask all of the other writers")
    given = parser.parse_args()
    splits = range(1, given.splits + 1)
    digits = [
        (given.writers, given.everyone, *item) for item in product(splits, range(10), range(10))
    ]
    written = [r for rows in in_processes(of_digits, digits, given.workers, "digits") for r in rows]
    by_drift, pooled = summary(written, "epsilon", "drift"), summary(written, "epsilon")
    reports = product([given.writers], splits, _FIRST, range(given.runs))
    first = within(list(in_processes(first_number, list(reports), given.workers, "reports")))
    show("digits: RMSE, bias and stated deviation in nats, deviation of z", by_drift)
    show("all digits", pooled)
    show("first numbers of reports on all digits", first)
    tables = {"digits": by_drift, "pooled": pooled, "first": first}
    save(written, given.out, "population_estimate", tables)


if __name__ == "__main__":
    main()
