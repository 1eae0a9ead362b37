"""Privacy of the implemented tables, exactly."""

import math
from decimal import Decimal, localcontext
from fractions import Fraction
from itertools import pairwise, product

import pytest

from flwr_kld.kernel import Guarantee
from flwr_kld.kernel.delta import exp_below, hockey_stick, is_pure
from flwr_kld.kernel.law import TOTAL, NoiseTable
from flwr_kld.trust.calibration import calibrated_gaussian
from flwr_kld.trust.noise_laws import discrete_gaussian, discrete_laplace

EPSILONS = (0.05, 0.5, 1.0, 3.0, 6.0)
SHIFTS = ((1, -1), (1,))


def tight(table: NoiseTable, shifts: tuple[int, ...], epsilon: float, delta: float) -> bool:
    """Neither too little noise for epsilon nor enough for 5 % less."""
    return (
        hockey_stick(table, shifts, epsilon) <= delta < hockey_stick(table, shifts, 0.95 * epsilon)
    )


@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.parametrize("shifts", SHIFTS)
def test_laplace_is_pure_and_ten_percent_either_way_is_noticed(epsilon, shifts):
    scale = sum(map(abs, shifts)) / epsilon
    assert hockey_stick(discrete_laplace(scale), shifts, epsilon) == 0
    assert tight(discrete_laplace(scale), shifts, epsilon, 0)
    assert not tight(discrete_laplace(0.9 * scale), shifts, epsilon, 0)
    assert not tight(discrete_laplace(1.1 * scale), shifts, epsilon, 0)


@pytest.mark.parametrize("norm", [1, 2, 7, 300])
@pytest.mark.parametrize("epsilon", EPSILONS)
def test_it_is_pure_up_to_the_very_epsilon(epsilon, norm):
    """By the exact power of the ratio, and by an epsilon on either side of its logarithm."""
    table = discrete_laplace(norm / epsilon)
    power = table.step_ratio**norm
    assert is_pure(table, norm, epsilon) == (power <= exp_below(epsilon))
    exact = float(Decimal(power.numerator).ln() - Decimal(power.denominator).ln())
    assert not is_pure(table, norm, math.nextafter(exact, 0))
    assert is_pure(table, norm, math.nextafter(exact, 9))
    assert not is_pure(table, 10**9 * norm, epsilon)


@pytest.mark.parametrize("epsilon", EPSILONS)
def test_gaussian_is_tight_and_ten_percent_either_way_is_noticed(epsilon):
    event = calibrated_gaussian(Guarantee(epsilon, 1e-6))
    sigma = math.sqrt(event.table.variance)
    assert tight(event.table, event.moves, epsilon, 1e-6)
    assert not tight(discrete_gaussian(0.9 * sigma), event.moves, epsilon, 1e-6)
    assert not tight(discrete_gaussian(1.1 * sigma), event.moves, epsilon, 1e-6)


def test_step_ratio_is_the_largest_over_the_table_and_far_into_the_tail():
    table = discrete_laplace(2.0)
    law = [table.probability(k) for k in range(-table.reach - 40, table.reach + 41)]
    ratios = [max(a / b, b / a) for a, b in pairwise(law)]
    assert max(ratios) == table.step_ratio
    assert table.step_ratio <= exp_below(0.5)


def test_step_ratio_is_that_of_the_tables_edge_where_the_tail_falls_off():
    tail, side = TOTAL >> 20 << 1, TOTAL >> 2
    table = NoiseTable((side, TOTAL - 2 * side - tail, side), tail, 1 << 63)
    edge = table.probability(1) / table.probability(2)
    assert table.step_ratio == edge > 2**17
    heavy = NoiseTable((2, TOTAL - 4 - tail, 2), tail, 1 << 63)
    assert heavy.step_ratio >= heavy.probability(2) / heavy.probability(1)


