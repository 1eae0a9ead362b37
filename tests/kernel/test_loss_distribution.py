"""Moves of many coordinates: the bound against every outcome, closed forms and dp-accounting."""

import math
from collections import Counter
from fractions import Fraction
from itertools import combinations_with_replacement, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom

from examples import examples
from flwr_kld.kernel import Guarantee
from flwr_kld.kernel import delta as loss_distribution
from flwr_kld.kernel.delta import exp_below, hockey_stick
from flwr_kld.kernel.law import TOTAL, NoiseTable
from flwr_kld.trust.calibration import calibrated_gaussian, calibrated_laplace, least_noise
from flwr_kld.trust.noise_laws import discrete_gaussian, discrete_laplace

COLUMNS = (11, 50, 380)


def table_of(*side: int) -> NoiseTable:
    """Table with weights proportional to these, from 0 upwards."""
    unit = TOTAL // (side[0] + 2 * sum(side[1:]))
    right = [unit * weight for weight in side]
    right[0] = TOTAL - 2 * sum(right[1:])
    return NoiseTable((*right[:0:-1], *right))


def outcomes(table: NoiseTable, shift: int) -> list[tuple[Fraction, Fraction]]:
    """(P, Q) of every integer that the law before a move can give."""
    values = range(-table.reach, table.reach + 1)
    inside = [(table.probability(k), k - shift) for k in values]
    return [(p, table.probability(k) if abs(k) <= table.reach else Fraction(0)) for p, k in inside]


def brute(table: NoiseTable, shifts: tuple[int, ...], epsilon: float) -> Fraction:
    """Sum of (P - e**eps Q)+ over all outcomes, those of equal moves counted by their kinds."""
    bound, groups = exp_below(epsilon), []
    for shift, times in Counter(shifts).items():
        cells = outcomes(table, shift)
        kinds = []
        for chosen in combinations_with_replacement(range(len(cells)), times):
            ways = math.factorial(times)
            for n in Counter(chosen).values():
                ways //= math.factorial(n)
            p = math.prod((cells[i][0] for i in chosen), start=Fraction(ways))
            kinds.append((p, math.prod((cells[i][1] for i in chosen), start=Fraction(ways))))
        groups.append(kinds)
    whole = Fraction(0)
    for parts in product(*groups):
        p, q = (math.prod((part[i] for part in parts), start=Fraction(1)) for i in (0, 1))
        whole += max(p - bound * q, Fraction(0))
    return whole + len(shifts) * Fraction(table.tail, TOTAL)


@pytest.mark.parametrize("columns", [2, 3])
@pytest.mark.parametrize("epsilon", [0.0, 0.05, 0.5, 2.0, 6.0])
@pytest.mark.parametrize("table", [discrete_gaussian(0.3), table_of(27, 9, 3, 1)], ids=str)
def test_every_outcome_of_a_few_columns(table, columns, epsilon):
    """Losses of Gaussian and Laplace tables lie on a grid: only rounding adds to the truth."""
    shifts = (1, -1) * columns
    truth = brute(table, shifts, epsilon)
    assert truth <= hockey_stick(table, shifts, epsilon) <= truth + Fraction(1, 10**9)


@settings(max_examples=examples(40))
@given(
    falls=st.lists(st.integers(0, 400), min_size=2, max_size=3),
    shifts=st.lists(st.sampled_from([-3, -2, -1, 1, 2, 3]), min_size=3, max_size=3),
    epsilon=st.floats(0, 4),
)
def test_every_outcome_of_any_table_and_move(falls, shifts, epsilon):
    """Losses lie anywhere: each is split, and the bound stays above and close."""
    side = np.cumsum([1, *falls])[::-1].tolist()
    table, shifts = table_of(*side), tuple(shifts)
    found = hockey_stick(table, shifts, epsilon)
    assert brute(table, shifts, epsilon) <= found
    assert found <= brute(table, shifts, max(epsilon - 0.02, 0.0)) + Fraction(1, 100)


@pytest.mark.parametrize("delta", [1e-2, 1e-4, 1e-6, 1e-9, 1e-12, 1e-15])
@pytest.mark.parametrize("columns", [2, 11, 380])
def test_discrete_laplace_is_a_binomial_law_whatever_delta(columns, delta):
    """A move of one has two losses, so their sum is binomial: rounding is relative to delta."""
    scale, times = 3.0 * math.sqrt(columns), 2 * columns
    rate = (1 - 2**-20) / scale
    likely = 1 / (1 + math.exp(-rate))
    heads = np.arange(times + 1)
    losses, logs = (2 * heads - times) * rate, binom.logpmf(heads, times, likely)

    def closed(epsilon):
        over = losses > epsilon
        return math.fsum(np.exp(logs[over]) * -np.expm1(epsilon - losses[over]))

    low, high = 0.0, times * rate
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if closed(middle) > delta else (low, middle)
    found = float(hockey_stick(discrete_laplace(scale), (1, -1) * columns, high))
    assert found == pytest.approx(closed(high), rel=1e-5)


