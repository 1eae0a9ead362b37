"""The settings in which `false_no_drift` asks whether a drift is called none."""

from __future__ import annotations

from itertools import cycle
from typing import Any

from flwr_kld.kernel.promise import Adjacency
from flwr_kld.simulations.studies.check_setting import Setting

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
_REPLACE, _ADD = Adjacency.REPLACE_ONE, Adjacency.ADD_REMOVE
_GUARANTEES: tuple[dict[str, Any], ...] = (
    {"epsilon": 1.0},
    {"epsilon": 5.0},
    {"epsilon": 0.3, "adjacency": _ADD},
    {"epsilon": 1.0, "noise": "distributed"},
    {"epsilon": 5.0, "noise": "client level", "adjacency": _ADD},
    {"epsilon": 0.1},
    {"epsilon": 5.0, "noise": "distributed", "adjacency": _ADD},
)
_ALIKE = (None, None, 50.0, None, 5.0)
"""Of clients in cohorts that are split by client."""
_EACH = 3
"""Settings of each drift; of one that takes long to prepare, one less."""


def settings(nats: float) -> list[Setting]:
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