@pytest.mark.parametrize("shifts", [(1,), (3,), (1, -1), (2, 1)])
@pytest.mark.parametrize("epsilon", [0.0, 0.3, 1.0, 2.5])
def test_against_brute_force_over_every_pair_of_outputs(shifts, epsilon):
    weights = (5, 17, 40, 130, 301, 130, 40, 17, 5)
    unit = TOTAL // sum(weights)
    scaled = [w * unit for w in weights]
    scaled[4] += TOTAL - sum(scaled)
    table = NoiseTable(tuple(scaled))
    outputs = range(-4, 5)

    def law(k: int) -> Fraction:
        return table.probability(k) if abs(k) <= 4 else Fraction(0)

    bound = exp_below(epsilon)
    if len(shifts) == 1:
        brute = sum(max(law(i) - bound * law(i - shifts[0]), 0) for i in outputs)
    else:
        brute = sum(
            max(law(i) * law(j) - bound * law(i - shifts[0]) * law(j - shifts[1]), 0)
            for i in outputs
            for j in outputs
        )
    assert brute <= hockey_stick(table, shifts, epsilon) <= brute + Fraction(2, 1 << 40)


def test_against_the_closed_form_of_discrete_laplace():
    epsilon, scale = 0.7, 1.5
    q = math.exp(-1 / scale)
    closed = (1 / (1 + q)) ** 2 * -math.expm1(epsilon - 2 / scale)
    exact = hockey_stick(discrete_laplace(scale), (1, -1), epsilon)
    assert float(exact) == pytest.approx(closed, rel=1e-5)


@pytest.mark.parametrize("epsilon", [1e-3, 0.1, 0.3, 0.5, 1.0, 2.0, 3.0, 8.0, 40.0])
def test_what_is_below_the_exponential_is_not_its_nearest(epsilon):
    with localcontext(prec=100):
        exact = Fraction(Decimal(epsilon).exp())
    assert 0 < exact - exp_below(epsilon) < exact / 10**57


def test_longer_moves_cost_nothing_where_pure():
    table = discrete_laplace(4.0)
    assert hockey_stick(table, (1, 1, -1, -1), 1.0) == 0
    assert 0 < hockey_stick(table, (1, 1, -1, -1), 0.5) < 1


@pytest.mark.parametrize(
    ("weights", "tail", "ratio"),
    [
        ((TOTAL // 2, TOTAL // 2), 0, 0),
        ((1, TOTAL - 3, 2), 0, 0),
        ((0, TOTAL, 0), 0, 0),
        ((1, TOTAL - 4, 1), 0, 0),
        ((1, TOTAL - 4, 1), 2, 0),
        ((1, TOTAL - 2, 1), 0, 5),
        ((1, TOTAL - 5, 1), 3, 1),  # no half of which is whole
    ],
)
def test_malformed_tables_are_refused(weights, tail, ratio):
    with pytest.raises(ValueError, match=r"weights|tail_ratio"):
        NoiseTable(weights, tail, ratio)


@pytest.mark.parametrize("shifts", [(1,), (1, -1)])
def test_the_tail_is_lost_once_for_each_coordinate(shifts):
    """Where noise lies beyond the table is not known: it counts as told."""
    tail = TOTAL // 1000 * 2
    side = (TOTAL - tail) // 8
    table = NoiseTable((side, TOTAL - tail - 2 * side, side), tail, 1)
    inside = {k: table.probability(k) for k in (-1, 0, 1)}
    bound, least = exp_below(3.0), Fraction(0)
    for outcome in product(inside, repeat=len(shifts)):
        p = math.prod(inside[k] for k in outcome)
        q = math.prod(inside.get(k - s, 0) for k, s in zip(outcome, shifts, strict=True))
        least += max(p - bound * q, Fraction(0))
    lost = len(shifts) * Fraction(tail, TOTAL)
    assert least + lost <= hockey_stick(table, shifts, 3.0) <= least + lost + Fraction(1, 10**9)
