"""What a noised histogram and integrally private draws are worth as references.

Run ``python simulations/studies/integral_references.py [--out DIR] [--quick]``. Expected
KL from the truth, in nats, on real 4x4 patterns and on Zipf's law over 65,536 symbols, of a
discrete-Laplace histogram (pure ε for one record, replace-one) after two kinds of post-processing:
``floor``, clip at 0, mix with the uniform law, normalise, with the floor that is best in hindsight
for each setting; and ``ours``, `denoised_fractions`. Beside them, what `recommend` promises for 1
and 100 draws. Writes ``integral_references.csv`` and ``.json``.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

import numpy as np
from numpy.typing import NDArray
from rich.progress import track

from flwr_kld.calibration.central import calibrated_laplace
from flwr_kld.inference.divergence import skewed_divergence
from flwr_kld.integral import recommend
from flwr_kld.integral.references import denoised_fractions
from flwr_kld.kernel import Guarantee
from flwr_kld.kernel.law import SeededBits, sample
from flwr_kld.simulations.studies.integral_domains import Floats, patterns
from flwr_kld.simulations.studies.runner import Row, plain_parser, save, show

RECORDS, EPSILONS = (1000, 10_000, 100_000, 1_000_000), (0.1, 0.5, 1.0)
FLOORS = (0.003, 0.01, 0.03, 0.1, 0.2, 0.3, 0.5, 0.7, 0.9)
UNSEEN = 0.001
"""Uniform mass mixed into the patterns, which are themselves a sample."""


def clipped(values: NDArray[np.int64], floor: float) -> Floats:
    """Clip at 0, normalise, mix with the uniform law."""
    kept = np.maximum(values, 0).astype(np.float64)
    return np.asarray((1 - floor) * kept / max(kept.sum(), 1.0) + floor / len(kept))


def study(populations: dict[str, Floats], records: tuple[int, ...], repeats: int) -> Iterator[Row]:
    """Yield every setting."""
    for (name, truth), number, epsilon in product(populations.items(), records, EPSILONS):
        table = calibrated_laplace(Guarantee(epsilon)).table
        ours, floors = [], []
        for seed in range(repeats):
            counts = np.random.default_rng(seed).multinomial(number, truth)
            values = counts + sample(table, len(truth), SeededBits(seed))
            ours.append(skewed_divergence(truth, denoised_fractions(values, table), 0.0))
            floors.append([skewed_divergence(truth, clipped(values, f), 0.0) for f in FLOORS])
        one, hundred = (
            recommend(
                draws=k, epsilon=epsilon, records=number, size=len(truth), population=truth
            )
            for k in (1, 100)
        )  # fmt: skip
        yield {
            "truth": name, "records": number, "epsilon": epsilon, "base": one.base_kl,
            "floor": float(np.mean(floors, axis=0).min()), "ours": float(np.mean(ours)),
            "one_draw": one.exemplar_kl, "hundred_draws": hundred.exemplar_kl, "way": one.way,
        }  # fmt: skip


def main() -> None:
    """Run the study."""
    parser = plain_parser(__doc__, out="integral")
    parser.add_argument("--quick", action="store_true", help="fewer records and repeats")
    chosen = parser.parse_args()
    records, repeats = (RECORDS[1:3], 1) if chosen.quick else (RECORDS, 3)
    digits = patterns(0)
    zipf = 1 / np.arange(1, digits.base.size + 1)
    populations = {
        "digits": (1 - UNSEEN) * digits.truth + UNSEEN * digits.base.mass,
        "Zipf": zipf / zipf.sum(),
    }
    total = len(populations) * len(records) * len(EPSILONS)
    rows = list(track(study(populations, records, repeats), "settings", total=total))
    show("KL from the truth, nats", rows)
    save(rows, chosen.out, "integral_references")


if __name__ == "__main__":
    main()
