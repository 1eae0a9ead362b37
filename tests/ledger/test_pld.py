"""Composed epsilon: never below the truth of the implemented tables, and close to it."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ledger.books import pure
from scipy.stats import binom
from unproven import unproven

from examples import examples
from flwr_kld.kernel import Guarantee
from flwr_kld.kernel.law import TOTAL, NoiseTable
from flwr_kld.ledger.composition import composed_epsilon
from flwr_kld.ledger.cost import Cost
from flwr_kld.trust.calibration import calibrate_shares, calibrated_gaussian, calibrated_laplace
from flwr_kld.trust.noise_laws import discrete_gaussian, discrete_laplace

RATE = 1 - 2**-20
"""Of a discrete Laplace table, times its scale."""


@pytest.fixture(scope="module")
def pld():
    """Independent compositions; imported by these tests alone, as it takes seconds."""
    from dp_accounting.pld import privacy_loss_distribution

    return privacy_loss_distribution


def outcomes(table, shift):
    """(P, Q) of every integer that either law can give, float64; nothing is left out."""
    reach = table.reach + abs(shift)
    points = range(-reach, reach + 1)
    p = [float(table.probability(k)) for k in points]
    q = [float(table.probability(k - shift)) for k in points]
    rest = float(table.tail / TOTAL)  # beyond: count it as lost
    return np.array(p), np.array(q), rest


def product(first, second):
    p, q = (np.multiply.outer(a, b).ravel() for a, b in zip(first[:2], second[:2], strict=True))
    return p, q, first[2] + second[2]


def true_epsilon(pair, delta):
    """Bisection on the hockey-stick divergence, summed over outcomes."""
    p, q, lost = pair

    def excess(epsilon):
        gain = p - math.exp(epsilon) * q
        return math.fsum(gain[gain > 0]) + lost - delta

    low, high = 0.0, 50.0
    if excess(0.0) <= 0:
        return 0.0
    for _ in range(100):
        middle = (low + high) / 2
        low, high = (middle, high) if excess(middle) > 0 else (low, middle)
    return high


def event(table, shifts, epsilon=1.0):
    return Cost.of(unproven(table, shifts, Guarantee(epsilon)))


def binomial_delta(each, times, epsilon):
    """Delta at `epsilon` of so many randomised responses, from the logarithm of each outcome."""
    ones = np.arange(math.floor((epsilon / each + times) / 2) + 1, times + 1)
    chance = 1 / (1 + math.exp(-each))
    losses = (2 * ones - times) * each
    logs = binom.logpmf(ones, times, chance)
    return math.fsum(np.exp(logs) * -np.expm1(epsilon - losses))


TABLES = [
    discrete_laplace(0.4),
    discrete_laplace(1.0),
    discrete_gaussian(0.7),
    discrete_gaussian(1.5),
]


@pytest.mark.parametrize("delta", [1e-9, 1e-6, 1e-3])
@pytest.mark.parametrize("shifts", [(1,), (1, -1), (3,)])
@pytest.mark.parametrize("table", TABLES, ids=lambda table: f"sd{table.variance**0.5:.2f}")
def test_one_release_against_every_outcome(table, shifts, delta):
    pair = outcomes(table, shifts[0])
    for shift in shifts[1:]:
        pair = product(pair, outcomes(table, shift))
    got = composed_epsilon(((event(table, shifts), 1),), delta)
    assert true_epsilon(pair, delta) <= got <= true_epsilon(pair, delta) * (1 + 1e-8) + 1e-7


@settings(max_examples=examples(10))
@given(
    kinds=st.lists(st.sampled_from([(t, s) for t in TABLES[:3] for s in (1, 2)]), min_size=2,
                   max_size=3),
    delta=st.sampled_from([1e-7, 1e-5, 1e-2]),
)  # fmt: skip
def test_mixed_releases_against_every_outcome(kinds, delta):
    pair, dropped = (np.ones(1), np.ones(1), 0.0), 0.0
    for table, shift in kinds:
        p, q, lost = outcomes(table, shift)
        likely = p > 1e-16  # the rest is counted apart, or the product grows too large
        pair = product(pair, (p[likely], q[likely], lost))
        dropped += float(p[~likely].sum())
    costs = {}
    for table, shift in kinds:
        cost = event(table, (shift,))
        costs[cost] = costs.get(cost, 0) + 1
    got = composed_epsilon(tuple(costs.items()), delta)
    least, most = true_epsilon(pair, delta), true_epsilon((*pair[:2], pair[2] + dropped), delta)
    # Losses of two laws lie on no common grid: to split them cost 3e-6 of an epsilon of 18.8.
    assert least <= got <= most + max(1e-6, 1e-5 * most)


@pytest.mark.parametrize(
    ("epsilon", "times"), [(0.05, 21), (0.05, 365), (0.0125, 365), (0.3, 50), (1.0, 8)]
)
def test_discrete_laplace_agrees_with_dp_accounting(pld, epsilon, times):
    """Independent: dp-accounting's own discrete Laplace, on a grid that its losses lie on."""
    cost = Cost.of(calibrated_laplace(Guarantee(epsilon)))
    rate = RATE * epsilon / 2
    other = pld.from_discrete_laplace_mechanism(rate, value_discretization_interval=rate)
    expected = other.self_compose(2 * times).get_epsilon_for_delta(1e-6)
    got = composed_epsilon(((cost, times),), 1e-6)
    assert expected - 2e-9 <= got <= expected + 1e-6
    assert got < epsilon * times


