"""k-fold cost: against brute force over the vertices of boxes, and the known numbers."""

from decimal import Decimal, localcontext
from fractions import Fraction
from itertools import product
from math import comb

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from examples import examples
from flwr_kld.integral import Mollifier
from flwr_kld.integral.sampler import delta_of_draws, epsilon_of_draws


def vertices(box: Mollifier, size: int) -> np.ndarray:
    """Extreme points of a box over the uniform law: all masses but one at a bound; [V, size]."""
    found = []
    for free, rest in product(range(size), product((box.floor, box.ceiling), repeat=size - 1)):
        last = size - sum(rest)
        if box.floor - 1e-12 <= last <= box.ceiling + 1e-12:
            found.append(np.insert(rest, free, last) / size)
    return np.unique(np.round(found, 13), axis=0)


def power(laws: np.ndarray, draws: int) -> np.ndarray:
    """Law of k draws, [V, size**k]."""
    joint = laws
    for _ in range(draws - 1):
        joint = np.einsum("vi,vj->vij", joint, laws).reshape(len(laws), -1)
    return joint


def worst_delta(laws: np.ndarray, draws: int, epsilon: float) -> float:
    """Largest hockey-stick divergence over all ordered pairs of laws."""
    joint = power(laws, draws)
    return max(float(np.maximum(p - np.exp(epsilon) * joint, 0).sum(axis=1).max()) for p in joint)


@pytest.mark.parametrize("width", [0.2, 1.0, 3.0])
@pytest.mark.parametrize("share", [None, 0.1, 0.25, 0.5, 0.7])
@pytest.mark.parametrize(("size", "draws"), [(6, 1), (5, 2), (4, 3)])
def test_no_pair_of_vertices_exceeds_the_trinomial(size, draws, share, width):
    box = Mollifier.symmetric(width) if share is None else Mollifier.asymmetric(width, share)
    laws = vertices(box, size)
    laws = np.concatenate([laws, laws.mean(axis=0, keepdims=True)])
    for part in (0.0, 0.1, 0.5, 0.9, 0.99):
        epsilon = part * draws * width
        assert worst_delta(laws, draws, epsilon) <= delta_of_draws(box, draws, epsilon) + 1e-12


@pytest.mark.parametrize(("share", "size"), [(0.25, 4), (0.5, 4), (0.75, 4), (0.2, 5)])
@pytest.mark.parametrize("draws", [1, 2, 3])
def test_the_trinomial_is_reached_where_the_share_is_a_whole_number_of_symbols(share, size, draws):
    box = Mollifier.asymmetric(1.0, share)
    laws = vertices(box, size)
    for part in (0.0, 0.3, 0.7, 0.95):
        epsilon = part * draws
        worst = worst_delta(laws, draws, epsilon)
        assert delta_of_draws(box, draws, epsilon) == pytest.approx(worst, rel=1e-7)
        assert worst > 0


def exact_delta(box: Mollifier, draws: int, epsilon: Decimal) -> Decimal:
    """Double sum over how often the loss is +w and -w, at sixty digits."""
    with localcontext(prec=60):
        a, width = Decimal(box.floor), Decimal(box.epsilon)
        s = (1 - a) / (a * (width.exp() - 1))
        t = min(s, 1 - s)
        minus, plus = t * a, t * a * width.exp()
        zero = 1 - minus - plus
        exact = Decimal(0)
        for up in range(draws + 1):
            for down in range(min(up, draws - up + 1)):
                gap = (up - down) * width - epsilon
                if gap > 0:
                    ways = comb(draws, up) * comb(draws - up, down)
                    mass = ways * plus**up * minus**down * zero ** (draws - up - down)
                    exact += mass * (1 - (-gap).exp())
        return exact


@pytest.mark.parametrize("share", [None, 0.02, 0.8])
@pytest.mark.parametrize("width", [1e-3, 0.25])
@pytest.mark.parametrize(
    ("draws", "part"), [(10, 0.4), (60, 0.05), (100, 0.0), (1, 1 - 1e-8), (10, 1 - 1e-6)]
)
def test_against_the_double_sum_at_sixty_digits(share, width, draws, part):
    """Near the pure bound, where hardly any delta is left, it shows that losses are raised."""
    box = Mollifier.symmetric(width) if share is None else Mollifier.asymmetric(width, share)
    epsilon = part * draws * width
    ours = delta_of_draws(box, draws, epsilon)
    assert float(exact_delta(box, draws, Decimal(epsilon))) <= ours
    lower = max(Decimal(epsilon) - Decimal(1.001e-9 * draws * width), Decimal(0))
    assert ours <= float(exact_delta(box, draws, lower)) * (1 + 1e-7)


