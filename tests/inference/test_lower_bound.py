import math
from decimal import Decimal, localcontext
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flwr_kld.inference.divergence import skewed_divergence
from flwr_kld.inference.lower_bound import lower_confidence_bound
from flwr_kld.inference.witness import Witness


@pytest.fixture(scope="module")
def plain_witness(plan_for):
    """Each cell its own level."""

    def make(p, f):
        plan = plan_for(p)
        values = tuple(
            Fraction(math.ceil(x * 65536), 65536) for x in np.asarray(f)[plan_order(plan)]
        )
        return Witness(plan, np.arange(plan.cells, dtype=np.int32), values, plan.mass)

    return make


def plan_order(plan):
    """Symbol of each cell of a plan whose cells are symbols."""
    order = np.empty(plan.cells, dtype=int)
    order[plan.cell_of] = np.arange(plan.cells)
    return order


def exact_divergence(p, h, theta):
    """D_θ of counts h, 50 digits."""
    with localcontext(prec=50):
        total, skew = Decimal(int(sum(h))), Decimal(theta)
        weight = [Decimal(float(x)) for x in p]
        mass = sum(weight)
        value = Decimal(0)
        for x, n in zip(weight, h, strict=True):
            if x:
                value -= x / mass * ((1 - skew) * Decimal(int(n)) / total * mass / x + skew).ln()
        return value


@settings(max_examples=100, deadline=None)
@given(data=st.data(), size=st.integers(2, 8), theta=st.sampled_from([0.0, 0.01, 0.5]))
def test_no_witness_says_more_than_there_is(plain_witness, publish, data, size, theta):
    # Groups that are all the same leave no margin: what is left is the inequality itself.
    def draw(low, high):
        return data.draw(st.lists(st.integers(low, high), min_size=size, max_size=size))

    p = np.array(draw(1, 50), dtype=float)
    p /= p.sum()
    h, f = np.array(draw(1, 1000)), np.array(draw(1, 400)) / 20
    witness = plain_witness(p, f)
    h = h[plan_order(witness.plan)]
    second = publish(witness.query_plan(), np.repeat(h[:, None], 3, axis=1))
    bound = lower_confidence_bound(witness, second, theta=theta)
    assert Decimal(bound.lower) <= exact_divergence(witness.plan.mass, h, theta)
    assert bound.lower <= bound.point < bound.lower + 1e-6
    assert bound.standard_error == pytest.approx(0, abs=1e-12)


@pytest.mark.parametrize("theta", [0.0, 0.01, 0.3])
def test_the_best_witness_says_all_of_it(plain_witness, publish, theta):
    p, h = np.array([0.4, 0.3, 0.2, 0.1]), np.array([100, 200, 300, 400])
    q = h / h.sum()
    witness = plain_witness(p, p / ((1 - theta) * q + theta * p))
    order = plan_order(witness.plan)
    second = publish(witness.query_plan(), np.repeat(h[order][:, None], 4, axis=1))
    bound = lower_confidence_bound(witness, second, theta=theta)
    truth = skewed_divergence(p, h, theta)
    assert truth - 1e-6 < bound.lower <= truth


def test_counts_are_read_level_by_level(plain_witness, publish):
    witness = plain_witness([0.5, 0.5], [0.5, 2.0])
    counts = np.array([[10, 12, 14], [90, 88, 86]])
    right = lower_confidence_bound(witness, publish(witness.query_plan(), counts), theta=0.0)
    means = witness.f @ counts / counts.sum(axis=0)
    assert right.point == pytest.approx(witness.log_mean - math.log(means.mean()), abs=1e-9)
    whole = means.mean()
    assert right.standard_error == pytest.approx(means.std(ddof=1) / math.sqrt(3) / whole, rel=1e-6)
    assert right.groups == 3
    assert right.records == 300


def test_noise_beyond_all_reason_says_nothing_wrong(plain_witness, publish):
    witness = plain_witness([0.5, 0.5], [0.5, 2.0])
    for counts in ([[-500, 3, 2], [4, -700, 1]], [[0, 0, 0], [0, 0, 0]], [[-9, -9, -9], [3, 3, 3]]):
        bound = lower_confidence_bound(
            witness, publish(witness.query_plan(), np.array(counts)), theta=0.01
        )
        assert -2 < bound.lower <= bound.point <= math.log(100)
    # E_P f cannot be below the least f: noise that says so is not believed.
    lucky = lower_confidence_bound(
        witness,
        publish(witness.query_plan(), np.array([[900, 900, 900], [-90, -90, -90]])),
        theta=0.0,
    )
    assert lucky.lower <= witness.log_mean - math.log(0.5)


def test_covers_what_the_witness_sees(plan_for, publish, zipf, spread, in_cells):
    plan = plan_for(zipf(200))
    q = in_cells(plan, spread(zipf(200), 0.8))
    rng = np.random.default_rng(0)
    witness = Witness.from_counts(publish(plan, rng.multinomial(4_000, q), 1.0))
    levels, asked = len(witness.values), witness.query_plan()
    each = np.repeat(np.bincount(witness.level_of, q) / 10, 10)
    mean = np.bincount(witness.level_of, q) @ witness.f
    seen = witness.log_mean - math.log(0.99 * mean + 0.01 * witness.reference_mean)
    runs = 3_000
    bounds = [
        lower_confidence_bound(
            witness, publish(asked, rng.multinomial(4_000, each), 1.0, seed=i), theta=0.01
        )
        for i in range(runs)
    ]
    assert levels >= 3
    covered = np.mean([bound.lower <= seen for bound in bounds])
    assert 0.93 < covered < 0.98  # 0.955, and five standard deviations of 3,000 runs
    points = np.array([bound.point for bound in bounds])
    errors = np.array([bound.standard_error for bound in bounds])
    assert points.std() == pytest.approx(np.sqrt((errors**2).mean()), rel=0.08)
    assert points.mean() == pytest.approx(seen, abs=0.002)
    # noise and records each have their share of the error
    independent = np.mean([bound.independent_error for bound in bounds])
    assert 0.3 < independent / errors.mean() < 0.9
    higher = lower_confidence_bound(
        witness, publish(asked, rng.multinomial(4_000, each), 1.0), theta=0.01, level=0.999
    )
    assert higher.lower < higher.point - 3 * higher.standard_error


def test_what_does_not_fit_is_refused(plain_witness, publish):
    witness = plain_witness([0.5, 0.5], [0.5, 2.0])
    asked = witness.query_plan()
    good = publish(asked, np.full((2, 4), 50))
    for changes, message in (
        ({"theta": 1.0}, "theta"),
        ({"level": 0.4}, "level"),
    ):
        with pytest.raises(ValueError, match=message):
            lower_confidence_bound(witness, good, **{"theta": 0.01, **changes})
    with pytest.raises(ValueError, match="two groups"):
        lower_confidence_bound(witness, publish(asked, [50, 50]), theta=0.01)
    with pytest.raises(ValueError, match="2 levels"):
        lower_confidence_bound(witness, publish(asked, np.full(9, 50)), theta=0.01)
