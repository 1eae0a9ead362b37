"""Survival from noised counts: how near curves are to those of the times, and whether bands hold.

    python simulations/studies/survival.py [--runs 300] [--workers 2] [--out DIR]

Patients have events by a Weibull law and are last seen at some time; 24 months and what lies beyond
are counted with ε = 1, δ = 1e-6, by the law of the noise that is released. Curves are held against
Kaplan and Meier's of the very times, or of the law. Writes ``survival.csv`` and ``.json``.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from flwr_kld.inference.survival import curves, kaplan_meier
from flwr_kld.simulations.studies.runner import Row, generator, in_processes, parser_of, save, show
from flwr_kld.trust.trusted import Trusted

_MONTHS, _SCALE, _SHAPE = 24, 14.0, 1.3
_PATIENTS = (500, 1_000, 5_000)


def exact(time: NDArray[np.float64], event: NDArray[np.bool_]) -> NDArray[np.float64]:
    """Return the curve of the times themselves at the end of each month."""
    order = np.argsort(time, kind="stable")
    curve = np.cumprod(1 - event[order] / np.arange(len(time), 0, -1))
    reached = np.searchsorted(time[order], np.arange(1, _MONTHS + 1), side="right")
    return np.where(reached > 0, curve[reached - 1], 1.0)


def study(item: tuple[int, int]) -> Row:
    """Read one release of the counts of so many patients."""
    patients, _ = item
    rng = generator("survival", *item)
    until, seen = rng.weibull(_SHAPE, patients) * _SCALE, rng.uniform(4, 30, patients)
    time, event = np.minimum(until, seen), until <= seen
    month = np.minimum(time, _MONTHS).astype(int)
    counts = np.stack([np.bincount(month[own], minlength=_MONTHS + 1) for own in (event, ~event)])
    noise = Trusted(1.0, 1e-6).event(1).noise
    chance = noise.probabilities / noise.probabilities.sum()
    noised = (counts + rng.choice(noise.support, counts.shape, p=chance))[None].astype(float)
    truth, binned = exact(time, event), kaplan_meier(*counts.astype(float))[:_MONTHS]
    law = np.exp(-((np.arange(1, _MONTHS + 1) / _SCALE) ** _SHAPE))
    row: Row = {"patients": patients}
    for name, effect, of in (("these", 0.0, truth), ("population", 1.0, law)):
        (curve,), _ = curves(
            noised,
            [""],
            noise=math.sqrt(noise.variance),
            records=(patients, patients),
            design_effect=effect,
        )
        read, low, high = (np.array(x)[:_MONTHS] for x in (curve.survival, curve.low, curve.high))
        row[f"{name}_held"] = bool(((low <= of + 1e-9) & (of <= high + 1e-9)).all())
        row[f"{name}_error"] = float(np.abs(read - of).max())
        row["binned_error"] = float(np.abs(read - binned).max())
    return row


def main() -> None:
    """Run the study."""
    given = parser_of(__doc__, out="survival", runs=(300, "releases of each size")).parse_args()
    work = [(patients, run) for patients in _PATIENTS for run in range(given.runs)]
    rows = list(in_processes(study, work, given.workers, "releases"))
    found: list[Row] = []
    for patients in _PATIENTS:
        own = [row for row in rows if row["patients"] == patients]
        found.append(
            {
                "patients": patients,
                "error": float(np.median([row["these_error"] for row in own])),
                "of_binned": float(np.median([row["binned_error"] for row in own])),
                "held": float(np.mean([row["these_held"] for row in own])),
                "population_held": float(np.mean([row["population_held"] for row in own])),
            }
        )
    show("largest error of a curve, median; bands that hold", found)
    save(found, given.out, "survival")


if __name__ == "__main__":
    main()
