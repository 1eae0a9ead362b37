"""How soon the predictor notices that clients' data have moved to another scenario.

Run ``python simulations/studies/predictor_tracking.py [--quick] [--workers 2] [--out DIR]``; the
same command goes on where it was stopped. Eleven scenarios on 4x4 patterns of real handwriting
(65,536 symbols): as usual, and a part of all records replaced by one digit, for each digit. The
fraction is 70 % ("mostly 3s", as strong as the drift of ``Scenario``), 50 % or 30 %. The hypotheses
are histograms of what reference writers wrote; the clients are other writers, so no hypothesis is
exactly true. In each round 200 clients privatise one pattern each, by the very code that a
deployment runs; after round 60 the scenario changes.

Writes ``predictor_tracking.csv`` (every run) and ``predictor_tracking.png`` (weights of one run).
"""

from __future__ import annotations

import csv
from collections.abc import Sequence
from dataclasses import astuple, dataclass, fields
from itertools import product
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table

from flwr_kld._extras import require
from flwr_kld.kernel.law import BitSource, SeededBits
from flwr_kld.predictors import BayesMixture, Hypotheses
from flwr_kld.predictors.bayes_mixture import Intake
from flwr_kld.predictors.hypotheses import drift_scenarios
from flwr_kld.predictors.local_report import LocalReport
from flwr_kld.reference import Reference
from flwr_kld.simulations.handwriting.resample import WriterResampler
from flwr_kld.simulations.handwriting.source import load_digits
from flwr_kld.simulations.studies.commands import computed, parser_of
from flwr_kld.simulations.studies.resumable import Arrays, Configuration, seed_of

ROUNDS, SWITCH, COHORT = 120, 60, 200
AMOUNTS = (0.7, 0.5, 0.3)
EPSILONS, SHARES = (0.5, 1.0, 2.0), (0.01, 0.0)
TARGETS = {1.0: 4, 0.5: 8}
"""Largest median delay in rounds with fixed share at the largest amount, by epsilon."""
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


@dataclass(frozen=True)
class Outcome:
    """One run."""

    amount: float
    epsilon: float
    share: float
    digit: int
    run: int
    delay: int  # Rounds after the switch until the new scenario leads; `ROUNDS` if it never does
    before: bool  # Whether the true scenario leads when the old one ends, and at the end
    after: bool


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


def show(outcomes: list[Outcome], console: Console) -> None:
    """Print delays and correct leaders."""
    table = Table(title=f"{COHORT} clients a round, switch after round {SWITCH}")
    headings = ("amount", "ε", "share", "runs", "median delay", "9 of 10 within")
    for name in (*headings, "before", "after", "target"):
        table.add_column(name, justify="right")
    for key in sorted({(o.amount, o.epsilon, o.share) for o in outcomes}, reverse=True):
        own = [o for o in outcomes if (o.amount, o.epsilon, o.share) == key]
        amount, epsilon, share = key
        delays = [o.delay for o in own]
        is_target = share and epsilon in TARGETS and amount == max(AMOUNTS)
        wanted = f"≤ {TARGETS[epsilon]}" if is_target else ""
        table.add_row(
            f"{amount:g}", f"{epsilon:g}", f"{share:g}", str(len(own)), f"{np.median(delays):g}",
            f"{np.quantile(delays, 0.9):g}", f"{np.mean([o.before for o in own]):.1%}",
            f"{np.mean([o.after for o in own]):.1%}", wanted,
        )  # fmt: skip
    console.print(table)


def save(
    outcomes: list[Outcome], weights: NDArray[np.float64], names: tuple[str, ...], out: Path
) -> None:
    """Write ``predictor_tracking.csv``, and one run's weights to ``predictor_tracking.png``."""
    out.mkdir(parents=True, exist_ok=True)
    with (out / "predictor_tracking.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow([field.name for field in fields(Outcome)])
        writer.writerows(astuple(o) for o in outcomes)
    figure = require("matplotlib.figure", extra="plots").Figure((8, 4.2), layout="constrained")
    axes = figure.add_subplot()
    axes.stackplot(np.arange(1, ROUNDS + 1), weights.T, labels=names, linewidth=0)
    axes.axvline(SWITCH + 0.5, color="black", linestyle="--", linewidth=1)
    axes.set(xlabel="round", ylabel="weight", ylim=(0, 1), xlim=(1, ROUNDS))
    figure.legend(loc="outside right", frameon=False)
    figure.savefig(out / "predictor_tracking.png", dpi=130)


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
        and (not quick or (share and amount == max(AMOUNTS) and epsilon in TARGETS))
        for run, digit in product(range(2 if quick else 6), range(10))
    ]  # fmt: skip


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the study."""
    parser = parser_of(__doc__, out="out/predictor_tracking")
    parser.add_argument("--quick", action="store_true", help="20 runs a setting, targets only")
    chosen, console = parser.parse_args(arguments), Console()
    with console.status("writing"):
        clients, reference = Clients(WRITERS), written(1_000_000, WRITERS)
    candidates = {amount: scenarios(*reference, amount) for amount in AMOUNTS}
    tasks = tasks_of(quick=chosen.quick)
    kept = computed(measure, (clients, candidates), tasks, chosen, console)
    found = [(task, kept.load(task)) for task in tasks]
    outcomes, shown = [], np.empty((0, 0))
    for task, result in found:
        if result is not None:
            amount, epsilon, digit, run = (task[n] for n in ("amount", "epsilon", "digit", "run"))
            weights = result["weights"]
            reached = outcome(weights, digit)
            outcomes.append(Outcome(amount, epsilon, task["share"], digit, run, *reached))
            if (amount, epsilon, digit, run) == (0.5, 0.5, 3, 0) or not shown.size:
                shown = weights
    show(outcomes, console)
    save(outcomes, shown, candidates[AMOUNTS[0]].names, chosen.out)
    console.print(f"Saved predictor_tracking.csv and predictor_tracking.png in {chosen.out}")


if __name__ == "__main__":
    main()
