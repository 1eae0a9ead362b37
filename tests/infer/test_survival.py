"""Kaplan–Meier curves and the log-rank test from counts, with noise and without."""

import numpy as np
import pytest
from chance import most
from hypothesis import given
from hypothesis import strategies as st

from flwr_kld.infer.survival import curves, kaplan_meier

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
    order = np.lexsort((~event, time))  # events before those censored at the same time
    time, event = time[order], event[order]
    curve = np.cumprod(1 - event / np.arange(len(time), 0, -1))
    reached = np.searchsorted(time, np.arange(1, BINS), side="left")
    return np.where(reached > 0, curve[reached - 1], 1.0)


def read(counts, noise=1e-6, design_effect=0.0, records=None):
    counts = np.asarray(counts, dtype=float)
    names = [f"group {i}" for i in range(len(counts))]
    records = counts.sum() if records is None else records
    between = records if isinstance(records, tuple) else (records, records)
    return curves(counts, names, noise=noise, records=between, design_effect=design_effect)


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


@pytest.mark.rate(1e-5)
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
    assert runs - held <= most(runs, 0.05)


@pytest.mark.rate(1e-5)
@pytest.mark.parametrize("lost", ["at once", "in whole months", "at ends"])
def test_the_band_holds_wherever_in_their_bins_records_are_lost(lost):
    """Times are often whole months: then all that happens in a bin happens at its beginning."""
    rng, held, runs = np.random.default_rng(3), 0, 40
    for _ in range(runs):
        time, seen = rng.weibull(1.3, 4000) * 8.0, rng.exponential(6, 4000) // 1
        if lost == "in whole months":
            time = time // 1
        if lost == "at ends":
            seen += 0.999
        time, event = np.minimum(time, seen), time <= seen
        counts = counted(time, event)
        (curve,), _ = read(counts[None] + rng.normal(0, 4, counts.shape), 4, 0.0, 4000)
        low, high = (np.array(x)[: BINS - 1] for x in (curve.low, curve.high))
        truth = exact(time, event)
        held += ((low <= truth + 1e-9) & (truth <= high + 1e-9)).all()
    assert runs - held <= most(runs, 0.05)


@pytest.mark.rate(1e-5)
@pytest.mark.parametrize("left", [20, 300])
def test_the_band_holds_where_few_are_left_within_a_bin(left):
    """Of 3,000 all but a few are lost at six months sharp, and these have the event in that bin."""
    rng, held, runs = np.random.default_rng(6), 0, 40
    for _ in range(runs):
        time = np.minimum(rng.weibull(1.3, 3000) * 8.0, 6.0)
        time, event = np.append(time, [6.5] * left), np.append(time < 6.0, [True] * left)
        counts = counted(time, event)
        noised = counts[None] + rng.normal(0, 4, counts.shape)
        (curve,), _ = read(noised, 4, 0.0, len(time))
        low, high = (np.array(x)[: BINS - 1] for x in (curve.low, curve.high))
        truth = exact(time, event)
        held += ((low <= truth + 1e-9) & (truth <= high + 1e-9)).all()
    assert runs - held <= most(runs, 0.05)


@pytest.mark.rate(1e-5)
@pytest.mark.parametrize("known", [True, False])
def test_the_band_holds_where_hardly_anybody_has_the_event(known):
    """Noise in the many bins without events is no event, whatever half of it looks like."""
    rng, held, runs, bins = np.random.default_rng(7), 0, 40, 49
    for _ in range(runs):
        lost = np.minimum(rng.geometric(0.05, (2, 5000)) - 1, bins - 1)
        counts = np.zeros((2, 2, bins))
        counts[:, 1] = [np.bincount(own, minlength=bins) for own in lost]
        noised = counts + rng.laplace(0, 40 / 2**0.5, counts.shape)
        found, _ = read(noised, 40, records=10_000 if known else (1.0, 1e9))
        held += sum(min(curve.high) > 1 - 1e-9 for curve in found)
    assert 2 * runs - held <= most(2 * runs, 0.05)


def test_where_nobody_is_left_a_curve_may_be_anywhere_below():
    """Whether any of 150 are left after eight months, the noise does not tell."""
    counts = np.zeros((1, 2, BINS))
    counts[0, :, :3] = [[300, 200, 100], [80, 80, 0]]
    counts[0, 1, 5:] = 30
    (curve,), _ = read(counts, noise=16.0)
    assert curve.low[3] > 0.1
    assert curve.low[8:] == (0.0,) * (BINS - 8)
    assert curve.survival[8] <= curve.high[8] == curve.high[-1] < 0.6


def test_half_is_reached_at_a_time_that_has_an_end():
    """All live beyond the last edge, and die then; or by the second month."""
    late, early = np.zeros((2, 2, BINS))
    late[0, -1] = early[0, 1] = 1000
    times = tuple(map(float, range(1, BINS)))
    told = [read(counts[None], noise=1.0)[0][0].medians(times) for counts in (late, early)]
    assert told == [(None, None, None), (2.0, 2.0, 2.0)]


@pytest.mark.rate(1e-5)
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
    assert alike <= most(runs, 0.05)
    assert apart >= 95


@pytest.mark.rate(1e-5)
def test_one_hazard_is_one_however_many_of_each_group_are_lost():
    """One group is lost soon, and one never; or one is of few records. In whole months, or not."""
    rng, runs = np.random.default_rng(4), 60
    for rounded, share in ((0.0, 0.5), (1.0, 0.5), (0.0, 0.03)):
        found = 0
        for _ in range(runs):
            groups = []
            for size, lost in ((share, 4.0), (1 - share, 1e9)):
                time = rng.weibull(1.3, int(10_000 * size)) * 8.0
                seen = rng.exponential(lost, len(time))
                if rounded:
                    time, seen = time // 1, seen // 1
                groups.append(counted(np.minimum(time, seen), time <= seen))
            noised = np.stack(groups) + rng.normal(0, 8, (2, 2, BINS))
            found += read(noised, 8, 1.0, 10_000)[1] < 0.05
        assert found <= most(runs, 0.05)


@pytest.mark.rate(1e-5)
def test_few_at_risk_in_late_bins_hide_no_difference():
    """Draws of noise that divide by nearly nobody would: then none of 60 is found."""
    rng, found = np.random.default_rng(4), 0
    for _ in range(60):
        groups = []
        for slower in (1.0, 1.6):
            time, seen = rng.weibull(1.3, 1000) * 8.0 * slower, rng.exponential(6, 1000)
            groups.append(counted(np.minimum(time, seen), time <= seen))
        noised = np.stack(groups) + rng.normal(0, 30, (2, 2, BINS))
        found += read(noised, 30, 1.0, 2000)[1] < 0.05
    assert found >= 5


def test_groups_that_noise_drowns_are_not_told_apart():
    noised = np.random.default_rng(5).normal(0, 1000, (3, 2, BINS))
    found, p_value = read(noised, 1000, 0.0, 300)
    assert p_value == 1.0
    assert {(one.low[-1], one.high[0]) for one in found} == {(0.0, 1.0)}


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
