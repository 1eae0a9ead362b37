"""The design effect from clients' spread: noise alone hardly raises it, and checks add up."""

import numpy as np
import pytest

from flwr_kld.inference.recent_checks import Spread, design_effect


def test_without_noise_it_is_what_was_seen():
    assert design_effect([Spread(3.0, 0.0)], 50.0) == pytest.approx(3.0)
    assert design_effect([Spread(0.4, 0.0)], 50.0) == 1.0
    assert design_effect([Spread(80.0, 0.0)], 50.0) == 50.0


def test_what_may_be_noise_hardly_counts():
    assert design_effect([Spread(5.0, 10.0)], 50.0) < 1.2
    assert 4.9 < design_effect([Spread(5.0, 0.2)], 50.0) <= 5.0


def test_recent_checks_tell_what_one_cannot():
    rng = np.random.default_rng(0)
    alone, together = [], []
    for _ in range(200):
        spreads = [Spread(3.0 + 4.0 * rng.standard_normal(), 4.0) for _ in range(16)]
        alone.append(design_effect(spreads[-1:], 50.0))
        together.append(design_effect(spreads, 50.0))
    errors = [float(np.mean((np.array(found) - 3) ** 2)) for found in (alone, together)]
    assert errors[1] < 0.8 * errors[0]  # squared errors 2.6 and 3.7: seeded


def test_a_check_that_sees_little_weighs_little():
    clear, dim = Spread(2.0, 0.1), Spread(40.0, 30.0)
    assert design_effect([clear, dim], 50.0) < 2.5
