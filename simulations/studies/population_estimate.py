"""Both estimates of a divergence: errors, and how often the stated deviations hold.

    python simulations/studies/population_estimate.py [--writers writers.npz] [--runs 50]

Half of the writers gave the reference: rows of one or more digits. Some of the others write 20
records each, of another digit mixed with the reference. D_θ of their law is the population's truth,
D_θ of their records the cohort's. Counts have a cell for each of 1,000 symbols and are noised.
Without ``--writers``, virtual writers redraw scikit-learn's digits.
Writes ``population_estimate.csv`` and ``.json``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from itertools import product

import numpy as np

from flwr_kld.ask.partition import Partition
from flwr_kld.clients.handwriting.dataset import Handwriting
from flwr_kld.infer.divergence import skewed_divergence
from flwr_kld.infer.estimators.posterior_ratios import posterior_ratios
from flwr_kld.infer.estimators.score import THETA
from flwr_kld.infer.power import published
from flwr_kld.kernel.law import SeededBits
from flwr_kld.reference import Reference
from flwr_kld.simulations.handwriting.source import load_writers, split_writers
from flwr_kld.simulations.studies.hands import Hands
from flwr_kld.simulations.studies.runner import Row, generator, in_processes, parser_of, save, show
from flwr_kld.trust.trusted import Trusted

EPSILONS = (0.05, 0.2, 1.0, 3.0)
MIXES = (0.0, 0.2, 0.8, 1.0)
"""Part of the records that is drawn from the reference."""
_ROWS = (1_250, 3_500, 10_000, 30_000)
_CLIENTS = (110, 200, 418)
_EACH = 20
"""Records of a client."""
_VIRTUAL_WRITERS, _VIRTUAL_RECORDS = 700, 80


@dataclass(frozen=True, eq=False)
class Writers:
    """Writers of the past, and those who are asked."""

    past: Handwriting
    now: Handwriting

    def reference(self, digits: list[int], rows: int, rng: np.random.Generator) -> Reference:
        """Sample so many rows of these digits, or take all there are."""
        domain, found = self.past.patterns(cropped=False), self.past.with_labels(digits)
        symbols = rng.permutation(domain.encode(found.images))[:rows]
        return Reference.from_counts(domain, np.bincount(symbols, minlength=domain.size))


@cache
def writers(source: str) -> Writers:
    """Load writers, and split them in halves."""
    return Writers(*split_writers(load_writers(source, _VIRTUAL_WRITERS, _VIRTUAL_RECORDS), 1))


def digits_of(rows: int, rng: np.random.Generator) -> tuple[list[int], list[int]]:
    """Draw the reference's digits, and the other ones that may be written."""
    some = rng.permutation(10).tolist()
    several = min(1 + rows // 3_501, 9)
    return some[:several], some[several : several + 1]


def study(item: tuple[str, float, float, int]) -> Row:
    """Ask once."""
    source, epsilon, mix, run = item
    rng = generator("population estimate", int(1000 * epsilon), int(10 * mix), run)
    rows, clients = int(rng.choice(_ROWS)), int(rng.choice(_CLIENTS))
    before, after = digits_of(rows, rng)
    found = writers(source)
    reference = found.reference(before, rows, rng)
    pi, size = reference.probabilities, reference.domain.size
    hands = Hands.of(found.now.with_labels(after))
    who = rng.permutation(len(hands.size))[:clients]
    chance = np.repeat(1 / hands.size[who], hands.size[who]) / len(who)
    places = [np.arange(hands.start[i], hands.start[i] + hands.size[i]) for i in who]
    law = (1 - mix) * np.bincount(hands.symbols[np.concatenate(places)], chance, size) + mix * pi
    written = hands.write(who, _EACH, rng).ravel()
    usual = rng.random(written.size) < mix
    written[usual] = rng.choice(size, int(usual.sum()), p=pi)
    cohort = np.bincount(written, minlength=size)
    plan = Partition(1_000).draw(reference, rng)
    counts = np.bincount(plan.cell_of, cohort, plan.cells).astype(np.int64)
    noisy = published(counts, plan, Trusted(epsilon).event(1), SeededBits(int(rng.integers(2**31))))
    read = posterior_ratios(noisy)
    row: Row = {"epsilon": epsilon, "mix": mix, "rows": rows, "clients": len(who)}
    for name, own, truth in (("population", read.population, law), ("cohort", read.cohort, cohort)):
        error = own.error
        # Of the cohort everything is known but the noise, and what was not asked.
        stated = error.total if name == "population" else np.hypot(error.privacy, error.monte_carlo)
        exact = skewed_divergence(pi, truth, THETA)
        row |= {f"{name} truth": exact, f"{name} off": own.value - exact, f"{name} stated": stated}
    return row


def summary(rows: Sequence[Row], by: str) -> list[Row]:
    """Say how far the estimates are off, for each value of `by`."""
    found: list[Row] = []
    for key, name in product(dict.fromkeys(row[by] for row in rows), ("population", "cohort")):
        own = [row for row in rows if row[by] == key]
        off, stated, truth = (
            np.array([row[f"{name} {what}"] for row in own]) for what in ("off", "stated", "truth")
        )
        found.append(
            {
                by: key, "estimate": name, "asked": len(own), "truth": float(truth.mean()),
                "bias": float(off.mean()), "rmse": float(np.sqrt(np.mean(off**2))),
                "stated": float(np.sqrt(np.mean(stated**2))),
                "beyond_2": float(np.mean(np.abs(off) > 2 * stated)),
            }
        )  # fmt: skip
    return found


def main() -> None:
    """Run the study."""
    parser = parser_of(__doc__, out="population_estimate", runs=(50, "of each ε and mix"))
    parser.add_argument("--writers", default="digits", help="of an .npz file, or femnist")
    given = parser.parse_args()
    work = list(product([given.writers], EPSILONS, MIXES, range(given.runs)))
    rows = list(in_processes(study, work, given.workers, "estimates"))
    tables = {by: summary(rows, by) for by in ("epsilon", "mix", "rows")}
    for by, table in tables.items():
        show(f"errors in nats, by {by}", table)
    save(rows, given.out, "population_estimate", tables)


if __name__ == "__main__":
    main()
