"""Kaplan–Meier curves and the log-rank test from counts, with noise and without."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from flwr_kld.inference.survival import curves, kaplan_meier

BINS = 13


def patients(rng: np.random.Generator, records: int, scale: float = 8.0):
    """Times in months, and whether the event came before they were last seen."""
    time, seen = rng.weibull(1.3, records) * scale, rng.uniform(3, 20, records)
    return np.minimum(time, seen), time <= seen


def counted(time, event) -> np.ndarray:
    """By month of a year, and beyond: with the event, and censored; shape [2, bins]."""
    month = np.minimum(time, BINS - 1).astype(int)
    return np.stack([np.bincount(month[own], minlength=BINS) for own in (event, ~event)]).astype(
        float
    )


def exact(time, event) -> np.ndarray:
    """Of the times themselves, at the end of each month of the year."""
    order = np.argsort(time, kind="stable")
    time, event = time[order], event[order]
    curve = np.cumprod(1 - event / np.arange(len(time), 0, -1))
    reached = np.searchsorted(time, np.arange(1, BINS), side="right")
    return np.where(reached > 0, curve[reached - 1], 1.0)


def read(counts, noise=1e-6, design_effect=0.0, records=None):
    counts = np.asarray(counts, dtype=float)
    names = [f"group {i}" for i in range(len(counts))]
    records = counts.sum() if records is None else records
    return curves(counts, names, noise=noise, records=records, design_effect=design_effect)


def test_a_curve_worked_by_hand():
    events, censored = np.array([1.0, 2.0, 0.0, 3.0]), np.array([0.0, 2.0, 2.0, 0.0])
    # 10 at risk, one event; 9, of whom 2 leave in the middle: 8, two events; none; 3, all
    assert kaplan_meier(events, censored) == pytest.approx([0.9, 0.9 * 6 / 8, 0.9 * 6 / 8, 0.0])


def test_without_noise_it_is_the_curve_of_the_times():
    time, event = patients(np.random.default_rng(0), 20_000)
    (curve,), test = read(counted(time, event)[None])
    assert test is None
    assert curve.survival[: BINS - 1] == pytest.approx(exact(time, event), abs=0.004)
    assert curve.at_risk[0] == pytest.approx(20_000)


@pytest.mark.parametrize("design_effect", [0.0, 1.0])
def test_the_band_holds_the_curve_at_all_times_at_once(design_effect):
    rng, held, runs = np.random.default_rng(1), 0, 60
    truth = np.exp(-((np.arange(1, BINS) / 8.0) ** 1.3))
    for _ in range(runs):
        time, event = patients(rng, 800)
        counts = counted(time, event)
        (curve,), _ = read(counts[None] + rng.normal(0, 4, counts.shape), 4, design_effect, 800)
        low, high = (np.array(x)[: BINS - 1] for x in (curve.low, curve.high))
        of = truth if design_effect else exact(time, event)
        held += ((low <= of + 1e-9) & (of <= high + 1e-9)).all()
    assert held >= 52  # of 60 at 95 %: fewer in one of 5,000 tries


def test_one_hazard_is_seldom_called_two_and_two_are_told_apart():
    rng, alike, apart, runs = np.random.default_rng(2), 0, 0, 100
    for _ in range(runs):
        one, same, other = (counted(*patients(rng, 400, scale)) for scale in (8.0, 8.0, 14.0))
        for which, counts in (("alike", [one, same]), ("apart", [one, other])):
            noised = np.stack(counts) + rng.normal(0, 3, (2, 2, BINS))
            _, p_value = read(noised, 3, 1.0, 800)
            if which == "alike":
                alike += p_value < 0.05
            else:
                apart += p_value < 0.05
    assert alike <= 13  # of 100 at 5 %: more in one of 1,000 tries
    assert apart >= 95


ODD = st.lists(st.integers(-50, 50), min_size=2 * BINS, max_size=2 * BINS)


@given(ODD, st.floats(0.1, 100), st.integers(1, 10_000))
def test_any_counts_give_a_falling_curve_in_its_band(values, noise, records):
    counts = np.reshape(values, (1, 2, BINS))
    (curve,), _ = read(counts, noise, 1.0, records)
    survival, low, high = map(np.array, (curve.survival, curve.low, curve.high))
    assert np.isfinite([survival, low, high]).all()
    assert (np.diff(survival) <= 1e-12).all()
    assert ((low <= survival + 1e-12) & (survival <= high + 1e-12)).all()
    assert ((low >= 0) & (high <= 1)).all()
    assert curve.at_risk[0] == pytest.approx(records)