@pytest.mark.parametrize(("sigma", "times"), [(4.0, 30), (20.0, 365)])
def test_discrete_gaussian_agrees_with_dp_accounting(pld, sigma, times):
    cost = event(discrete_gaussian(sigma), (1, -1))
    # The closed form. Losses are (2k - 1) / 2 sigma**2, on the grid but for float64: dp-accounting
    # rounds up, so they are lowered by a hair.
    reach = int(12 * sigma)
    law = {k: -(k**2) / (2 * sigma**2) for k in range(-reach, reach + 1)}
    whole = math.log(math.fsum(map(math.exp, law.values())))
    other = pld.from_two_probability_mass_functions(
        {k: log - whole for k, log in law.items()},
        {k + 1: log - whole - 1e-12 for k, log in law.items()},
        value_discretization_interval=1 / (2 * sigma**2),
    )
    expected = other.self_compose(2 * times).get_epsilon_for_delta(1e-6)
    got = composed_epsilon(((cost, times),), 1e-6)
    assert expected - 1e-7 <= got <= expected + 1e-6


@pytest.mark.parametrize(
    ("epsilon", "delta", "times", "at"),
    [(0.1, 0.0, 30, 1e-6), (0.25, 1e-8, 12, 1e-6), (0.5, 0.01, 5, 0.1)],
)
def test_a_bare_guarantee_agrees_with_dp_accounting(pld, epsilon, delta, times, at):
    other = pld.from_privacy_parameters(
        pld.common.DifferentialPrivacyParameters(epsilon, delta),
        value_discretization_interval=epsilon,
    )
    expected = other.self_compose(times).get_epsilon_for_delta(at)
    got = composed_epsilon(((pure(epsilon, delta=delta), times),), at)
    assert expected - 1e-7 <= got <= expected + 1e-6


@pytest.mark.parametrize(("each", "times"), [(0.002, 10_000), (0.002, 100_000), (1e-4, 10**6)])
def test_many_releases_are_composed_from_above(each, times):
    """Rounding grows with their number, and so does what is taken off delta for it."""
    got = composed_epsilon(((pure(each), times),), 1e-6)
    taken = 1e-12 + 6e-16 * times
    assert 1e-6 * (1 - 1e-8) - 2 * taken <= binomial_delta(each, times, got) <= 1e-6


def test_a_training_and_many_checks_are_composed_closely():
    """The training's loss lies between grid points, and the checks' are many."""
    costs = ((pure(0.7), 1), (pure(0.0003), 100_000))
    got = composed_epsilon(costs, 1e-6)
    alone = composed_epsilon(costs[1:], 1e-6)
    assert alone + 0.6 < got <= alone + 0.7


def test_what_falls_off_the_end_of_a_table_is_lost():
    """Two coins: a move of one leaves a quarter of the outcomes without a counterpart."""
    coins = NoiseTable((TOTAL // 4, TOTAL // 2, TOTAL // 4))
    cost = event(coins, (1,))
    assert composed_epsilon(((cost, 1),), 0.2499) == math.inf
    assert composed_epsilon(((cost, 1),), 0.26) == pytest.approx(
        true_epsilon(outcomes(coins, 1), 0.26), abs=1e-8
    )
    assert composed_epsilon(((cost, 2),), 0.43) == math.inf  # 1 - (3/4)**2 = 0.4375


def test_shares_count_by_the_honest_survivors_law():
    share = calibrate_shares(Guarantee(0.2, 1e-9), n_min=40)
    central = Cost.of(calibrated_laplace(Guarantee(0.2)))
    whole, same, missing, told = (
        composed_epsilon(((cost, 20),), 1e-6)
        for cost in (
            central,
            Cost.of_shares(share, 40),
            Cost.of_shares(share, 30),
            Cost.of_shares(share, 40, corrupted=10),
        )
    )
    assert same == pytest.approx(whole, rel=1e-4)
    assert missing == told > 1.05 * same


def test_shares_on_a_grid_count_on_that_grid():
    share = calibrate_shares(Guarantee(1.0, 1e-6), n_min=100, mechanism="discrete-gaussian")
    assert share.grid > 1
    cost = Cost.of_shares(share, 100)
    assert cost.shifts == (share.grid, -share.grid)
    assert composed_epsilon(((cost, 1),), 1e-6) == pytest.approx(1.0, abs=2e-3)


def test_nothing_is_promised_where_nothing_is_known():
    laplace = Cost.of(calibrated_laplace(Guarantee(0.5)))
    hopeless = Cost.claimed("none", Guarantee(1.0), math.inf)
    certain_loss = pure(0.5, delta=0.999999)
    assert composed_epsilon(((laplace, 1),), 0.0) == math.inf
    assert composed_epsilon(((laplace, 1), (hopeless, 1)), 1e-6) == math.inf
    assert composed_epsilon(((certain_loss, 1),), 1e-6) == math.inf
    gaussian = Cost.of(calibrated_gaussian(Guarantee(0.5, 1e-6)))
    assert composed_epsilon(((gaussian, 1),), 1e-6) == pytest.approx(0.5, rel=1e-3)


def test_a_composition_of_wide_losses_is_close():
    """365 releases at 3 nats: a binomial law of losses of 1.5 nats."""
    cost = Cost.of(calibrated_laplace(Guarantee(3.0)))
    got = composed_epsilon(((cost, 365),), 1e-6)
    assert 1e-6 * (1 - 1e-6) <= binomial_delta(1.5 * RATE, 730, got) <= 1e-6
