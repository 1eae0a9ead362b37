"""The settings in which `coverage` tries the limits of a check."""

from __future__ import annotations

from flwr_kld.kernel.promise import Adjacency
from flwr_kld.simulations.studies.check_setting import Setting

_ADD = Adjacency.ADD_REMOVE


def settings() -> list[Setting]:
    """List the settings: drifts of every size, cohorts of every kind, and all sources of noise."""
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
        Setting(600, "tilted", 0.3, 200, 50, adjacency=_ADD),
        Setting(600, "tilted", 0.3, 200, 50, noise="gaussian"),
        Setting(600, "tilted", 0.3, 200, 50, noise="aggregator"),
        Setting(600, "tilted", 0.3, 200, 50, 0.3, noise="aggregator", adjacency=_ADD),
        Setting(600, "tilted", 0.3, 200, 50, noise="distributed"),
        Setting(600, "tilted", 0.3, 30, 200, noise="distributed"),
        Setting(600, "tilted", 0.3, 400, 20, 5.0, noise="client level", adjacency=_ADD),
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
