"""Privacy of the implemented laws, exactly: all pairs of data sets, fallback included."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from integral.laws import (
    box_weights,
    data_sets,
    finite_base,
    is_member,
    largest_ratio,
    rejection_law,
)

from examples import examples
from flwr_kld.integral import Mollifier, mbde, mollify
from flwr_kld.integral.draws import BoxLaw, IntegerBox, RejectionLaw
from flwr_kld.kernel.delta import exp_below
from flwr_kld.kernel.law import TOTAL, SeededBits

BASES = ([1, 1, 1], [0.7, 0.2, 0.1], [1e-30, 0.5, 0.5])
BOXES = {
    "symmetric": Mollifier.symmetric,
    "s = .1": lambda epsilon: Mollifier.asymmetric(epsilon, 0.1),
    "s = .7": lambda epsilon: Mollifier.asymmetric(epsilon, 0.7),
}


class Liar:
    """A weak learner that answers whatever it likes."""

    def __init__(self, answer):
        self.answer = answer

    def fit(self, features, target, model, records):
        return lambda points: np.resize(self.answer(target), len(points))


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 5.0])
@pytest.mark.parametrize("box", BOXES)
def test_every_pair_of_data_sets_of_any_sizes_is_within_epsilon_under_a_box(box, epsilon):
    worst = Fraction(1)
    for mass in BASES:
        base, mollifier = finite_base(mass), BOXES[box](epsilon)
        laws = [
            box_weights(mollify(records, base, mollifier, rounds=2, bits=SeededBits(1)))
            for records in [*data_sets(3, (2, 3, 4)), *data_sets(3, (60,))[::200]]
        ]
        assert all(sum(law) == TOTAL for law in laws)
        worst = max(worst, largest_ratio(laws))
    assert worst <= exp_below(epsilon)
    assert float(worst) > np.exp(0.3 * epsilon)  # the data do show


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 5.0])
@pytest.mark.parametrize("tries", [1, 2, 7, None])
def test_every_pair_of_data_sets_is_within_epsilon_under_rejection_with_fallback(tries, epsilon):
    for mass in BASES:
        base = finite_base(mass)
        fitted = [
            mbde(records, base, epsilon, rounds=3, tries=tries)
            for records in [*data_sets(3, (2, 3)), np.full(99, 2), np.zeros(7, dtype=int)]
        ]
        laws = [rejection_law(law) for law in fitted]
        assert all(sum(law) == 1 for law in laws)
        assert 1 < largest_ratio(laws) <= exp_below(epsilon)


@pytest.mark.parametrize("epsilon", [1e-3, 0.1, 1.0, 5.0, 20.0])
@pytest.mark.parametrize("tries", [1, 2, 7])
def test_worst_acceptances_reach_the_declared_box_and_stay_below_epsilon(tries, epsilon):
    """One tiny symbol accepted where all else is refused, and the other way round."""
    base = finite_base([1e-12, 1.0])
    accept, refuse = np.array([1e9, -1e9]), np.array([-1e9, 1e9])
    laws = [
        RejectionLaw(base, lambda symbols, f=f: f[symbols], epsilon, tries=tries)
        for f in (accept, refuse)
    ]
    box = laws[0].box
    exact = [rejection_law(law) for law in laws]
    ratio = largest_ratio(exact)
    assert ratio <= exp_below(epsilon)
    assert ratio <= exp_below(box.epsilon) * (1 + Fraction(1, 10**9))
    assert float(ratio) == pytest.approx(np.exp(box.epsilon), rel=1e-6)
    shares = [Fraction(w, TOTAL) for w in base.weights]
    relative = [p / q for law in exact for p, q in zip(law, shares, strict=True)]
    assert min(relative) >= Fraction(box.floor)
    assert max(relative) <= Fraction(box.floor) * exp_below(box.epsilon)


def test_fewer_tries_cost_less():
    base, flat = finite_base([1, 1]), lambda symbols: np.zeros(len(symbols))
    costs = [RejectionLaw(base, flat, 1.0, tries=n).box.epsilon for n in (1, 2, 4, 8, 64)]
    assert costs == sorted(costs)
    assert costs[0] < 0.84
    assert 1 - 1e-6 < costs[-1] <= 1


@pytest.mark.parametrize("answer", [1e6, -1e6, np.inf, -np.inf, np.nan])
def test_whatever_a_classifier_returns_the_law_is_a_member(answer):
    base, mollifier = finite_base([0.6, 0.3, 0.1]), Mollifier.symmetric(1.0)
    honest = box_weights(BoxLaw(base, mollifier, base.mass))
    learners = [
        Liar(lambda target: answer),
        Liar(lambda target: np.where(target > target.mean(), answer, -answer)),
    ]
    for learner in learners:
        law = mollify(np.array([0, 0, 0, 1, 2, 2]), base, mollifier, learner=learner)
        assert is_member(box_weights(law), IntegerBox(base, mollifier))
        rejected = mbde(np.array([0, 0, 2]), base, 1.0, learner=learner)
        assert largest_ratio([box_weights(law), honest]) <= exp_below(1.0)
        plain = mbde(np.array([1, 1]), base, 1.0, learner=Liar(lambda target: 0.0))
        assert largest_ratio(map(rejection_law, (rejected, plain))) <= exp_below(1.0)


def test_a_log_ratio_that_is_not_a_number_is_accepted_least():
    base = finite_base([1, 1, 1, 1])
    wild = np.array([np.nan, np.inf, -np.inf, 0.0])
    law = RejectionLaw(base, lambda symbols: wild[symbols], 2.0)
    low, high, floor, middle = law._chances(np.arange(4)).tolist()
    assert low == floor == law._lowest
    assert high == 1 << 32
    assert middle == round((1 << 32) * np.exp(-0.5))


@pytest.mark.parametrize("huge", [1e300, -1e300, np.finfo(float).max, -np.finfo(float).max])
def test_a_huge_density_is_a_member_like_any_other(huge):
    base, mollifier = finite_base([0.6, 0.3, 0.1]), Mollifier.symmetric(1.0)
    for density in (np.full(3, huge), np.array([0.0, huge, 0.0])):
        law = BoxLaw(base, mollifier, density)
        assert is_member(box_weights(law), IntegerBox(base, mollifier))


@pytest.mark.parametrize("density", [np.ones(2), [], [np.nan, 1, 1], [np.inf, 1, 1], ["a", 1, 1]])
def test_what_is_no_density_is_refused_without_being_shown(density):
    with pytest.raises(ValueError, match=r"a density('s masses must be| needs)"):
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
    boxes, tries, bases = set(), set(), set()
    for records in data_sets(3, (2, 3, 5)):
        boxes.add(mollify(records, base, mollifier, rounds=1).box)
        law = mbde(records, base, 1.0, rounds=1)
        tries.add((law.tries, law.box, law.bounded_range))
        bases.add((law._base.mass.tobytes(), law._base.weights))
    assert len(boxes) == len(tries) == len(bases) == 1


@pytest.mark.parametrize("epsilon", [1e-6, 1e-3, 0.1, 1.0, 5.0, 40.0])
def test_the_least_acceptance_squared_is_within_epsilon_exactly(epsilon):
    law = RejectionLaw(finite_base([1, 1]), lambda s: np.zeros(len(s)), epsilon, tries=1)
    lowest = Fraction(law._lowest, 1 << 32)
    assert 1 / lowest**2 <= exp_below(epsilon)
    assert float(lowest) == pytest.approx(np.exp(-epsilon / 2), abs=1e-9)
    assert law.bounded_range <= epsilon


def test_an_epsilon_that_32_bits_cannot_hold_is_refused():
    with pytest.raises(ValueError, match="32 bits"):
        RejectionLaw(finite_base([1, 1]), lambda s: np.zeros(len(s)), 1e-7)


@pytest.mark.parametrize("epsilon", [1e-9, 1e-3, 40.0])
def test_integer_laws_exist_at_both_ends_of_epsilon_and_for_vanishing_masses(epsilon):
    base = finite_base(np.r_[np.full(1000, 1e-300), np.ones(1000)])
    box = IntegerBox(base, Mollifier.symmetric(epsilon))
    assert is_member(box.nearest(np.eye(2000)[0]), box)
    assert is_member(box.nearest(np.eye(2000)[1500]), box)
