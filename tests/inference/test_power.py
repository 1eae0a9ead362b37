import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flwr_kld.inference.power import Power, errors_for_checks, errors_for_one_check

MASS = np.arange(1, 301) ** -0.9
CHECK = Power(MASS / MASS.sum(), records=10_000, noise=32.0)
"""ε = 0.5 or so."""


@settings(max_examples=60, deadline=None)
@given(
    factor=st.floats(1.0, 50.0),
    field=st.sampled_from(["records", "noise", "design_effect"]),
    threshold=st.floats(0, 0.3),
    errors=st.floats(0.5, 6),
)
def test_more_records_less_noise_and_less_alike_clients_find_smaller_drifts(
    factor, field, threshold, errors
):
    more = replace(CHECK, **{field: factor * getattr(CHECK, field)})
    now, then = (s.detectable(threshold, errors=errors) for s in (CHECK, more))
    assert then <= now if field == "records" else then >= now
    assert now > threshold


def test_without_noise_and_with_all_records_it_is_the_threshold():
    sure = replace(CHECK, noise=0.0, records=1e9)
    assert sure.detectable(0.1, errors=2.0) == pytest.approx(0.1 / 0.95, rel=0.05)


def test_what_no_drift_reaches_is_infinite():
    assert replace(CHECK, records=20.0).detectable(1.0, errors=5.0) == math.inf


@pytest.mark.parametrize("errors", [1.0, 2.7])
def test_cells_of_about_the_same_mass_are_one(errors):
    """Merging cells of nearly equal mass changes nothing that is seen at three digits."""
    even = Power(np.full(200, 1 / 200), 10_000, 32.0)
    noisy = np.full(200, 1 / 200) * np.random.default_rng(0).uniform(0.97, 1.03, 200)
    near = replace(even, mass=noisy / noisy.sum())
    assert near.detectable(0.05, errors=errors) == pytest.approx(
        even.detectable(0.05, errors=errors), rel=0.02
    )


def test_errors_for_one_check_are_those_of_students_law():
    """From a table: t(0.95, 9) = 1.833, t(0.8, 9) = 0.883."""
    assert errors_for_one_check(0.95, 0.8, 10) == pytest.approx(1.833 + 0.883, abs=1e-3)


def test_more_checks_find_smaller_drifts_and_too_few_none():
    needed = [errors_for_checks(n, rate=0.05, horizon=365, power=0.8) for n in (1, 5, 20, 100, 365)]
    assert needed == sorted(needed, reverse=True)
    assert needed[0] == math.inf
    assert 0.1 < needed[-1] < needed[2] < 2
    assert 0.9 < errors_for_checks(20, rate=0.05, horizon=365, power=0.5) < 1.1


@pytest.mark.parametrize(
    "bad",
    [
        {"records": 0}, {"noise": -1.0}, {"design_effect": 0.5}, {"groups": 1}, {"theta": 1.0},
        {"records": math.nan},
    ],
)  # fmt: skip
def test_bad_numbers(bad):
    with pytest.raises(ValueError, match=r"records|group|theta|noise|design_effect"):
        replace(CHECK, **bad)


@pytest.mark.parametrize("threshold", [0.0, 0.1])
def test_more_standard_errors_ask_for_a_larger_drift(threshold):
    found = np.array([CHECK.detectable(threshold, errors=e) for e in (0.5, 2.0, 4.0, 8.0)])
    assert (found[1:] > 1.02 * found[:-1]).all()
