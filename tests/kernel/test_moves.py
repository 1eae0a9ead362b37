"""Sets of moves: the corner of a box is worst, and one event says for all of them."""

import math

import pytest

from flwr_kld.kernel import Guarantee
from flwr_kld.kernel.delta import hockey_stick, release_delta
from flwr_kld.kernel.promise import Ball, WholeClients
from flwr_kld.ledger import Cost
from flwr_kld.ledger.delivered import epsilon_of
from flwr_kld.trust.calibration import (
    calibrate_shares,
    calibrated_gaussian,
    least_noise,
)
from flwr_kld.trust.noise_laws import (
    discrete_gaussian,
    discrete_laplace,
)


def test_a_ball_counts_for_all_its_moves_at_any_epsilon():
    table, ball = discrete_laplace(6.0), Ball(1, 3, 3)
    assert release_delta(table, ball, 0.5) == 0
    worst = max(hockey_stick(table, move, 0.4) for move in [(3,), (2, 1), (1, 1, 1)])
    assert worst <= release_delta(table, ball, 0.4) < 1


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
    event = least_noise(asked, ball)
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


def test_shares_hide_the_moves_of_a_table():
    """As much noise as one server would add; a tenth of the shares missing is noticed."""
    shifts = (1, -1) * 11
    share = calibrate_shares(Guarantee(1.0, 1e-6), n_min=50, moves=shifts)
    central = calibrated_gaussian(Guarantee(1.0, 1e-6), moves=shifts).table.variance
    assert share.noise(50).variance / share.grid**2 == pytest.approx(central, rel=0.01)
    assert share.delivered_delta(50) <= 1e-6 < share.delivered_delta(45)
    assert epsilon_of(share, 40) == pytest.approx(1.25**0.5, rel=0.02)
    cost = Cost.of_shares(share, 50)
    assert cost.shifts == tuple(share.grid * shift for shift in shifts)


@pytest.mark.parametrize("inside", [(1, 2, 3), (2, 3, 2), (2, 8, 3)])
def test_a_ball_holds_a_move_of_one_coordinate_alone_as_far_as_it_says(inside):
    with pytest.raises(ValueError, match="largest"):
        Ball(*inside)


def test_a_ball_holds_another_of_its_norm_that_is_no_larger_and_moves_no_number_further():
    ball = Ball(2, 50, 5)
    assert ball.holds(ball)
    assert ball.holds(Ball(2, 40, 4))
    for other in (Ball(2, 51, 5), Ball(2, 50, 6), Ball(2, 36, 6), Ball(1, 50, 5)):
        assert not ball.holds(other)
