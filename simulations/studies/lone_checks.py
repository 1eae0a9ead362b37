"""Checks that stand alone: what they find, what they exclude, and how often their limits hold.

Run ``python simulations/studies/lone_checks.py QUESTION [--runs N] [--workers 2] [--out DIR]``.
Each run is one check of a fresh cohort by the product's own classes. The questions:

- ``coverage``: how often the lower bound is at most the population's D_θ, and the upper limit at
  least, where 95 % is promised for each, and D_θ within two of its stated deviations; means;
- ``unequal``: the same of clients of two sizes, of one that has 30 % of all records, of sizes of a
  Pareto law, and of a Dirichlet law each, asked all or drawn, and of 3,000 of whom many tilt far;
- ``clustered``: whether what reports tell of a population is true where clients' records are
  alike, at design effects of 1, 3, 9, 25 and 50: sentences, PSI's 95 % interval, and the
  population's D_θ within two of its stated deviations, also as a check of as many clients tells
  it that has no threshold, and so no deciding half;
- ``themselves``: how often the very first check finds a drift of clients who are all that are
  connected, so that the whole cohort decides, at the level at which a year of checks is safe, a
  fifth of 5 % in 365 checks: D_θ 1.5 to 3 times the threshold of 0.1 nats;
- ``level``: how often such a check finds D_θ above what it is, at a level of 5 % and of a
  thousandth, for laws of every shape;
- ``false_no_drift``: how often "no drift" is said where D_θ is exactly threshold + resolution, the
  least that it excludes, in more than 200 settings; it may be in 20 % of the runs of each. In a
  quarter of so many runs nothing drifts: a check that never says "no drift" would pass, too.

Writes ``QUESTION.csv`` and ``QUESTION.json``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import cycle
from typing import Any

import numpy as np

from flwr_kld.check.decider import Alarm
from flwr_kld.cohort.halves import MANY
from flwr_kld.inference.decision import decide
from flwr_kld.inference.estimators.design_effect import DesignEffects
from flwr_kld.inference.estimators.posterior_ratios import posterior_ratios
from flwr_kld.inference.estimators.result import Estimate
from flwr_kld.inference.figures.figures import figures
from flwr_kld.inference.lower_bound import LowerBound, divergence_sum, lower_confidence_bound
from flwr_kld.inference.upper_limit import UpperLimit, upper_limit
from flwr_kld.inference.verdict import Outcome, Verdict
from flwr_kld.report.explanation import sentence
from flwr_kld.simulations.studies.check_setting import THEMSELVES, UNEQUAL, Noise, Setting
from flwr_kld.simulations.studies.checks import Checks, Halves, Whole, single
from flwr_kld.simulations.studies.drifts import THETA
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
_YEAR, _ALONE = Alarm(), Alarm(horizon=1)
_RARE = 1e-3
_SHOWN = 40
"""Settings in the printed table."""
_FINEST = 1e4
"""Steps of a nat that seeds tell apart."""
_CLOSE = 1e-3
"""Of a PSI, whose interval never reaches 0 itself."""


def limits(check: Halves | Whole, level: float) -> tuple[LowerBound, UpperLimit]:
    """Limit D_θ from below and from above, in nats."""
    if isinstance(check, Whole):
        found = check.read(1 - level)
        bound, effect = LowerBound(found.at_least(level), found.at_least(0.5)), 1.0
    else:
        bound = lower_confidence_bound(check.witness, check.sums, level=level)
        effect = effects_of(check).of_drift
    return bound, upper_limit(check.first, theta=THETA, level=level, design_effect=effect)


def effects_of(check: Halves | Whole) -> DesignEffects:
    """Return design effects as a check tells them: 1 where records are drawn by themselves."""
    if isinstance(check, Whole):
        return DesignEffects()
    most = check.witness.deciding.most_records
    along = divergence_sum(check.witness, check.sums, 1 - LEVEL).design_effect
    return DesignEffects.told([check.spread], most, along)


def population(check: Halves | Whole) -> Estimate:
    """Estimate D_θ of the population as a check does."""
    return posterior_ratios(check.first, theta=THETA, effects=effects_of(check))


def verdict(check: Halves | Whole, alarm: Alarm, threshold: float) -> Verdict:
    """Decide a check that stands alone."""
    bound, upper = limits(check, alarm.level)
    alone, outside = single(check, alarm)
    return decide(
        bound,
        alone,
        upper,
        alarm.detector.update(check.evidence),
        outside,
        threshold=threshold,
        resolution=alarm.resolution,
        level=alarm.level,
        population="those who were asked",
    )


Read = dict[str, float]
"""Numbers of one check, of which a row has the means."""


def covers(setting: Setting, checks: Checks, check: Halves | Whole) -> Read:
    """Say whether both limits and the stated deviation hold, and where the limits are."""
    bound, upper = limits(check, LEVEL)
    truth = max(setting.truth, 0.0)
    told = population(check)
    return {
        "lower_holds": bound.lower <= truth,
        "upper_holds": upper.value >= truth,
        "population_holds": abs(told.value - truth) <= 2 * told.error.total,
        "lower": max(bound.lower, 0.0),
        "upper": upper.value,
    }


def finds(setting: Setting, checks: Checks, check: Halves | Whole) -> Read:
    """Say whether a drift is found at the level of one check of a year."""
    return {"found": checks.found_at_once(check, _YEAR)}


def tells(setting: Setting, checks: Checks, check: Halves | Whole) -> Read:
    """Say whether what a report tells of the population is true of it."""
    first, effects = check.first, effects_of(check)
    plan, law = first.plan, setting.federation.law(checks.most_records)
    p = np.asarray(np.bincount(plan.cell_of, law, plan.cells), dtype=np.float64)
    inside = (plan.mass > 0) & (p > 0)
    pi, p = plan.mass[inside], p[inside]
    psi = float((p - pi) @ np.log(p / pi))
    told = figures(first, effects).psi
    undecided = posterior_ratios(first, theta=THETA, effects=replace(effects, along=1.0))
    z, other_z = (
        (one.value - max(setting.truth, 0.0)) / one.error.total
        for one in (population(check), undecided)
    )
    return {
        "sentence": sentence("it", first, effects=effects) is not None,
        "psi_holds": told.low - _CLOSE <= psi <= told.high,
        "population_holds": abs(z) <= 2,
        "squared_z": z**2,
        "undecided_holds": abs(other_z) <= 2,
        "undecided_squared_z": other_z**2,
        "effect": effects.average,
    }


def errs(setting: Setting, checks: Checks, check: Halves | Whole) -> Read:
    """Say at which levels a test of the true D_θ rejects it."""
    if not isinstance(check, Whole):
        raise TypeError("this question is about checks of their own clients")
    p_value = check.read(_RARE).p_value(max(setting.truth, 0.0))
    return {"at_5_percent": p_value < 1 - LEVEL, "at_a_thousandth": p_value < _RARE}


def says(setting: Setting, checks: Checks, check: Halves | Whole) -> Read:
    """Say which outcome a single check has."""
    said = verdict(check, _ALONE, checks.threshold).outcome
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


def unequal_settings() -> list[Setting]:
    """List clients of unequal sizes and laws, in cohorts of 12 to 400, and 3,000 of two kinds."""
    unequal = [
        Setting(10, kind, 0.0, clients, most, about=about)
        for kind, most in zip(UNEQUAL, (200, 300, 100, 100), strict=True)
        for clients in (12, 40, 100, 400)
        for about in (THEMSELVES, None)
        if about or clients >= MANY
    ]
    return unequal + [
        Setting(symbols, "one group", nats, 3_000, 100, epsilon)
        for symbols, nats, epsilon in ((5, 0.3, 1.0), (5, 0.15, 1.0), (20, 0.15, 5.0))
    ]


def clustered_settings() -> list[Setting]:
    """List clients whose records are more and more alike, without a drift and with one."""
    return [
        Setting(20, "tilted", nats, *cohort, epsilon, alike=alike)
        for cohort in ((400, 50), (120, 50))
        for epsilon in (0.3, 1.0, 5.0)
        for alike in (None, 23.5, 5.1, 1.04, 0.0)  # design effects of 1, 3, 9, 25 and 50
        for nats in (0.0, 0.1)
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
"""Of clients in cohorts that are split by client."""
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
    read: Callable[[Setting, Checks, Halves | Whole], Read]  # Off one check
    threshold: float | None  # Nats that are tolerated; None for D_θ itself
    runs: int  # Checks in each setting
    worst: str  # What is to be small, or large: the printed table begins with the worst
    largest: bool = False  # Whether a large one is bad
    without: bool = False  # Whether a quarter of so many checks have no drift, too


def themselves_settings() -> list[Setting]:
    """List drifts in cohorts whose clients are all that are connected."""
    cases = (
        (10, "tilted", 60, (0.15, 0.2)), (50, "spread", 60, (0.2, 0.3)),
        (50, "spread", 200, (0.15,)), (300, "spread", 200, (0.15, 0.2)),
        (20, "vanishing", 60, (0.2,)), (20, "rare category", 60, (0.15,)),
        (1_000, "spread", 400, (0.15, 0.2)),
    )  # fmt: skip
    alike = (
        Setting(50, "spread", nats, 200, 50, alike=5.1, about=THEMSELVES) for nats in (0.2, 0.3)
    )
    return [
        *alike,  # a design effect of 9
        *(
            Setting(symbols, drift, nats, clients, 50, about=THEMSELVES)
            for symbols, drift, clients, divergences in cases
            for nats in divergences
        ),
    ]


_SHAPES = (
    "tilted", "spread", "sparse", "vanishing", "alternating", "rare category", "new category",
    "gone", "one symbol",
)  # fmt: skip


def level_settings() -> list[Setting]:
    """List the laws at which a test of D_θ is to keep its level: D_θ is what is tolerated."""
    cohorts = (
        (2, 10, 50), (20, 60, 50), (100, 10, 50), (300, 200, 50), (20, 200, 1_000),
    )  # fmt: skip
    noises: tuple[tuple[float, Noise], ...] = ((1.0, "trusted"), (0.3, "gaussian"))
    return [
        Setting(
            symbols, shape, nats, clients, each, epsilon,
            noise=noise, about=THEMSELVES,
        )
        for nats in (0.0, 0.01, 0.1)
        for symbols, clients, each in cohorts
        for shape in (_SHAPES if nats else _SHAPES[:1])
        for epsilon, noise in noises
        if symbols > 2 or shape not in ("rare category", "one symbol", "gone")
    ]  # fmt: skip


QUESTIONS = {
    "coverage": Question(coverage_settings, covers, 0.05, 1000, "lower_holds"),
    "unequal": Question(unequal_settings, covers, 0.05, 200, "upper_holds"),
    "clustered": Question(clustered_settings, tells, 0.05, 200, "population_holds"),
    "themselves": Question(themselves_settings, finds, 0.1, 200, "found"),
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
        setting.reference, setting.trust, threshold, setting.records, about=setting.about
    )
    found = [
        question.read(setting, checks, checks.run(setting.federation, setting.clients, rng))
        for _ in range(runs)
    ]
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