@pytest.mark.parametrize(("share", "expected"), [(None, 4.712), (0.1, 2.071), (0.02, 0.959)])
def test_a_hundred_draws_of_width_a_tenth(share, expected):
    box = Mollifier.symmetric(0.1) if share is None else Mollifier.asymmetric(0.1, share)
    assert epsilon_of_draws(box, 100, 1e-6) == pytest.approx(expected, abs=1e-3)
    assert epsilon_of_draws(box, 100, 0.0) == pytest.approx(10.0)


@pytest.mark.parametrize("share", [None, 0.02])
@pytest.mark.parametrize("draws", [1, 7, 1000])
@pytest.mark.parametrize("delta", [1e-9, 1e-3, 0.5])
def test_epsilon_and_delta_invert_each_other(draws, delta, share):
    box = Mollifier.symmetric(0.3) if share is None else Mollifier.asymmetric(0.3, share)
    epsilon = epsilon_of_draws(box, draws, delta)
    assert 0 <= epsilon <= draws * 0.3
    assert delta_of_draws(box, draws, epsilon) <= delta
    if epsilon > 1e-6:
        assert delta_of_draws(box, draws, epsilon * (1 - 1e-6)) > delta * (1 - 1e-3)


def test_more_draws_cost_more_and_beyond_the_table_still_less_than_pure():
    box = Mollifier.symmetric(0.01)
    costs = [epsilon_of_draws(box, k, 1e-6) for k in (1, 10, 100, 1000, 10_000, 10_001, 100_000)]
    assert costs == sorted(costs)
    assert costs[-1] < 1000
    assert delta_of_draws(box, 10, 0.1) == 0


def renyi(p, q, order: float) -> float:
    ratio = np.array([float(a / b) for a, b in zip(p, q, strict=True)])
    return float(np.log(np.array([float(b) for b in q]) @ ratio**order) / (order - 1))


def test_a_box_is_not_bounded_in_range_by_its_width():
    """So no more zero concentration must be claimed for a box than of twice its width."""
    box = Mollifier.symmetric(1.0)
    p, q = vertices(box, 8)[[0, -1]]
    ratio = np.log(p / q)
    assert np.ptp(ratio) == pytest.approx(2.0)
    order = 1.01
    share = 1 / (1 + np.exp(0.5))
    mass = np.array([share, share, 1 - 2 * share])
    p, q = mass * [box.ceiling, box.floor, box.floor], mass * [box.floor, box.ceiling, box.floor]
    assert renyi(p, q, order) > order * 1.0**2 / 8


@pytest.mark.parametrize(
    "call",
    [
        lambda box: delta_of_draws(box, 0, 1.0),
        lambda box: delta_of_draws(box, 10_001, 1.0),
        lambda box: delta_of_draws(box, 1, -1.0),
        lambda box: delta_of_draws(box, 1, np.nan),
        lambda box: epsilon_of_draws(box, 0, 0.0),
        lambda box: epsilon_of_draws(box, 10**400, 0.0),
        lambda box: epsilon_of_draws(box, 1, 1.0),
        lambda box: epsilon_of_draws(box, 1, -1e-9),
    ],
)
def test_what_is_out_of_range_is_refused(call):
    with pytest.raises(ValueError, match=r"must"):
        call(Mollifier.symmetric(1.0))


@settings(max_examples=examples(100))
@example(17.69618471161248, 10**16 + 1)  # a k that has no float64
@given(st.floats(1e-9, 40), st.integers(1, 2**63 - 1))
def test_pure_composition_is_rounded_up(epsilon, draws):
    box = Mollifier.symmetric(epsilon)
    total = epsilon_of_draws(box, draws, 0.0)
    assert Fraction(total) >= draws * Fraction(epsilon)
    assert total == pytest.approx(draws * epsilon, rel=1e-15)


def test_one_draw_less_than_pure_is_not_free():
    """The product 3 x 0.7 is rounded down in float64: at that epsilon something is left."""
    box = Mollifier.symmetric(0.7)
    assert Fraction(3 * 0.7) < 3 * Fraction(0.7)
    assert delta_of_draws(box, 3, 3 * 0.7) > 0
    assert delta_of_draws(box, 3, epsilon_of_draws(box, 3, 0.0)) == 0
