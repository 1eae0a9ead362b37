"""Boxes, and the projection that is best in them."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from integral.laws import contains, finite_base, kl
from scipy.optimize import linprog

from examples import examples
from flwr_kld.integral import FiniteBase, Mollifier, project

EPSILONS = (0.1, 0.5, 1.0, 2.0, 5.0)


TINY = 1e-280
DIVERGENCES = {
    "KL": kl,
    "TV": lambda p, q: float(np.maximum(p - q, 0).sum()),
    "Hellinger": lambda p, q: 1 - float(np.sqrt(p * q).sum()),
    "chi2": lambda p, q: float((p**2 / q).sum()),
    "chi2 reversed": lambda p, q: float((q**2 / p).sum()) if p.min() > TINY else 0.0,
    "KL reversed": lambda p, q: kl(q, p) if p.min() > TINY else 0.0,
}


@pytest.mark.parametrize("epsilon", EPSILONS)
def test_the_two_boxes_and_what_they_can_gain(epsilon):
    symmetric = Mollifier.symmetric(epsilon)
    assert symmetric.floor == pytest.approx(np.exp(-epsilon / 2))
    assert symmetric.ceiling == pytest.approx(np.exp(epsilon / 2))
    peaked = Mollifier.asymmetric(epsilon, 0.02)
    drop = np.log(peaked.ceiling)  # ε/2 is the limit of the symmetric box only
    assert drop == pytest.approx(epsilon - np.log1p(0.02 * np.expm1(epsilon)))
    assert drop > np.log(symmetric.ceiling)
    share = (1 - peaked.floor) / (peaked.ceiling - peaked.floor)
    assert share == pytest.approx(0.02)


@pytest.mark.parametrize("epsilon", [0.0, 1e-10, -1.0, np.nan, np.inf, 41.0])
def test_impossible_epsilons_are_refused(epsilon):
    for make in (
        lambda: Mollifier.symmetric(epsilon),
        lambda: Mollifier.asymmetric(epsilon, 0.1),
        lambda: Mollifier(epsilon, 0.5),
    ):
        with pytest.raises(ValueError, match="epsilon"):
            make()


@pytest.mark.parametrize("share", [0.0, 1.0, -0.1, np.nan])
def test_impossible_shares_are_refused(share):
    with pytest.raises(ValueError, match="fraction"):
        Mollifier.asymmetric(1.0, share)


@pytest.mark.parametrize("floor", [np.exp(-1.0) / 2, np.exp(-1.0), 1.0, 1 - 1e-15, 0.0, np.nan])
def test_a_floor_outside_leaves_nothing_and_is_refused(floor):
    with pytest.raises(ValueError, match="floor"):
        Mollifier(1.0, floor)


problems = st.tuples(
    st.integers(0, 2**32 - 1),
    st.integers(2, 9),
    st.sampled_from(EPSILONS),
    st.sampled_from([None, 0.05, 0.3, 0.7]),
    st.sampled_from(["dirichlet", "e^-600", "zeros", "one symbol"]),
)


def problem(seed, size, epsilon, share, kind):
    generator = np.random.default_rng(seed)
    base = finite_base(generator.dirichlet(np.full(size, 3.0)))
    target = generator.dirichlet(np.full(size, 0.3)) + 1e-300
    if kind == "e^-600":
        target = np.exp(-generator.uniform(0, 600, size))
    elif kind == "zeros":
        target[generator.random(size) < 0.5] = 0
        target[generator.integers(size)] = 0.1
    elif kind == "one symbol":
        target = np.eye(size)[generator.integers(size)]
    box = Mollifier.symmetric(epsilon) if share is None else Mollifier.asymmetric(epsilon, share)
    return generator, base, target / target.sum(), box


@settings(max_examples=examples(150))
@given(problems)
def test_no_member_is_nearer_in_any_divergence(given_problem):
    generator, base, target, box = problem(*given_problem)
    best = project(target, base, box)
    assert contains(box, best, base)
    for _ in range(20):
        other = project(generator.dirichlet(np.full(base.size, 0.5)), base, box)
        other = best + generator.random() * (other - best)
        for name, divergence in DIVERGENCES.items():
            here, there = divergence(target, best), divergence(target, other)
            assert here <= there + 1e-9 * (1 + abs(there)), name


@settings(max_examples=examples(60))
@given(problems)
def test_the_optimum_of_total_variation_by_linear_programming(given_problem):
    _, base, target, box = problem(*given_problem)
    n = base.size
    best = linprog(
        np.r_[np.zeros(n), np.ones(n)],  # minimise Σ t, t >= P - Q, t >= 0
        A_ub=np.hstack([-np.eye(n), -np.eye(n)]),
        b_ub=-target,
        A_eq=[np.r_[np.ones(n), np.zeros(n)]],
        b_eq=[1.0],
        bounds=[
            *zip(box.floor * base.mass, box.ceiling * base.mass, strict=True),
            *[(0, None)] * n,
        ],
    )
    reached = DIVERGENCES["TV"](target, project(target, base, box))
    assert reached == pytest.approx(best.fun, abs=1e-7)


@settings(max_examples=examples(100))
@given(
    arrays(float, 6, elements=st.one_of(st.just(0.0), st.floats(0, 1e300))),
    arrays(float, 6, elements=st.floats(1e-12, 1.0)),
    st.floats(1e-6, 40),
)
def test_any_target_projects_into_the_box(target, mass, epsilon):
    if not target.any():
        target[0] = 1
    base, box = finite_base(mass), Mollifier.symmetric(epsilon)
    assert contains(box, project(target, base, box), base)


def test_the_fill_where_the_support_is_too_small_for_the_box():
    base, box = finite_base(np.ones(100)), Mollifier.symmetric(1.0)
    projected = project(np.eye(100)[3], base, box)
    assert projected[3] == pytest.approx(box.ceiling / 100)
    others = np.delete(projected, 3)
    assert np.ptp(others) == 0
    assert projected.sum() == pytest.approx(1, abs=1e-14)


def test_65536_symbols_with_masses_over_600_nats():
    generator = np.random.default_rng(0)
    base = finite_base(np.ones(65_536))
    target = np.exp(-generator.uniform(0, 600, 65_536))
    for box in (Mollifier.symmetric(1.0), Mollifier.asymmetric(5.0, 0.001)):
        projected = project(target, base, box)
        assert contains(box, projected, base)
        inside = (projected > 1.0001 * box.floor / 65_536) & (
            projected < 0.9999 * box.ceiling / 65_536
        )
        scale = projected[inside] / target[inside]
        assert np.ptp(np.log(scale)) < 1e-9  # one u for all


@pytest.mark.parametrize(
    "target",
    [
        np.zeros(3),
        [1.0, -1, 1],
        [1, np.nan, 1],
        np.ones(4),
        [],
        None,
        "abc",
        [1, 1j, 1],
        [1, [1], 1],
    ],
    ids=str,
)
def test_what_is_no_target_is_refused(target):
    with pytest.raises(ValueError, match="target"):
        project(target, finite_base(np.ones(3)), Mollifier.symmetric(1.0))


def test_a_density_outside_is_no_member():
    base, box = finite_base(np.ones(4)), Mollifier.symmetric(1.0)
    assert contains(box, base.mass, base)
    assert not contains(box, np.array([0.7, 0.1, 0.1, 0.1]), base)
    assert not contains(box, base.mass * 1.01, base)


@pytest.mark.parametrize(
    ("mass", "message"),
    [
        ([0.5, 0.5, 0.0], "positive"),
        ([0.5, 0.6, 0.1], "sum to 1"),
        ([0.5, np.nan, 0.5], "finite"),
        ([0.5, 10**400], "numbers"),
        ([0.5, 0.5j], "numbers"),
        (["a", "b"], "numbers"),
        ([1.0], "least"),
        ([], "least"),
    ],
)
def test_what_is_no_base_is_refused(mass, message):
    with pytest.raises(ValueError, match=message):
        FiniteBase(mass, np.zeros((len(mass), 1)))


@pytest.mark.parametrize(
    "features",
    [np.zeros((3, 1)), np.zeros(2), np.full((2, 1), np.nan), [["a"], ["b"]], [[0], [1, 2]]],
)
def test_features_that_do_not_fit_are_refused(features):
    with pytest.raises(ValueError, match="features"):
        FiniteBase(np.array([0.5, 0.5]), features)
