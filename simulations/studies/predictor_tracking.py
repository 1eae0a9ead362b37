"""How soon the predictor notices that clients' data have moved to another scenario.

Run ``python simulations/studies/predictor_tracking.py [--quick] [--workers 2] [--out DIR]``; the
same command goes on where it was stopped. Eleven scenarios on 4x4 patterns of real handwriting
(65,536 symbols): as usual, and a part of all records replaced by one digit, for each digit. The
fraction is 70 % ("mostly 3s", as strong as the drift of ``Scenario``), 50 % or 30 %. The hypotheses
are histograms of what reference writers wrote; the clients are other writers, so no hypothesis is
exactly true. In each round 200 clients privatise one pattern each, by the very code that a
deployment runs; after round 60 the scenario changes.

Writes ``predictor_tracking.csv`` (every run) and ``.json`` (delays).
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product

import numpy as np
from numpy.typing import NDArray

from flwr_kld.kernel.law import BitSource, SeededBits
from flwr_kld.predictors import BayesMixture, Hypotheses
from flwr_kld.predictors.bayes_mixture import Intake
from flwr_kld.predictors.hypotheses import drift_scenarios
from flwr_kld.predictors.local_report import LocalReport
from flwr_kld.reference import Reference
from flwr_kld.simulations.handwriting.resample import WriterResampler
from flwr_kld.simulations.handwriting.source import load_digits
from flwr_kld.simulations.studies.resumable import Arrays, Configuration, seed_of
from flwr_kld.simulations.studies.runner import Row, computed, console, resumable_parser, save, show

ROUNDS, SWITCH, COHORT = 120, 60, 200
AMOUNTS = (0.7, 0.5, 0.3)
EPSILONS, SHARES = (0.5, 1.0, 2.0), (0.01, 0.0)
QUICK = (1.0, 0.5)
"""Epsilons of a quick run."""
USUAL = "as usual"
WRITERS, _RECORDS = 2_000, 50
_SEED, _VERSION = 11, 1
Symbols = NDArray[np.int64]


def written(first: int, writers: int) -> tuple[Symbols, Symbols]:
    """Patterns and digits that virtual writers `first`, `first` + 1, … write."""
    source = load_digits(1)
    resampler, domain = WriterResampler(source, _SEED), source.patterns()
    images = [resampler.writer(first + i, _RECORDS) for i in range(writers)]
    symbols = [domain.encode(own.images) for own in images]
    return np.concatenate(symbols), np.concatenate([own.labels for own in images])


def scenarios(symbols: Symbols, digits: Symbols, amount: float) -> Hypotheses:
    """As usual, and mostly one digit: histograms of what reference writers wrote."""
    domain = load_digits(1).patterns()

    def law(some: Symbols) -> Reference:
        return Reference.from_counts(domain, np.bincount(some, minlength=domain.size))

    usual = law(symbols)
    towards = {f"towards {d}": law(symbols[digits == d]) for d in range(10)}
    return Hypotheses({USUAL: usual, **drift_scenarios(usual, towards, amount)})


class Clients:
    """Who answers: patterns of writers that no hypothesis has seen."""

    def __init__(self, writers: int) -> None:
        self.symbols, digits = written(0, writers)
        self.by_digit = [self.symbols[digits == d] for d in range(10)]

    def labels(self, digit: int, amount: float, rng: np.random.Generator) -> Symbols:
        """One pattern of each client of a cohort, under a scenario."""
        usual = rng.choice(self.symbols, COHORT)
        more = rng.choice(self.by_digit[digit], COHORT)
        return np.where(rng.random(COHORT) < amount, more, usual)


def follow(
    predictor: BayesMixture,
    clients: Clients,
    digit: int,
    amount: float,
    rng: np.random.Generator,
    bits: BitSource,
) -> NDArray[np.float64]:
    """Weights after each round, shape [rounds, hypotheses]."""
    weights = []
    for number in range(1, ROUNDS + 1):
        intake = Intake(predictor, number)
        labels = clients.labels(digit, amount if number > SWITCH else 0.0, rng)
        for c, label in enumerate(labels.tolist()):
            query = predictor.query_of(number, str(c))
            intake.take(str(c), LocalReport(query, predictor.query(query).answer(label, bits)))
        for batch in intake.batches():
            predictor.update(batch)
        predictor.settle(number)
        weights.append(predictor.weights)
    return np.array(weights)


def outcome(weights: NDArray[np.float64], digit: int) -> tuple[int, bool, bool]:
    """Delay in rounds, and whether the true scenario led before and after."""
    leaders = weights.argmax(axis=1)
    found = np.flatnonzero(leaders[SWITCH:] == digit + 1)
    delay = int(found[0]) + 1 if len(found) else ROUNDS
    return delay, bool(leaders[SWITCH - 1] == 0), bool(leaders[-1] == digit + 1)


def measure(shared: tuple[Clients, dict[float, Hypotheses]], task: Configuration) -> Arrays:
    """Follow one run."""
    clients, candidates = shared
    predictor = BayesMixture(candidates[task["amount"]], task["epsilon"], share=task["share"])
    rng, bits = np.random.default_rng(seed_of(task, "labels")), SeededBits(seed_of(task, "noise"))
    return {"weights": follow(predictor, clients, task["digit"], task["amount"], rng, bits)}


def tasks_of(*, quick: bool) -> list[Configuration]:
    """Return a task for each run."""
    return [
        {"study": "predictor tracking", "version": _VERSION, "amount": amount,
         "epsilon": epsilon, "share": share, "digit": digit, "run": run}
        for amount, epsilon, share in product(AMOUNTS, EPSILONS, SHARES)
        if (share or amount == max(AMOUNTS))
        and (not quick or (share and amount == max(AMOUNTS) and epsilon in QUICK))
        for run, digit in product(range(2 if quick else 6), range(10))
    ]  # fmt: skip


def rows_of(found: Sequence[tuple[Configuration, Arrays]]) -> list[Row]:
    """Say of every run how soon the predictor followed, and whether it was right at both ends."""
    rows: list[Row] = []
    for task, result in found:
        delay, before, after = outcome(result["weights"], task["digit"])
        setting = {name: task[name] for name in ("amount", "epsilon", "share", "digit", "run")}
        rows.append({**setting, "delay": delay, "before": before, "after": after})
    return rows


def summary(rows: Sequence[Row]) -> list[Row]:
    """Delays and correct leaders of each setting."""
    table: list[Row] = []
    for key in sorted({(r["amount"], r["epsilon"], r["share"]) for r in rows}, reverse=True):
        own = [r for r in rows if (r["amount"], r["epsilon"], r["share"]) == key]
        delays = [r["delay"] for r in own]
        table.append({
            "amount": key[0], "epsilon": key[1], "share": key[2], "runs": len(own),
            "median_delay": float(np.median(delays)),
            "9_of_10_within": float(np.quantile(delays, 0.9)),
            "before": float(np.mean([r["before"] for r in own])),
            "after": float(np.mean([r["after"] for r in own])),
        })  # fmt: skip
    return table


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the study."""
    parser = resumable_parser(__doc__, out="predictor_tracking")
    parser.add_argument("--quick", action="store_true", help="20 runs a setting, targets only")
    chosen = parser.parse_args(arguments)
    with console.status("writing"):
        clients, reference = Clients(WRITERS), written(1_000_000, WRITERS)
    candidates = {amount: scenarios(*reference, amount) for amount in AMOUNTS}
    rows = rows_of(computed(measure, (clients, candidates), tasks_of(quick=chosen.quick), chosen))
    delays = summary(rows)
    show(f"{COHORT} clients a round, switch after round {SWITCH}", delays)
    save(rows, chosen.out, "predictor_tracking", {"delays": delays})


if __name__ == "__main__":
    main()
