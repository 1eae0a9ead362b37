"""Delivered privacy: exact where it can be, certified elsewhere, worse when shares are missing."""

import itertools
import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from scipy.special import logsumexp

from flwr_kld.kernel import Guarantee
from flwr_kld.kernel.delta import ORDERS, delivered_delta, exp_below, pure_delta, renyi_delta
from flwr_kld.kernel.law import TOTAL, NoiseTable, noise_sum
from flwr_kld.kernel.promise import Allotment, Ball, WholeClients
from flwr_kld.kernel.release import NotPrivateEnough
from flwr_kld.ledger.delivered import delivered_epsilon, epsilon_of
from flwr_kld.trust.calibration import calibrate_shares, calibrated_laplace
from flwr_kld.trust.noise_laws import discrete_gaussian, laplace_share

EPSILONS = (0.05, 0.5, 1.0, 3.0, 6.0)
MECHANISMS = ("discrete-laplace", "discrete-gaussian")
ONE = Allotment.even(1)
SIGMA = math.sqrt(35.696)
"""Analytic Gaussian noise of epsilon 1 at delta 1e-6 for replacing a record."""


def float_delta(share: NoiseTable, copies: int, move: tuple[int, ...], epsilon: float) -> float:
    """Hockey-stick divergence of the summed shares over all outputs of the moved coordinates.

    Independent of the package: one float64 Fourier transform, then brute force. Off by < 1e-8.
    """
    cells = 1 << 14
    ring = np.zeros(cells)
    ring[share.support % cells] = share.probabilities
    law = np.maximum(np.fft.ifft(np.fft.fft(ring) ** copies).real, 0)
    reach = int(np.argmax(2 * np.cumsum(law[: cells // 2]) - law[0] > 1 - 1e-9))
    outputs = np.arange(-reach, reach + 1)
    p, q = np.ones(1), np.ones(1)
    for a in move:
        p = np.multiply.outer(p, law[outputs % cells]).ravel()
        q = np.multiply.outer(q, law[(outputs - a) % cells]).ravel()
    return float(np.maximum(p - math.exp(epsilon) * q, 0).sum())


@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize("epsilon", EPSILONS)
def test_n_min_shares_deliver_what_was_asked(epsilon, mechanism):
    event = calibrate_shares(Guarantee(epsilon, 1e-6), n_min=200, mechanism=mechanism)
    assert event.delivered_delta(200) <= 1e-6
    delivered = epsilon_of(event, 200)
    assert 0.95 * epsilon < delivered <= epsilon
    move = tuple(event.grid * s for s in event.moves)
    assert float_delta(event.share, 200, move, epsilon) < 1e-6 + 1e-8


@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.parametrize("n_min", [1, 10, 10_000])
def test_laplace_shares_are_all_but_pure(n_min, epsilon):
    event = calibrate_shares(Guarantee(epsilon, 1e-20), n_min=n_min)
    assert event.delivered_delta(n_min) < 1e-24
    assert epsilon_of(event, n_min) > 0.99 * epsilon


@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_ten_percent_less_noise_is_rejected(epsilon, mechanism):
    event = calibrate_shares(Guarantee(epsilon, 1e-6), n_min=200, mechanism=mechanism)
    sigma = 0.9 * math.sqrt(event.share.variance)
    weaker = {
        "discrete-laplace": lambda: laplace_share(0.9 * 2 / epsilon, 200),
        "discrete-gaussian": lambda: discrete_gaussian(sigma),
    }
    with pytest.raises(NotPrivateEnough):
        replace(event, share=weaker[mechanism]())
    with pytest.raises(NotPrivateEnough):
        replace(event, guarantee=replace(event.guarantee, epsilon=0.9 * epsilon))


@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize("most_records", [0, 4])
def test_epsilon_falls_with_every_survivor(mechanism, most_records):
    promised = Guarantee(1.0, 1e-6)
    if most_records:
        promised = replace(promised, protects=WholeClients(most_records))
    moves = ONE.moves(promised.protects)
    event = calibrate_shares(promised, n_min=40, mechanism=mechanism, moves=moves)
    delivered = [epsilon_of(event, n) for n in (20, 30, 38, 39, 40, 41, 44, 60, 120)]
    if mechanism == "discrete-laplace":  # surplus leaves the pure bound, or lowers it
        assert all(b <= a for a, b in itertools.pairwise(delivered))
    else:
        assert all(b < a for a, b in itertools.pairwise(delivered))
    assert delivered[4] <= 1.0 < delivered[3]


def test_missing_shares_cost_what_is_documented():
    laplace = calibrate_shares(Guarantee(1.0, 1e-6), n_min=200)
    assert epsilon_of(laplace, 160) == pytest.approx(1.38, abs=0.01)
    fine = discrete_gaussian(3 * SIGMA / math.sqrt(200))
    gaussian = delivered_epsilon(fine, 160, (1, -1), 1e-6, grid=3)
    assert gaussian == pytest.approx(1.13, abs=0.01)


@pytest.mark.parametrize("share", [laplace_share(2.0, 9), discrete_gaussian(1.4)])
@pytest.mark.parametrize("moves", [(1, -1), Ball(1, 3, 3), Ball(2, 18, 3)])
def test_delivered_epsilon_is_rounded_up(share, moves):
    epsilon = delivered_epsilon(share, 7, moves, 1e-5)
    assert delivered_delta(share, 7, moves, epsilon) <= 1e-5
    assert delivered_delta(share, 7, moves, (1 - 2e-5) * epsilon) > 1e-5


def test_noise_that_others_know_does_not_count():
    event = calibrate_shares(Guarantee(1.0, 1e-6), n_min=50)
    assert epsilon_of(event, 40) > 1
    assert epsilon_of(event, 60) <= epsilon_of(event, 50) <= 1
    assert epsilon_of(event, 0) == math.inf


@pytest.mark.parametrize("share", [laplace_share(2.0, 5), discrete_gaussian(1.1)])
@pytest.mark.parametrize("moves", [(1, -1), (1,), (3,), (2, 1)])
def test_delivered_delta_against_brute_force(share, moves):
    for copies, epsilon in itertools.product((2, 5, 8), (0.2, 1.0, 2.5)):
        brute = float_delta(share, copies, moves, epsilon)
        exact = float(delivered_delta(share, copies, moves, epsilon))
        assert exact == pytest.approx(brute, abs=1e-8)


@pytest.mark.parametrize("share", [laplace_share(1.5, 3), discrete_gaussian(1.6)])
@pytest.mark.parametrize("ball", [Ball(2, 4, 2), Ball(2, 3, 1), Ball(1, 3, 3), Ball(1, 2, 1)])
def test_a_ball_is_certified_for_every_move_in_it(share, ball):
    moves = [
        tuple(a for a in move if a)
        for move in itertools.combinations_with_replacement(range(ball.largest + 1), 3)
        if 0 < sum(a**ball.norm for a in move) <= ball.power
    ]
    total = noise_sum(share, 3)
    for epsilon in (0.3, 1.0, 2.5):
        worst = max(float_delta(share, 3, move, epsilon) for move in moves)
        assert worst - 1e-8 <= renyi_delta(total, ball, 1, epsilon)
        assert worst - 1e-8 <= pure_delta(total, ball, 1, epsilon)


@pytest.mark.parametrize("ball", [Ball(2, 400, 20), Ball(1, 60, 20), Ball(2, 30, 1)])
@pytest.mark.parametrize("epsilon", [0.3, 1.0, 2.5])
def test_no_order_certifies_a_ball_better(ball, epsilon):
    """As all of them tell at every length of a move."""
    law, best = noise_sum(discrete_gaussian(40.0**0.5), 3), 1.0
    log_law = np.log(law.probabilities)
    for order in ORDERS:
        price = 0.0
        for a in range(1, ball.largest + 1):
            p, q = log_law[a:], log_law[:-a]
            price = max(price, logsumexp(order * (p - q) + q) / a**ball.norm)
        log_delta = price * ball.power - (order - 1) * (epsilon - math.log1p(-1 / order))
        best = min(best, math.exp(min(log_delta - math.log(order), 0.0)))
    lost = ball.coordinates * (law.tail + sum(law.weights[: ball.largest])) / TOTAL
    assert renyi_delta(law, ball, 1, epsilon) == pytest.approx(min(best + lost, 1.0), rel=1e-6)


def test_what_a_pure_core_leaves_out_counts_once_for_every_coordinate():
    """Halving steps cut off at ±2: at ε = 3 ln 2 only the edge is lost, once in 10 a coordinate."""
    tenth = TOTAL // 10
    law = NoiseTable((tenth, 2 * tenth, TOTAL - 6 * tenth, 2 * tenth, tenth))
    epsilon = 3 * math.log(2) + 1e-9
    assert float_delta(law, 1, (1, 1, 1), epsilon) >= 1 - 0.9**3 - 1e-8
    assert 1 - 0.9**3 <= pure_delta(law, Ball(1, 3, 1), 1, epsilon) == pytest.approx(0.6)


@pytest.mark.parametrize("epsilon", [0.3, 1.0, 2.5])
def test_on_a_finer_grid_moves_are_as_many_steps_longer(epsilon):
    share, ball = discrete_gaussian(2.1), Ball(2, 4, 2)
    total = noise_sum(share, 3)
    worst = max(float_delta(share, 3, move, epsilon) for move in [(4,), (2, 2, 2)])
    assert worst - 1e-8 <= renyi_delta(total, ball, 2, epsilon)
    assert renyi_delta(total, ball, 1, epsilon) < renyi_delta(total, ball, 2, epsilon)
    assert worst - 1e-8 <= pure_delta(total, ball, 2, epsilon)


def test_central_laplace_hides_clients_purely():
    """The trusted models: one table, calibrated for the l1 norm of the ball."""
    ball = ONE.moves(WholeClients(16))
    event = calibrated_laplace(Guarantee(1.0, protects=WholeClients(16)), moves=(ball.l1,))
    assert event.table.step_ratio**ball.l1 <= exp_below(1.0)
    tail = ball.coordinates * event.table.tail / TOTAL
    assert pure_delta(event.table, ball, 1, 1.0) < 10 * tail
    assert pure_delta(event.table, ball, 1, 0.9) > 1e-3


@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize("n_min", [1, 200])
def test_clients_are_hidden_at_their_limit(mechanism, n_min):
    event = calibrate_shares(
        Guarantee(1.0, 1e-6, WholeClients(16)),
        n_min=n_min,
        mechanism=mechanism,
        moves=ONE.moves(WholeClients(16)),
    )
    assert 0.99 < epsilon_of(event, n_min) <= 1.0
    sd = math.sqrt(event.noise(n_min).variance) / event.grid
    if mechanism == "discrete-laplace":
        assert sd == pytest.approx(math.sqrt(2) * 16, rel=1e-2)
    else:  # the analytic Gaussian would take 4.22: the certificate costs 8 %
        assert 4.22 < sd / 16 < 4.6


def test_noise_that_a_client_outreaches_protects_nobody():
    ball = Ball(2, 100**2, 100)
    assert renyi_delta(discrete_gaussian(0.5**0.5), ball, 1, 1.0) == 1
    assert delivered_delta(discrete_gaussian(0.5**0.5), 1, ball, 1.0) == 1
    assert delivered_epsilon(discrete_gaussian(0.1), 1, (1,), 1e-6) == math.inf


def shares(epsilon, delta, **options):
    return calibrate_shares(Guarantee(epsilon, delta), **options)


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({"delta": 0.0}, "delta > 0"),
        ({"delta": 1.0}, "delta"),
        ({"epsilon": 0.0}, "epsilon"),
        ({"epsilon": 60.0}, "epsilon|claims|deliver|scale"),
        ({"n_min": 0}, "n_min"),
        ({"mechanism": "gauss"}, "discrete-gaussian"),
        ({"delta": 1e-40}, "deliver"),
    ],
)
def test_what_cannot_be_served_is_refused(change, match):
    asked = {"epsilon": 1.0, "delta": 1e-6, "n_min": 20} | change
    with pytest.raises(ValueError, match=match):
        shares(**asked)


@pytest.mark.parametrize(
    ("honest", "moves", "grid"), [(-1, (1,), 1), (5, (), 1), (5, (1, 0), 1), (5, (1,), 0)]
)
def test_arguments_out_of_range(honest, moves, grid):
    with pytest.raises(ValueError, match=r"honest|shifts|grid"):
        delivered_delta(laplace_share(2.0, 5), honest, moves, 1.0, grid=grid)


@pytest.mark.parametrize("largest", [1, 3])
def test_what_a_move_takes_beyond_the_table_is_lost_for_each_coordinate(largest):
    """An outcome that one neighbour alone can have tells them apart, whatever epsilon."""
    each = TOTAL // 101
    flat = NoiseTable((*(each,) * 50, TOTAL - 100 * each, *(each,) * 50))
    edge = Fraction(largest * each, TOTAL)
    bound = renyi_delta(flat, Ball(1, 2 * largest, largest), 1, 30.0)
    assert 2 * edge <= bound <= 2 * largest * edge + Fraction(1, 10**6)
