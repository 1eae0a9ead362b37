"""Sets of moves: the corner of a box is worst, and one event says for all of them."""

import math
from fractions import Fraction
from itertools import pairwise, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from examples import examples
from flwr_kld.accounting import Cost
from flwr_kld.accounting.composition import composed_epsilon
from flwr_kld.calibration.central import (
    ball_event,
    box_event,
    calibrated_gaussian,
    calibrated_laplace,
)
from flwr_kld.calibration.laws import (
    discrete_gaussian,
    discrete_laplace,
    skellam_share,
)
from flwr_kld.calibration.shares import calibrate_shares, epsilon_of
from flwr_kld.kernel import Guarantee
from flwr_kld.kernel.count import MOVES
from flwr_kld.kernel.delta import exp_below, hockey_stick, log_concave, moves_delta
from flwr_kld.kernel.law import TOTAL, NoiseTable, noise_sum
from flwr_kld.kernel.promise import Ball, Box, WholeClients

TABLES = {
    "gaussian": discrete_gaussian(7.3),
    "narrow gaussian": discrete_gaussian(0.4),
    "laplace": discrete_laplace(5.7),
    "wide laplace": discrete_laplace(300.0),
    "skellam": noise_sum(skellam_share(2.0), 20),
    "gaussian shares": noise_sum(discrete_gaussian(1.5), 12),
}


def is_log_concave(weights):
    return all(
        b * b >= a * c for (a, b), (_, c) in pairwise(pairwise((0, *weights, 0)))
    )  # fmt: skip


def test_a_box_of_a_bumpy_table_is_not_its_corner():
    """A table whose even numbers are likely hides a move of two better than one of one."""
    table = some_table([400, 1, 300, 1])
    assert hockey_stick(table, (2,), 0.5) < hockey_stick(table, (1,), 0.5)
    assert moves_delta(table, Box((2,)), 0.5) >= hockey_stick(table, (1,), 0.5)


@pytest.mark.parametrize("name", TABLES)
def test_a_log_concave_law_just_below(name):
    table = TABLES[name]
    below = log_concave(table)
    assert is_log_concave(below.weights)
    outside = table.reach - below.reach
    inside = table.weights[outside : len(table.weights) - outside]
    assert all(w <= t for w, t in zip(below.weights, inside, strict=True))
    assert below.tail - table.tail < TOTAL >> 75


@pytest.mark.parametrize("epsilon", [0.05, 0.4, 1.5])
@pytest.mark.parametrize("name", TABLES)
def test_no_move_inside_a_box_is_worse_than_its_corner(name, epsilon):
    """Exactly, for one and two coordinates, to the 1e-12 that both bounds are rounded by."""
    table, corner = TABLES[name], (4, 3)
    bound = moves_delta(table, Box(corner), epsilon) + Fraction(1, 1 << 40)
    for a, b in product(range(5), range(-3, 4)):
        assert hockey_stick(table, (a, b), epsilon) <= bound


def some_table(falls):
    """Symmetric, positive, and neither unimodal nor log-concave."""
    unit = TOTAL // (falls[0] + 2 * sum(falls[1:]))
    side = [unit * weight for weight in falls]
    side[0] = TOTAL - 2 * sum(side[1:])
    return NoiseTable((*side[:0:-1], *side))


def brute(table, shifts, epsilon):
    """Sum of (P - e**eps Q)+ over all outcomes of a table without a tail."""
    bound, values = exp_below(epsilon), range(-table.reach, table.reach + 1)

    def law(k):
        return table.probability(k) if abs(k) <= table.reach else Fraction(0)

    whole = Fraction(0)
    for outcome in product(values, repeat=len(shifts)):
        p = math.prod(map(law, outcome))
        q = math.prod(law(k - shift) for k, shift in zip(outcome, shifts, strict=True))
        whole += max(p - bound * q, Fraction(0))
    return whole


@settings(max_examples=examples(25))
@given(
    falls=st.lists(st.integers(1, 400), min_size=2, max_size=3),
    epsilon=st.floats(0.01, 3),
)
def test_the_bound_of_a_box_holds_for_all_its_moves_whatever_the_table(falls, epsilon):
    table, corner = some_table(falls), (2, 1, 1)
    bound = moves_delta(table, Box(corner), epsilon)
    for moves in product(range(3), range(2), range(2)):
        assert brute(table, moves, epsilon) <= bound


