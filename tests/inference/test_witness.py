import math
from decimal import Decimal, localcontext
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flwr_kld.inference.divergence import skewed_divergence
from flwr_kld.inference.witness import FIXED_POINT, Witness
from flwr_kld.query.selection import Selection


def seen(witness, q, theta=0.01):
    """What a witness sees of D_θ if P over the cells is q."""
    mean = np.bincount(witness.level_of, q) @ witness.f
    return witness.log_mean - math.log((1 - theta) * mean + theta * witness.reference_mean)


@pytest.fixture(scope="module")
def drifted(plan_for, publish, zipf, spread, in_cells):
    def make(epsilon=1.0, records=10_000, amount=0.8, cells=300):
        plan = plan_for(zipf(cells))
        q = in_cells(plan, spread(zipf(cells), amount))
        h = np.random.default_rng(1).multinomial(records, q)
        return publish(plan, h, epsilon), q

    return make


def test_it_sees_most_of_a_drift_and_never_more_than_there_is(drifted):
    for epsilon, part in ((0.3, 0.6), (1.0, 0.75), (6.0, 0.85)):
        noisy, q = drifted(epsilon)
        truth = skewed_divergence(noisy.plan.mass, q, 0.01)
        assert part * truth < seen(Witness.from_counts(noisy), q) < truth


def test_more_noise_leads_to_a_flatter_witness(drifted):
    noisy, _ = drifted(6.0)
    loud = drifted(0.05)[0].noise
    plain, wary = Witness.from_counts(noisy), Witness.from_counts(noisy, next_noise=loud)
    cost = [float(((w.f - 1) ** 2).sum()) for w in (plain, wary)]
    assert cost[1] < 0.2 * cost[0]
    few = Witness.from_counts(noisy, next_noise=loud, next_records=10.0)
    assert ((few.f - 1) ** 2).sum() <= cost[1]


def test_values_are_within_the_bound_and_rounded_up(drifted):
    noisy, _ = drifted(6.0, amount=2.0)
    for bound in (20.0, 4.0, 1.1):
        witness = Witness.from_counts(noisy, bound=bound)
        assert all((value * FIXED_POINT).denominator == 1 for value in witness.values)
        assert min(witness.values) >= Fraction(1 / bound)
        assert max(witness.values) < Fraction(bound) + Fraction(1, FIXED_POINT)
        assert witness.f.tolist() == [float(value) for value in witness.values]
    assert max(Witness.from_counts(noisy).values) > 4


def test_means_are_rounded_against_the_bound(drifted):
    witness = Witness.from_counts(drifted(6.0, amount=1.5)[0])
    levels = witness.level_of[witness.plan.cell_of]
    p = [Fraction(x) for x in witness.plan.reference.probabilities.tolist()]
    mass = [
        sum((p[i] for i in np.flatnonzero(levels == k)), Fraction()) for k in range(len(witness.f))
    ]
    total = sum(mass)
    exact = sum((m * f for m, f in zip(mass, witness.values, strict=True)), Fraction()) / total
    assert exact <= Fraction(witness.reference_mean) <= exact * (1 + Fraction(1, 10**12))
    with localcontext(prec=50):

        def decimal(x):
            return Decimal(x.numerator) / Decimal(x.denominator)

        log_mean = sum(
            decimal(m / total) * decimal(f).ln() for m, f in zip(mass, witness.values, strict=True)
        )
        assert log_mean - Decimal("1e-12") <= Decimal(witness.log_mean) <= log_mean


def test_the_second_half_is_asked_for_levels(drifted):
    witness = Witness.from_counts(drifted()[0])
    plan = witness.query_plan()
    assert plan.cells == len(witness.values)
    assert np.array_equal(plan.cell_of, witness.level_of[witness.plan.cell_of])
    assert plan.mass == pytest.approx(witness.mass)
    assert plan.over(Selection(groups=10)).length == 10 * len(witness.values)
    assert (plan.weight == 0).all()


def test_without_drift_there_still_is_something_to_learn(plan_for, publish, zipf):
    plan = plan_for(zipf(100))
    h = np.random.default_rng(0).multinomial(5_000, plan.mass)
    witness = Witness.from_counts(publish(plan, h, 1.0))
    assert len(witness.values) >= 2
    assert -0.005 < seen(witness, plan.mass) <= 0
    only = Witness.from_counts(publish(plan_for([1.0]), [50], 1.0))
    assert len(only.values) == 1


def test_the_same_counts_give_the_same_witness(drifted):
    noisy, _ = drifted()
    assert Witness.from_counts(noisy).values == Witness.from_counts(noisy).values


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"theta": 1.0}, "theta"),
        ({"bound": 1.0}, "bound must be a number above 1"),
        ({"groups": 1}, "groups must be a whole number, at least 2"),
        ({"level": 0.3}, "level"),
    ],
)
def test_arguments_are_checked(drifted, changes, message):
    with pytest.raises(ValueError, match=message):
        Witness.from_counts(drifted()[0], **changes)


def test_counts_in_groups_teach_nothing(plan_for, publish):
    plan = plan_for([0.5, 0.5])
    with pytest.raises(ValueError, match="one group"):
        Witness.from_counts(publish(plan, [1, 2, 3, 4]))


def test_a_witness_that_does_not_fit_is_refused(plan_for):
    plan = plan_for([0.5, 0.3, 0.2])
    share, half = np.array([0.5, 0.5]), Fraction(1, 2)
    Witness(plan, np.array([0, 1, 1], np.int32), (half, 2 * half), share)
    for level_of, values, message in (
        ([0, 1], (half, half), "a level for each cell"),
        ([0, 2, 2], (half, half), "none is empty"),
        ([0, 1, 1], (half, 0 * half), "positive"),
        ([0, 1, 1], (half, Fraction(1, 3)), "fixed point"),
    ):
        with pytest.raises(ValueError, match=message):
            Witness(plan, np.array(level_of, np.int32), values, share)


@pytest.mark.filterwarnings("error")
@settings(max_examples=60, deadline=None)
@given(
    data=st.data(),
    size=st.integers(1, 40),
    epsilon=st.sampled_from([0.05, 1.0, 6.0, np.inf]),
    theta=st.sampled_from([0.0, 1e-6, 0.01, 0.9]),
)
def test_any_counts_give_a_witness(plan_for, publish, data, size, epsilon, theta):
    masses = data.draw(
        st.lists(st.sampled_from([0.0, 1e-12, 1e-4, 1.0, 50.0]), min_size=size, max_size=size)
    )
    h = data.draw(st.lists(st.sampled_from([0, 1, 7, 1000, 10**6]), min_size=size, max_size=size))
    masses[0], h[0] = 1.0, h[0] + 1
    plan = plan_for(np.array(masses) / sum(masses))
    counts = np.bincount(plan.cell_of, h, plan.cells)
    witness = Witness.from_counts(publish(plan, counts, epsilon), theta=theta)
    assert witness.share.sum() == pytest.approx(1)
    assert math.isfinite(witness.log_mean)
    q = counts / counts.sum()
    assert seen(witness, q, theta) <= skewed_divergence(plan.mass, q, theta) + 1e-9
