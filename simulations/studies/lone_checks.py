"""Checks of clients who are all asked: what they find, what they exclude, and how often they err.

Run ``python simulations/studies/lone_checks.py QUESTION [--runs N] [--workers 2] [--out DIR]``.
Each run is one check of fresh records by the product's own classes. The questions:

- ``coverage``: how often the lower bound is at most D_θ, and the upper limit at least, where 95 %
  is promised for each, and D_θ within two of its stated deviations;
- ``themselves``: how often the very first check finds a drift, at the level of one check of a year
  without a false alarm: D_θ 1.5 to 3 times the threshold of 0.1 nats;
- ``level``: how often such a check finds D_θ above what it is, at a level of 5 % and of a
  thousandth, for laws of every shape;
- ``false_no_drift``: how often "no drift" is reported where D_θ is exactly threshold + resolution,
  the least that it excludes; it may be in 20 % of the runs of each. In a quarter of so many runs
  nothing drifts: a check that never reports "no drift" would pass, too.
- ``vanished``: how often the sentence of a drift names the one label that vanished, which held 1 to
  30 % of the reference, and to how many deviations of the noise its interval reaches.

Writes ``QUESTION.csv`` and ``QUESTION.json``.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import cycle, product
from typing import Any

import numpy as np

from flwr_kld.infer.alarm import Alarm
from flwr_kld.infer.divergence import skewed_divergence
from flwr_kld.infer.divergence_test import divergence_tests
from flwr_kld.infer.estimators.score import THETA
from flwr_kld.infer.fraction_interval import fraction_intervals
from flwr_kld.infer.verdict import Verdict
from flwr_kld.report import Outcome
from flwr_kld.report.cohort_release import CohortRelease
from flwr_kld.report.column import ColumnReport
from flwr_kld.simulations.studies import drifts
from flwr_kld.simulations.studies.check_setting import Noise, Setting
from flwr_kld.simulations.studies.checks import Checks
from flwr_kld.simulations.studies.runner import (
    Row,
    console,
    generator,
    in_processes,
    parser_of,
    save,
    show,
)

LEVEL = 0.95
_RARE = 1e-3
_SHOWN = 12
_FINEST = 10_000
"""Of nats, in what seeds a setting."""
_ALONE = Alarm(horizon=1)

Read = dict[str, float]
"""Numbers of one check, of which a row has the means."""


def concluded(checks: Checks, check: CohortRelease) -> tuple[ColumnReport, Verdict]:
    """Return what the product reports of the first column."""
    column = next(iter(checks.conclude(check).values()))
    if column.verdict is None:
        raise TypeError("a study of decisions needs a threshold")
    return column, column.verdict


def covers(setting: Setting, checks: Checks, check: CohortRelease) -> Read:
    """Say whether both limits and the stated deviation hold, and where the limits are."""
    column, verdict = concluded(checks, check)
    truth, told = max(setting.truth, 0.0), column.reading.of_population
    lower = verdict.lower_bound or 0.0
    upper = np.inf if verdict.upper_limit is None else verdict.upper_limit
    return {
        "lower_holds": lower <= truth,
        "upper_holds": upper >= truth,
        "population_holds": told is not None and abs(told.value - truth) <= 2 * told.deviation,
        "lower": max(lower, 0.0),
        "upper": upper,
    }


def finds(setting: Setting, checks: Checks, check: CohortRelease) -> Read:
    """Say whether a drift is found at the level of one check of a year."""
    return {"found": concluded(checks, check)[1].outcome is Outcome.DRIFT}


def errs(setting: Setting, checks: Checks, check: CohortRelease) -> Read:
    """Say at which levels a test of the true D_θ rejects it."""
    truth = max(setting.truth, 0.0)
    (p_value,) = divergence_tests([check.published], error=_RARE).p_values(truth).tolist()
    return {"at_5_percent": p_value < 1 - LEVEL, "at_a_thousandth": p_value < _RARE}


def names(setting: Setting, checks: Checks, check: CohortRelease) -> Read:
    """Say whether a drift is found, and whether its sentence names the label that vanished."""
    column, verdict = concluded(checks, check)
    noisy, found = check.published, verdict.outcome is Outcome.DRIFT
    label = setting.drift.split()[1]
    named = re.search(rf"(^|; ){label}: ", column.sentence or "") is not None
    _, high = fraction_intervals(noisy, level=LEVEL, effects=check.effects)
    reach = float(high[noisy.plan.cell_of[int(label)]]) * noisy.records / noisy.deviation
    return {"found": found, "unnamed": found and not named, "reach": reach}


def says(setting: Setting, checks: Checks, check: CohortRelease) -> Read:
    """Say which outcome a single check has."""
    said = concluded(checks, check)[1].outcome
    return {outcome.name.lower(): said is outcome for outcome in Outcome}


def coverage_settings() -> list[Setting]:
    """List drifts of every size, cohorts of every kind, and all sources of noise."""
    return [
        Setting(600, "spread", 0.0, 400, 50),
        Setting(600, "spread", 0.0, 400, 50, alike=20.0),
        Setting(20, "spread", 0.0, 200, 50),
        Setting(600, "spread", 0.1, 400, 50),
        Setting(600, "spread", 0.5, 400, 50, 0.3),
        Setting(600, "spread", 1.0, 400, 50, 3.0),
        Setting(20, "spread", 0.1, 3_000, 20),
        Setting(600, "sparse", 0.2, 100, 40),
        Setting(600, "vanishing", 0.3, 400, 50),
        Setting(600, "rare category", 0.2, 200, 50),
        Setting(600, "new category", 0.2, 200, 50),
        Setting(600, "spread", 0.5, 100, 10),
        Setting(600, "tilted", 0.3, 200, 50, noise="gaussian"),
        Setting(600, "tilted", 0.3, 200, 50, noise="aggregator"),
        Setting(600, "tilted", 0.3, 200, 50, 0.3, noise="aggregator"),
        Setting(600, "tilted", 0.3, 200, 50, noise="distributed"),
        Setting(600, "tilted", 0.3, 30, 200, noise="distributed"),
        Setting(600, "tilted", 0.3, 400, 20, 5.0, noise="client level"),
        Setting(600, "spread", 0.3, 200, 50, alike=50.0),
        Setting(600, "spread", 0.3, 200, 50, alike=50.0, noise="distributed"),
        Setting(600, "spread", 0.5, 200, 50, 3.0, alike=5.0),
        Setting(600, "sparse", 0.2, 200, 50, 3.0, alike=5.0),
        Setting(600, "spread", 2.0, 600, 30, 3.0, alike=2.0),
        Setting(20, "tilted", 0.2, 400, 20, alike=0.0),
        Setting(600, "one group", 0.2, 5, 2_000),
        Setting(600, "one group", 0.2, 400, 50),
        Setting(600, "tilted", 0.2, 39, 50),
        Setting(4**6, "column 5", 0.3, 400, 100, levels=4),
        Setting(4**6, "pair", 0.3, 400, 100, levels=4),
        Setting(65_536, "spread", 0.5, 400, 100),
        Setting(0, "digit mix", 0.1, 200, 50),
        Setting(0, "digit mix", 0.2, 200, 50),
        Setting(0, "other hand", 0.1, 200, 50),
    ]


_ANYWHERE = (
    "vanishing", "new category", "rare category", "tilted", "alternating", "spread", "sparse",
    "one group",
)  # fmt: skip
_SYMBOLS = (2, 5, 20, 100, 300, 1_000, 65_536, 1_000_000)
_TABLES = ((10, 3), (4, 6), (2, 16), (4, 10))
"""Levels and columns."""
_COHORTS = (
    (3, 300), (400, 100), (10, 200), (3_000, 100), (39, 50), (200, 50), (40, 100), (1_000, 20),
    (100, 400), (3_000, 10), (25, 1_000),
)  # fmt: skip
"""Clients, and records of each. Eleven, eight and seven: all pairs occur."""
_GUARANTEES: tuple[dict[str, Any], ...] = (
    {"epsilon": 1.0},
    {"epsilon": 5.0},
    {"epsilon": 0.3},
    {"epsilon": 1.0, "noise": "distributed"},
    {"epsilon": 5.0, "noise": "client level"},
    {"epsilon": 0.1},
    {"epsilon": 5.0, "noise": "distributed"},
)
_ALIKE = (None, None, 50.0, None, 5.0)
"""Of clients."""
_EACH = 3
"""Settings of each drift; of one that takes long to prepare, one less."""


def false_no_drift_settings(nats: float = 0.1 + _ALONE.resolution) -> list[Setting]:
    """List the settings, all at this D_θ."""
    cohorts, guarantees, alikes = cycle(_COHORTS), cycle(_GUARANTEES), cycle(_ALIKE)

    def one(symbols: int, drift: str, levels: int = 0) -> Setting:
        (clients, records), guarantee = next(cohorts), next(guarantees)
        while guarantee.get("noise") == "client level" and clients < 100:
            clients, records = next(cohorts)
        alike = next(alikes) if clients >= 40 and drift != "one group" else None
        return Setting(
            symbols, drift, nats, clients, records, levels=levels, alike=alike, **guarantee
        )

    found = []
    for symbols in _SYMBOLS:
        for drift in _ANYWHERE:
            if symbols > 2 or drift != "rare category":  # of two, the rare one tilts
                found += [one(symbols, drift) for _ in range(_EACH - (symbols > 10_000))]
    for levels, columns in _TABLES:
        ends = sorted({0, columns // 2, columns - 1}) if columns > 6 else range(columns)
        drifts = [f"column {which}" for which in ends] + ["pair", "sparse", "vanishing"]
        for drift in drifts:
            number = _EACH - (columns > 6)
            found += [one(levels**columns, drift, levels) for _ in range(number)]
    for drift in ("digit mix", "other hand"):
        for epsilon in (0.3, 1.0, 5.0):
            for clients, records in ((400, 50), (100, 100), (400, 100)):
                found.append(Setting(0, drift, nats, clients, records, epsilon))
    return found


@dataclass(frozen=True)
class Question:
    """What is asked of single checks."""

    settings: Callable[[], list[Setting]]
    read: Callable[[Setting, Checks, CohortRelease], Read]  # Off one check
    threshold: float | None  # Nats that are tolerated; None for D_θ itself
    runs: int  # Checks in each setting
    worst: str  # What is to be small, or large: the printed table begins with the worst
    largest: bool = False  # Whether a large one is bad
    without: bool = False  # Whether a quarter of so many checks have no drift, too
    alarm: Alarm = _ALONE  # How sure a verdict must be


def themselves_settings() -> list[Setting]:
    """List drifts in cohorts whose clients are all that are connected."""
    cases = (
        (10, "tilted", 60, (0.15, 0.2)), (50, "spread", 60, (0.2, 0.3)),
        (50, "spread", 200, (0.15,)), (300, "spread", 200, (0.15, 0.2)),
        (20, "vanishing", 60, (0.2,)), (20, "rare category", 60, (0.15,)),
        (1_000, "spread", 400, (0.15, 0.2)),
    )  # fmt: skip
    alike = (Setting(50, "spread", nats, 200, 50, alike=5.1) for nats in (0.2, 0.3))
    return [
        *alike,  # a design effect of 9
        *(
            Setting(symbols, drift, nats, clients, 50)
            for symbols, drift, clients, divergences in cases
            for nats in divergences
        ),
    ]


def vanished_settings() -> list[Setting]:
    """List labels of 30, 10, 5, 2 and 1 % that vanish."""
    settings = []
    for symbols, records, each, drawn in product(
        (5, 20, 50), (2_000, 10_000, 50_000), (50, 10), (False, True)
    ):
        pi = drifts.zipf(symbols)
        for part in (0.3, 0.1, 0.05, 0.02, 0.01):
            label = int(np.abs(np.log(pi / part)).argmin())
            nats = skewed_divergence(pi, drifts.without(pi, label)(1.0)[:symbols], THETA)
            settings.append(
                Setting(
                    symbols, f"label {label}", nats * (1 - 1e-9), records // each, each,
                    alike=9.0 if drawn else None, drawn=drawn,
                )
            )  # fmt: skip
    return list(dict.fromkeys(settings))


_SHAPES = (
    "tilted", "spread", "sparse", "vanishing", "alternating", "rare category", "new category",
    "gone", "one symbol",
)  # fmt: skip


_DRAWN = 300
"""Settings whose laws are drawn at random."""


def level_settings() -> list[Setting]:
    """List the laws at which a test of D_θ is to keep its level: D_θ is what is tolerated."""
    cohorts = (
        (2, 10, 50), (20, 60, 50), (100, 10, 50), (300, 200, 50), (20, 200, 1_000),
    )  # fmt: skip
    noises: tuple[tuple[float, Noise], ...] = ((1.0, "trusted"), (0.3, "gaussian"))
    return [
        Setting(
            symbols, shape, nats, clients, each, epsilon,
            noise=noise,
        )
        for nats in (0.0, 0.01, 0.1)
        for symbols, clients, each in cohorts
        for shape in (_SHAPES if nats else _SHAPES[:1])
        for epsilon, noise in noises
        if symbols > 2 or shape not in ("rare category", "one symbol", "gone")
    ] + [_any_setting(np.random.default_rng(number)) for number in range(_DRAWN)]  # fmt: skip


def _any_setting(rng: np.random.Generator) -> Setting:
    """Draw sizes, noise and how far a law of any shape is away."""
    symbols = int(rng.choice([3, 5, 10, 20, 50, 200, 600]))
    each = int(10 ** rng.uniform(0.5, 3.5))
    noise: Noise = "gaussian" if rng.random() < 0.5 else "trusted"
    nats, epsilon = float(rng.choice([0.01, 0.05, 0.1, 0.2])), round(10 ** rng.uniform(-1, 1), 2)
    return Setting(symbols, "any shape", nats, 20, each, epsilon, noise=noise)


QUESTIONS = {
    "coverage": Question(coverage_settings, covers, 0.05, 1000, "lower_holds"),
    "themselves": Question(themselves_settings, finds, 0.1, 200, "found", alarm=Alarm()),
    "vanished": Question(vanished_settings, names, 0.02, 20, "unnamed", largest=True),
    "level": Question(level_settings, errs, None, 50, "at_5_percent", largest=True),
    "false_no_drift": Question(
        false_no_drift_settings, says, 0.1, 50, "no_drift", largest=True, without=True
    ),
}


def means(name: str, setting: Setting, runs: int) -> Read:
    """Run so many checks, each of which stands alone."""
    question = QUESTIONS[name]
    rng = generator(setting.name, int(_FINEST * setting.nats))
    threshold = setting.nats if question.threshold is None else question.threshold
    checks = Checks(
        setting.reference, setting.trust, threshold, drawn=setting.drawn, alarm=question.alarm
    )
    plan, found = checks.plan(rng), []
    for _ in range(runs):
        records = setting.federation.draw(plan, setting.clients, rng)
        found.append(question.read(setting, checks, checks.ask(plan, records, rng)))
    return {key: float(np.mean([one[key] for one in found])) for key in found[0]}


def row(item: tuple[str, Setting, int]) -> Row:
    """Ask one question in one setting."""
    name, setting, runs = item
    found: Row = {"setting": setting.name, "D": max(setting.truth, 0.0)}
    found |= means(name, setting, runs) | {"runs": runs}
    if QUESTIONS[name].without:
        rest = means(name, replace(setting, nats=0.0), max(runs // 4, 1))
        found |= {f"{key}_at_0": value for key, value in rest.items()}
    return found


def main() -> None:
    """Run the study."""
    parser = parser_of(__doc__, out="lone_checks", runs=(0, "checks in each setting"))
    parser.add_argument("question", choices=QUESTIONS)
    chosen = parser.parse_args()
    question = QUESTIONS[chosen.question]
    work = [(chosen.question, s, chosen.runs or question.runs) for s in question.settings()]
    rows = list(in_processes(row, work, chosen.workers, chosen.question))
    worst = sorted(rows, key=lambda row: row[question.worst], reverse=question.largest)
    show(f"{chosen.question}: the worst of {len(rows)} settings", worst[:_SHOWN])
    numbers = [key for key, value in rows[0].items() if isinstance(value, float)]
    summary: Row = {f"mean_{key}": float(np.mean([row[key] for row in rows])) for key in numbers}
    summary |= {"settings": len(rows), "worst": worst[0][question.worst]}
    console.print("\n".join(f"{name}: {value}" for name, value in summary.items()))
    save(rows, chosen.out, chosen.question, summary)


if __name__ == "__main__":
    main()
