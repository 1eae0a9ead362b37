"""Bets on clients' sums: the mean of what they win is at most 1 for every law, by enumeration."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from flwr_kld.calibration.central import calibrated_laplace
from flwr_kld.inference.bets import Bet, log_evidence, log_moment
from flwr_kld.inference.deciding import Deciding, curvature
from flwr_kld.inference.witness import Witness
from flwr_kld.kernel import Guarantee
from flwr_kld.kernel.count import MOVES, NUMBERS, Scores, numbers_of
from flwr_kld.query.noisy import ClientSums

TOTAL, SQUARES = NUMBERS.index("total"), NUMBERS.index("squares")


def mean_of_evidence(scores, epsilon, clients, deviation):
    """Return what says ``E e`` of laws exactly: over clients' sums, their coins and the noise."""
    event = calibrated_laplace(Guarantee(epsilon), shifts=MOVES)
    bet = Bet.on(scores, event.guarantee, event.table, clients=clients, deviation=deviation)
    units = scores.units(event.guarantee)
    slopes = (bet.total * units[TOTAL], -bet.squares * units[SQUARES])
    by_noise = math.exp(log_moment(event.table, np.array(slopes)).sum() - bet.cost)

    def of_coin(number, unit, slope):
        """Mean of ``exp(slope steps)`` if a number is rounded to a neighbouring step."""
        low, up = math.floor(number / unit), number / unit - math.floor(number / unit)
        return math.exp(slope * low) * (1 - up + up * math.exp(slope))

    def of_client(counts):
        (numbers,) = numbers_of((scores,), np.asarray(counts)[None])
        return of_coin(numbers[TOTAL], units[TOTAL], slopes[0]) * of_coin(
            numbers[SQUARES], units[SQUARES], slopes[1]
        )

    def mean(laws):
        each = [sum(p * of_client(counts) for counts, p in law) for law in laws]
        return by_noise * math.prod(each)

    return mean


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 10.0])
@pytest.mark.parametrize("ceiling", [2, 6])
def test_the_mean_is_at_most_1_for_every_law_of_clients(epsilon, ceiling):
    """All laws on a grid over clients of at most 2 records whose mean score is at most 0."""
    table = np.array((3, -1, -9))
    scores = Scores(tuple(table.tolist()), (0,) * 3, ceiling, 2)
    clients = [
        np.bincount(c, minlength=3).astype(np.int64)
        for n in range(3)
        for c in itertools.combinations_with_replacement(range(3), n)
    ]
    sums = np.array([c @ table for c in clients])
    mean, worst = mean_of_evidence(scores, epsilon, 2, 30.0), 0.0
    for i, j in itertools.product(range(len(clients)), repeat=2):
        for p in np.linspace(0, 1, 21):
            if p * sums[i] + (1 - p) * sums[j] <= 0:
                law = [(clients[i], p), (clients[j], 1 - p)]
                worst = max(worst, mean([law, law]))
    assert 0.9 < worst <= 1


def test_a_long_tail_below_wins_nothing():
    """The law on which clipped bets had a mean of 2.59 a check: +1 nine times of ten, else -9."""
    scores = Scores((1, -9), (0, 0), 1, 1)
    up, down = np.eye(2, dtype=np.int64)
    law = [(up, 0.9), (down, 0.1)]
    assert mean_of_evidence(scores, 1.0, 200, 40.0)([law] * 200) <= 1


@given(loss=st.floats(0.001, 0.5), over=st.floats(0, 1))
def test_the_bet_stays_below_what_a_fair_one_wins(loss, over):
    """``exp(x - c(a) x² / 2) <= 1 + x`` for x >= -a, with equality at -a."""
    c = float(curvature(np.array(loss)))
    for x in (-loss, -loss * over, 3 * over):
        assert x - c * x**2 / 2 <= math.log1p(x) + 1e-12
    assert -loss - c * loss**2 / 2 == pytest.approx(math.log1p(-loss), rel=1e-6)


def test_strong_noise_makes_bets_small_and_stronger_noise_ends_them():
    scores = Scores((20, -9), (0, 0), 450, 50)
    bets = []
    for epsilon in (1.0, 0.1, 0.01):
        noise = calibrated_laplace(Guarantee(epsilon), shifts=MOVES).table
        bets.append(Bet.on(scores, Guarantee(epsilon), noise, clients=100, deviation=500.0))
    assert bets[0].total == pytest.approx(0.5 / 450)
    assert 0 < bets[1].total < 0.8 * bets[0].total
    assert bets[2].total < bets[1].total / 3
    assert all(bet.cost <= 1.01 for bet in bets)


def test_the_moment_is_that_of_the_whole_law():
    table = calibrated_laplace(Guarantee(0.5), shifts=(3,)).table
    ratio = math.exp(-0.5 / 3)
    slopes = np.array([[0.1, -0.05, 0.17], [0.0, -0.17, 1e6]])
    with np.errstate(all="ignore"):
        exact = (1 - ratio) ** 2 / ((1 - ratio * np.exp(slopes)) * (1 - ratio * np.exp(-slopes)))
    exact[~(np.abs(slopes) < 0.5 / 3)] = np.inf
    assert log_moment(table, slopes) == pytest.approx(np.log(exact), rel=1e-4, abs=1e-9)


def test_sums_of_nothing_lose_what_noise_costs(plan_for, publish):
    plan = plan_for(np.full(16, 1 / 16))
    event = calibrated_laplace(Guarantee(1.0), shifts=MOVES)
    noise = math.sqrt(event.table.variance)
    deciding = Deciding(100, 5000.0, 63, event.guarantee, noise, 0.05)
    witness = Witness.from_counts(publish(plan, np.arange(100, 116)), deciding)
    sums = ClientSums(np.zeros(len(NUMBERS), np.int64), 100, event, witness.query_plan(), False)
    deviation = witness.deviation / witness.step
    bet = Bet.on(witness.scores, event.guarantee, event.table, clients=100, deviation=deviation)
    assert log_evidence(witness, sums) == -bet.cost
    assert bet.cost > 0
