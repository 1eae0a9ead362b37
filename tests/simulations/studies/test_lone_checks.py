"""Questions about checks that stand alone: every drift that a study names can be drawn."""

import numpy as np
import pytest

from flwr_kld.simulations.studies.check_setting import UNEQUAL, Setting
from flwr_kld.simulations.studies.lone_checks import QUESTIONS

SMALL = 5_000
"""Symbols up to which a law is quickly made."""


@pytest.mark.parametrize("name", QUESTIONS)
def test_every_drift_is_as_large_as_it_says(name):
    kinds: dict[str, Setting] = {}
    for setting in QUESTIONS[name].settings():
        if 0 < setting.symbols <= SMALL:
            kinds.setdefault(setting.drift, setting)
    assert kinds
    for drift, setting in kinds.items():
        assert np.isfinite(setting.truth)
        if drift not in UNEQUAL and drift != "one group":
            assert abs(setting.truth - setting.nats) < 1e-3
