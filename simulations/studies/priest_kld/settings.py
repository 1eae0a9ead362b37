"""What the study varies: one configuration a task, and the series that each task measures."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import product
from typing import Any

from flwr_kld.simulations.studies.priest_kld.written import WRITERS, Written

Pair = tuple[int, int]
"""Digits of the reference and of the clients."""

THETA = 0.01
FIVE, BETWEEN = (0.05, 0.5, 1.0, 3.0, 6.0), (0.1, 0.25, 2.0, 5.0)
"""Values of ε in tables, and those that figures show beside them."""
LAMBDAS = tuple(round(0.05 * i, 2) for i in range(41))
TAUS = (1e-6, 1e-5, 1e-4, 1e-3, 1e-2)
"""Values of the paper's small constant; the first is ours of its printed rule."""
CLIENTS, DRAWS = 200, 1_000
COHORTS, EPSILONS = (36, 90, 180, 270, 360, 540, 660), (0.5, 2.0, 5.0)
PAPERS_DELTA = 0.05
FEWEST_RECORDS = 20
"""That a cohort is expected to have of the rarest digit: a rule needs two of each."""
SERIES = {
    "paper": ("none", "trusted", "aggregator", "distributed"),
    "dithered": ("distributed",),
    "post-processed": ("none", "trusted", "aggregator", "distributed"),
    "scalar": ("none", "central"),
    "default": ("none", "central", "distributed"),
}
"""By rule, who adds the noise; under the scalar rule and our defaults, what `Trusted` and
`TrustedAggregator` do is one function."""
ONE_NUMBER, FROM_COUNTS, OURS = "one number", "counts", "ours"
"""Parts of a setting, each a task of its own: of one cohort, unless it is drawn anew."""
_VERSIONS = {ONE_NUMBER: 2, FROM_COUNTS: 2, OURS: 4}
"""Of what a part computes: results of another version are not read."""


@dataclass(frozen=True)
class Setting:
    """What the tasks of one setting have in common."""

    clients: int
    draws: int = DRAWS  # T
    epsilons: tuple[float, ...] = FIVE
    delta: float = 0.0  # 0: pure noise; under Dist, whose tables are bounded, its default
    anew: bool = False  # A cohort for each draw, as the paper prints it; otherwise one for all


@dataclass(frozen=True)
class Study:
    """All that is to be measured."""

    data: str  # Digest of the records
    digits: tuple[int, ...] = tuple(range(10))  # Of which every ordered pair is measured
    # Cohorts, queries and noises of each setting; more of them keep those that are there
    repeats: int = 50
    settings: tuple[Setting, ...] = (
        Setting(CLIENTS),
        Setting(CLIENTS, epsilons=(0.5,), delta=PAPERS_DELTA),
        Setting(CLIENTS, anew=True),
        *(Setting(clients, epsilons=EPSILONS) for clients in COHORTS),
        Setting(CLIENTS, epsilons=BETWEEN),
    )
    lambdas: tuple[float, ...] = LAMBDAS  # Values of λ; the first is 0
    fraction: float = 1.0  # Of the paper's cohorts that are asked
    left_out: tuple[str, ...] = ()  # Settings that the data cannot give, with the reason

    @classmethod
    def of(cls, written: Written, repeats: int) -> Study:
        """Plan the whole study; with few writers, cohorts are the paper's fractions of them."""
        few = written.writers < max(setting.clients for setting in cls.settings)
        fraction = written.writers / WRITERS if few else 1.0
        rarest = written.counts.sum(axis=1).min() / written.writers
        settings, left_out = list[Setting](), dict[str, None]()
        for setting in cls.settings:
            clients = round(fraction * setting.clients)
            if rarest * clients >= FEWEST_RECORDS:
                settings.append(replace(setting, clients=clients))
                continue
            left_out[
                f"|C| = {setting.clients} is left out: {clients} of {written.writers:,} writers, "
                f"with {rarest * clients:.1f} records of the rarest digit, where the rules need "
                f"{FEWEST_RECORDS}"
            ] = None
        kept = tuple(dict.fromkeys(settings))
        return cls(written.digest, cls.digits, repeats, kept, cls.lambdas, fraction, (*left_out,))

    @classmethod
    def quick(cls, written: Written) -> Study:
        """Plan a study that takes seconds and has a point in every figure."""
        settings = (
            Setting(CLIENTS, epsilons=(0.5, 2.0)),
            Setting(COHORTS[0], epsilons=(0.5, 2.0)),
            Setting(CLIENTS, epsilons=(0.5,), delta=PAPERS_DELTA),
            Setting(CLIENTS, 36, (0.5,), anew=True),
        )
        return cls(written.digest, (0, 1), 2, settings, (0.0, 1.0))

    def of_paper(self, clients: int) -> int:
        """How many clients are asked where the paper asks so many."""
        return round(self.fraction * clients)

    @property
    def pairs(self) -> tuple[Pair, ...]:
        """Every ordered pair of different digits."""
        return tuple((i, j) for i, j in product(self.digits, repeat=2) if i != j)

    def task(self, setting: Setting, part: str, repeat: int) -> dict[str, Any]:
        """Return the configuration of one task."""
        return {
            "study": "priest-kld", "version": _VERSIONS[part], "data": self.data, "part": part,
            "digits": list(self.digits), "clients": setting.clients, "draws": setting.draws,
            "epsilons": list(setting.epsilons), "delta": setting.delta, "anew": setting.anew,
            "lambdas": list(self.lambdas), "taus": list(TAUS), "repeat": repeat,
        }  # fmt: skip

    def parts(self, setting: Setting) -> tuple[str, ...]:
        """Return which tasks a setting has: only Algorithm 3 asks another cohort for each draw."""
        return (FROM_COUNTS,) if setting.anew else (FROM_COUNTS, ONE_NUMBER, OURS)

    @property
    def tasks(self) -> list[dict[str, Any]]:
        """All of them, the table's first: a study that is stopped has every rule in them."""
        return [
            self.task(setting, part, repeat)
            for setting in self.settings
            for repeat in range(self.repeats)
            for part in self.parts(setting)
        ]