@pytest.mark.parametrize("columns", COLUMNS)
@pytest.mark.parametrize("epsilon", [0.3, 1.0])
def test_between_dp_accountings_estimates(columns, epsilon):
    """Its own discrete Gaussian, from above and from below; 1 % of epsilon is noticed."""
    from dp_accounting.pld import privacy_loss_distribution as pld

    event = calibrated_gaussian(Guarantee(epsilon, 1e-6), moves=(1, -1) * columns)
    sigma = math.sqrt(event.table.variance)
    above, below = (
        pld.from_discrete_gaussian_mechanism(
            sigma,
            value_discretization_interval=1 / (4 * sigma) / columns,
            pessimistic_estimate=pessimistic,
        ).self_compose(2 * columns)
        for pessimistic in (True, False)
    )
    for at in (0.7 * epsilon, epsilon, 1.2 * epsilon):
        found = float(event.delta_at(at))
        assert below.get_delta_for_epsilon(at) <= found <= above.get_delta_for_epsilon(0.99 * at)


@pytest.mark.parametrize("columns", [2, 3, *COLUMNS])
def test_calibrated_noise_is_enough_and_ten_percent_less_is_not(columns):
    shifts = (1, -1) * columns
    event = calibrated_gaussian(Guarantee(1.0, 1e-6), moves=shifts)
    assert event.moves == shifts
    assert event.delta_at(1.0) <= 1e-6 < event.delta_at(0.99)
    weaker = discrete_gaussian(0.9 * math.sqrt(event.table.variance))
    assert hockey_stick(weaker, shifts, 1.0) > 1e-6


@pytest.mark.parametrize(("columns", "sigma"), [(11, 19.82), (50, 42.25), (380, 116.48)])
def test_gaussian_noise_of_many_columns_is_that_of_the_analytic_mechanism(columns, sigma):
    """Balle & Wang 2018 for an l2 move of √(2d): 4.2247 √(2d) at ε = 1, δ = 1e-6."""
    event = calibrated_gaussian(Guarantee(1.0, 1e-6), moves=(1, -1) * columns)
    assert math.sqrt(event.table.variance) == pytest.approx(sigma, rel=5e-4)


def test_signs_order_and_coordinates_that_stay_do_not_matter():
    table = discrete_gaussian(9.0)
    one = hockey_stick(table, (1, 2, -1, 3), 0.5)
    assert one == hockey_stick(table, (-3, 1, 0, 1, -2), 0.5)
    assert one == pytest.approx(float(hockey_stick(table, (2, 3, 1, 1), 0.5)), rel=1e-12)
    assert hockey_stick(table, (0, 0, 0), 0.5) == 0


def test_what_a_short_window_folds_back_is_added(monkeypatch):
    table, shifts = discrete_gaussian(42.25), (1, -1) * 50
    truth = float(hockey_stick(table, shifts, 1.0))
    monkeypatch.setattr(loss_distribution, "COARSE", 1)
    for deviations, least, most in (
        (4.0, 1.5, 3.0), (8.0, 1.001, 1.01), (12.0, 1 - 1e-8, 1.000001),
    ):  # fmt: skip
        monkeypatch.setattr(loss_distribution, "_DEVIATIONS", deviations)
        assert least * truth < float(hockey_stick(table, shifts, 1.0)) < most * truth


def test_a_move_beyond_the_table_is_lost():
    table = discrete_gaussian(0.5)
    assert hockey_stick(table, (1, 1, 100), 1.0) == 1


@pytest.mark.parametrize(
    ("columns", "delta", "mechanism"),
    [
        (1, 1e-6, "discrete-laplace"),
        (4, 1e-6, "discrete-laplace"),
        (5, 1e-6, "discrete-gaussian"),
        (11, 1e-6, "discrete-gaussian"),
        (11, 0.0, "discrete-laplace"),
        (11, 1e-40, "discrete-laplace"),
    ],
)
def test_the_smaller_noise_is_taken(columns, delta, mechanism):
    shifts, asked = (1, -1) * columns, Guarantee(1.0, delta)
    event = least_noise(asked, moves=shifts)
    assert (event.mechanism, event.moves, event.guarantee) == (mechanism, shifts, asked)
    pure = calibrated_laplace(Guarantee(1.0), moves=shifts)
    assert event.table.variance <= pure.table.variance
    assert event.delta_at(1.0) <= delta
    if mechanism == "discrete-laplace":
        assert event.table == pure.table
    if delta == 1e-6:
        gaussian = calibrated_gaussian(asked, moves=shifts)
        assert event.table.variance <= gaussian.table.variance


@pytest.mark.parametrize("shift", [1, 2, 3])
@pytest.mark.parametrize("sigma", [0.9, 2.0, 9.0])
def test_rounding_makes_no_loss_smaller(sigma, shift):
    """On its grid, what a move makes of the kept outcomes is less likely than by the table."""
    table = discrete_gaussian(sigma)
    part = loss_distribution.loss_distribution(table, shift)
    grid = loss_distribution._OnGrid(part, 1e-3)
    after = table.probabilities[: len(table.weights) - shift]
    after = after[np.minimum(table.probabilities[shift:], after) >= loss_distribution._ROUGH]
    moved = math.fsum(np.exp(grid.logs - grid.losses))
    assert 1 - 1e-11 < moved / math.fsum(after) < 1
