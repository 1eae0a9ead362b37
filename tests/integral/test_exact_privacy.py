"""Privacy of the implemented laws, exactly: all pairs of data sets."""

from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from integral.laws import box_weights, data_sets, finite_base, is_member, largest_ratio

from examples import examples
from flwr_kld.integral import Mollifier, mbde, mollify
from flwr_kld.integral.draws import BoxLaw, IntegerBox
from flwr_kld.kernel.delta import exp_below
from flwr_kld.kernel.law import TOTAL

BASES = ([1, 1, 1], [0.7, 0.2, 0.1], [1e-30, 0.5, 0.5])
BOXES = {
    "symmetric": Mollifier.symmetric,
    "s = .1": lambda epsilon: Mollifier.asymmetric(epsilon, 0.1),
    "s = .7": lambda epsilon: Mollifier.asymmetric(epsilon, 0.7),
}


USUAL = {("symmetric", 1.0), ("s = .1", 0.1), ("s = .7", 5.0)}
PAIRS = [
    pytest.param(*pair, marks=() if pair in USUAL else pytest.mark.slow)
    for pair in product(BOXES, (0.1, 1.0, 5.0))
]


@pytest.mark.parametrize(("box", "epsilon"), PAIRS)
def test_every_pair_of_data_sets_of_any_sizes_is_within_epsilon_under_a_box(box, epsilon):
    worst = Fraction(1)
    for mass in BASES:
        base, mollifier = finite_base(mass), BOXES[box](epsilon)
        laws = [
            box_weights(mollify(records, base, mollifier))
            for records in [*data_sets(3, (2, 3, 4)), *data_sets(3, (60,))[::200]]
        ]
        assert all(sum(law) == TOTAL for law in laws)
        worst = max(worst, largest_ratio(laws))
    assert worst <= exp_below(epsilon)
    assert float(worst) > np.exp(0.3 * epsilon)  # the data do show


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 5.0])
def test_every_pair_of_data_sets_is_within_epsilon_under_algorithm_1(epsilon):
    for mass in BASES:
        base = finite_base(mass)
        laws = [
            box_weights(mbde(records, base, epsilon, rounds=3))
            for records in [*data_sets(3, (2, 3)), np.full(99, 2), np.zeros(7, dtype=int)]
        ]
        assert all(sum(law) == TOTAL for law in laws)
        assert 1 < largest_ratio(laws) <= exp_below(epsilon)


@pytest.mark.parametrize("huge", [1e300, -1e300, np.finfo(float).max, -np.finfo(float).max])
def test_a_huge_density_is_a_member_like_any_other(huge):
    base, mollifier = finite_base([0.6, 0.3, 0.1]), Mollifier.symmetric(1.0)
    for density in (np.full(3, huge), np.array([0.0, huge, 0.0])):
        law = BoxLaw(base, mollifier, density)
        assert is_member(box_weights(law), IntegerBox(base, mollifier))


@pytest.mark.parametrize("density", [np.ones(2), [], [np.nan, 1, 1], [np.inf, 1, 1], ["a", 1, 1]])
def test_what_is_no_density_is_refused_without_being_shown(density):
    with pytest.raises(ValueError, match="density"):
        BoxLaw(finite_base([0.6, 0.3, 0.1]), Mollifier.symmetric(1.0), density)


@settings(max_examples=examples(150))
@given(
    arrays(float, 4, elements=st.floats(1e-30, 1.0)),
    st.floats(0.01, 20),
    st.one_of(st.none(), st.floats(0.01, 0.99)),
    arrays(float, 4, elements=st.floats(allow_nan=False, allow_infinity=False)),
)
def test_any_vector_at_all_is_rounded_into_the_integer_box(mass, epsilon, share, density):
    base = finite_base(mass)
    if share is None:
        mollifier = Mollifier.symmetric(epsilon)
    else:
        mollifier = Mollifier.asymmetric(epsilon, share)
    box = IntegerBox(base, mollifier)
    assert is_member(box.nearest(density), box)
    ratio = max(Fraction(h, low) for low, h in zip(box.lower, box.upper, strict=True))
    assert ratio <= exp_below(epsilon)
    assert abs(box.mollifier.floor / mollifier.floor - 1) < 1e-14


def test_rounding_moves_a_member_by_float_rounding_only():
    generator = np.random.default_rng(0)
    base = finite_base(generator.dirichlet(np.ones(500)))
    mollifier = Mollifier.asymmetric(1.0, 0.1)
    density = base.mass * 1.0
    weights = np.array([w / TOTAL for w in IntegerBox(base, mollifier).nearest(density)])
    assert np.abs(weights - density).max() < 1e-15


def test_membership_is_exact_to_the_last_unit():
    box = IntegerBox(finite_base([0.1, 0.9]), Mollifier.symmetric(1.0))
    edge = [box.upper[0], TOTAL - box.upper[0]]
    assert is_member(edge, box)
    assert not is_member([edge[0] + 1, edge[1] - 1], box)
    assert not is_member([edge[0] - 1, edge[1]], box)
    assert not is_member([TOTAL], box)


def test_private_data_never_change_what_is_public():
    base, mollifier = finite_base([0.5, 0.3, 0.2]), Mollifier.asymmetric(1.0, 0.2)
    for fit in (lambda data: mollify(data, base, mollifier), lambda data: mbde(data, base, 1.0)):
        assert len({fit(records).box for records in data_sets(3, (2, 3, 5))}) == 1


@pytest.mark.parametrize("epsilon", [1e-9, 1e-3, 40.0])
def test_integer_laws_exist_at_both_ends_of_epsilon_and_for_vanishing_masses(epsilon):
    base = finite_base(np.r_[np.full(1000, 1e-300), np.ones(1000)])
    box = IntegerBox(base, Mollifier.symmetric(epsilon))
    assert is_member(box.nearest(np.eye(2000)[0]), box)
    assert is_member(box.nearest(np.eye(2000)[1500]), box)