@pytest.mark.parametrize(
    ("columns", "delta", "mechanism"),
    [
        (1, 1e-6, "discrete-laplace"),
        (11, 1e-6, "discrete-gaussian"),
        (50, 1e-6, "discrete-gaussian"),
        (11, 0.0, "discrete-laplace"),
    ],
)
def test_sums_of_scores_get_the_smaller_noise(columns, delta, mechanism):
    corner, asked = MOVES * columns, Guarantee(1.0, delta)
    event = box_event(asked, corner)
    assert (event.mechanism, event.moves, event.guarantee) == (mechanism, Box(corner), asked)
    assert event.delta_at(1.0) <= delta < event.delta_at(0.99)
    pure = calibrated_laplace(Guarantee(1.0), shifts=corner)
    assert event.table.variance <= pure.table.variance
    if mechanism == "discrete-gaussian":
        less = discrete_gaussian(0.9 * math.sqrt(event.table.variance))
        assert moves_delta(less, event.moves, 1.0) > delta
        rng = np.random.default_rng(columns)  # any smaller move is hidden, too
        for _ in range(5):
            smaller = tuple(rng.integers(0, np.array(corner) + 1).tolist())
            assert hockey_stick(event.table, smaller, 1.0) <= delta


def test_a_ball_counts_for_all_its_moves_at_any_epsilon():
    table, ball = discrete_laplace(6.0), Ball(1, 3, 3)
    assert moves_delta(table, ball, 0.5) == 0
    worst = max(hockey_stick(table, move, 0.4) for move in [(3,), (2, 1), (1, 1, 1)])
    assert worst <= moves_delta(table, ball, 0.4) < 1


@pytest.mark.parametrize(
    ("columns", "delta", "mechanism"),
    [
        (1, 1e-6, "discrete-laplace"),
        (8, 1e-6, "discrete-laplace"),
        (12, 1e-6, "discrete-gaussian"),
        (50, 1e-6, "discrete-gaussian"),
        (50, 0.0, "discrete-laplace"),
    ],
)
def test_whole_clients_of_a_table_get_the_smaller_noise(columns, delta, mechanism):
    """At most two rows a client: any move of l1 norm 2 d, and of at most 2."""
    ball = Ball(1, 2 * columns, 2)
    asked = Guarantee(1.0, delta, protects=WholeClients(5))
    event = ball_event(asked, ball)
    assert (event.mechanism, event.moves, event.guarantee) == (mechanism, ball, asked)
    assert event.delta_at(1.0) <= delta
    if mechanism == "discrete-gaussian":
        for move in ((2,) * columns, (1,) * 2 * columns, (2, 1, 1) * (columns // 2)):
            assert hockey_stick(event.table, move, 1.0) <= delta
        sigma = math.sqrt(event.table.variance)
        assert sigma < math.sqrt(2) * 2 * columns  # pure Laplace on the same clients
        worst, hardly_less = (
            (2,) * columns,
            0.98 if columns == 50 else 0.85,
        )  # of many steps, of few
        assert hockey_stick(discrete_gaussian(hardly_less * sigma), worst, 1.0) > delta


@pytest.mark.parametrize("corner", [(), (1, -1), (0.5,)])
def test_a_box_needs_bounds(corner):
    with pytest.raises(ValueError, match=r"corner|shift"):
        Box(corner)


@pytest.mark.parametrize("mechanism", ["skellam", "discrete-gaussian"])
@pytest.mark.parametrize("moves", [(1, -1) * 11, Box(MOVES)], ids=["counts", "sums"])
def test_shares_hide_the_moves_of_a_table(mechanism, moves):
    """As much noise as one server would add; a tenth of the shares missing is noticed."""
    share = calibrate_shares(Guarantee(1.0, 1e-6), n_min=50, mechanism=mechanism, moves=moves)
    shifts = moves.corner if isinstance(moves, Box) else moves
    central = calibrated_gaussian(Guarantee(1.0, 1e-6), shifts=shifts).table.variance
    assert share.noise(50).variance / share.grid**2 == pytest.approx(central, rel=0.01)
    assert share.delivered_delta(50) <= 1e-6 < share.delivered_delta(45)
    assert epsilon_of(share, 40) == pytest.approx(1.25**0.5, rel=0.02)
    cost = Cost.of_shares(share, 50)
    assert cost.shifts == tuple(share.grid * shift for shift in shifts)


def test_the_ledger_composes_a_box_by_its_corner():
    event = box_event(Guarantee(0.5, 1e-6), (3, 2, 1) * 4)
    cost = Cost.of(event)
    assert cost.shifts == (3, 2, 1) * 4
    one, ten = (composed_epsilon(((cost, n),), 1e-6) for n in (1, 10))
    assert one == pytest.approx(0.5, rel=2e-3)
    assert ten < 0.5 * 10**0.5 * 1.2
