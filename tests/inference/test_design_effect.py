import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from flwr_kld.inference.design_effect import design_effect

SHARES, GROUPS, RECORDS = np.array([0.5, 0.3, 0.15, 0.05]), 10, 20_000


def counts(rng, effect, deviation=0.0):
    """Groups of clients whose records are alike: `effect` is theirs by construction."""
    if effect == 1:
        clear = rng.multinomial(RECORDS // GROUPS, SHARES, size=GROUPS).T
    else:  # as many clients of `effect` equal records
        clients = int(RECORDS / GROUPS / effect)
        clear = int(effect) * rng.multinomial(clients, SHARES, size=GROUPS).T
    return clear + np.rint(rng.normal(0, deviation, clear.shape)).astype(int)


@pytest.mark.parametrize("deviation", [0.0, 30.0])
@pytest.mark.parametrize("effect", [1, 5, 20])
def test_on_average_it_is_the_effect_less_the_noise(effect, deviation):
    rng = np.random.default_rng(0)
    noise = deviation**2 + (1 / 12 if deviation else 0)  # rounding
    found = [design_effect(counts(rng, effect, deviation), noise) for _ in range(2_000)]
    value = np.array([one.value for one in found])
    upper = np.array([one.upper for one in found])
    # Of effects that are cut at 1 the mean lies above; a mean of 2,000 errs by 1 %.
    assert value.mean() == pytest.approx(effect, rel=0.05, abs=0.6 if effect == 1 else 0)
    assert (upper >= value).all()
    assert (upper >= effect).mean() >= 0.88  # of 90 %; a share of 2,000 errs by 0.7 %
    assert upper.mean() < 6 * effect + 3


@settings(max_examples=200, deadline=None)
@given(arrays(np.int64, (3, 4), elements=st.integers(-50, 50)), st.floats(0, 500))
def test_whatever_noise_makes_of_counts_it_is_finite(counts, noise):
    found = design_effect(counts, noise)
    assert 1 <= found.value <= found.upper < math.inf


def test_of_one_level_or_nothing_it_is_1():
    for none in (np.array([[10, 20, 30]]), np.zeros((3, 5), dtype=int)):
        found = design_effect(none, 4.0)
        assert (found.value, found.upper) == (1.0, 1.0)
