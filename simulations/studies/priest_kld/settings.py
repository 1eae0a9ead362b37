"""What the study varies: one configuration a task, and the series that each task measures."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

from flwr_kld.simulations.studies.priest_kld.written import Written

Pair = tuple[int, int]
"""Digits of the reference and of the clients."""

THETA = 0.01
FOURTEEN = (0.05, 0.1, 0.25, 0.5, 0.75, 1.0, 1.25, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0)
LAMBDAS = tuple(round(0.05 * i, 2) for i in range(41))
CLIENTS, DRAWS = 200, 1_000
COHORTS, EPSILONS = (36, 90, 180, 270, 360, 540, 660), (0.5, 2.0, 5.0)
FEW_DRAWS = (17, 100, 10_000)
_VERSION = 1
"""Of what a task computes: results of another version are not read."""

PAPER = ("none", "trusted", "aggregator", "distributed")
"""Who adds the noise, under the paper's rule."""
CENTRAL = ("none", "central")
"""Under the scalar rule: what `Trusted` and `TrustedAggregator` do is one function."""
COUNTS = ("none", "central", "distributed")
"""Under our defaults."""
SERIES = {"paper": PAPER, "scalar": CENTRAL, "default": COUNTS}


@dataclass(frozen=True)
class Study:
    """All that is to be measured."""

    data: str  # Digest of the records
    digits: tuple[int, ...] = tuple(range(10))  # Of which every ordered pair is measured
    # Cohorts, queries and noises of each setting; more of them keep those that are there
    repeats: int = 50
    # Clients, draws T, and values of ε
    settings: tuple[tuple[int, int, tuple[float, ...]], ...] = (
        (CLIENTS, DRAWS, FOURTEEN),
        *((clients, DRAWS, EPSILONS) for clients in COHORTS),
        *((CLIENTS, draws, (0.5,)) for draws in FEW_DRAWS),
    )
    lambdas: tuple[float, ...] = LAMBDAS  # Values of λ; the first is 0

    @classmethod
    def of(cls, written: Written, repeats: int) -> Study:
        """Plan the whole study, as far as there are enough writers."""
        settings = tuple(setting for setting in cls.settings if setting[0] <= written.writers)
        return cls(written.digest, repeats=repeats, settings=settings)

    @classmethod
    def smoke(cls, written: Written) -> Study:
        """Plan a study that takes seconds and has a point in every figure."""
        few = COHORTS[0]
        settings = ((CLIENTS, DRAWS, (0.5, 2.0)), (few, DRAWS, (0.5, 2.0)), (CLIENTS, few, (0.5,)))
        return cls(written.digest, (0, 1), 2, settings, (0.0, 1.0))

    @property
    def pairs(self) -> tuple[Pair, ...]:
        """Every ordered pair of different digits."""
        return tuple((i, j) for i, j in product(self.digits, repeat=2) if i != j)

    def task(
        self, clients: int, draws: int, epsilons: Sequence[float], repeat: int
    ) -> dict[str, Any]:
        """Return the configuration of one task."""
        return {
            "study": "priest-kld", "version": _VERSION, "data": self.data,
            "digits": list(self.digits), "clients": clients, "draws": draws,
            "epsilons": list(epsilons), "lambdas": list(self.lambdas), "repeat": repeat,
        }  # fmt: skip

    @property
    def tasks(self) -> list[dict[str, Any]]:
        """All of them, repeat by repeat, and in each those first that take longest."""
        longest = sorted(self.settings, key=lambda setting: -len(setting[2]))
        return [
            self.task(*setting, repeat) for repeat in range(self.repeats) for setting in longest
        ]
