import math
import re

import numpy as np
import pytest
from scipy.stats import binom

from flwr_kld.infer.divergence import skewed_divergence
from flwr_kld.infer.estimators.score import score
from flwr_kld.infer.upper_limit import upper_limit

THETA, RUNS = 0.05, 50
CEILING = -math.log(THETA)


def vanished(p):
    return np.where(np.arange(len(p)) % 7 == 3, 0, p)


def alternating(p):
    return p * np.where(np.arange(len(p)) % 2, 1.5, 0.5)


def light_gone(p):
    return np.where(np.cumsum(p) > 0.9, 0, p)


def new(p):
    return np.append(p[:-1], p[-1] + 0.2)


def same(p):
    return p


@pytest.fixture(scope="module")
def limit(plan_for, publish, in_cells, zipf):
    """Limit and truth of one check; with few cells, a plan of its own for each seed."""

    def run(symbols, records, epsilon, drift, seed, theta=THETA):
        plan = plan_for(zipf(symbols), cells=200, seed=seed)
        q = drift(plan.reference.probabilities.copy())
        q = q / q.sum()
        counts = np.random.default_rng(seed).multinomial(records, in_cells(plan, q))
        found = upper_limit(publish(plan, counts, epsilon, seed), theta=theta)
        return found, skewed_divergence(plan.reference.probabilities, q, theta)

    return run


@pytest.mark.rate(1e-5)
@pytest.mark.parametrize("drift", [same, vanished, alternating, light_gone, new])
@pytest.mark.parametrize(
    ("symbols", "records", "epsilon"),
    [(2, 2_000, 1.0), (20, 2_000, 1.0), (150, 5_000, 0.5), (600, 200_000, 1.0)],
)
def test_it_is_above_the_truth(limit, symbols, records, epsilon, drift):
    """As many misses as 5 % make with a probability of 1e-6 are a finding."""
    found = [limit(symbols, records, epsilon, drift, seed) for seed in range(RUNS)]
    misses = sum(u.value < truth for u, truth in found)
    assert misses <= binom.isf(1e-6, RUNS, 0.05)
    assert all(0 <= u.value <= CEILING for u, _ in found)


@pytest.mark.parametrize(("symbols", "records", "most"), [(20, 5_000, 0.02), (150, 20_000, 0.05)])
def test_it_excludes_what_a_check_can_exclude(limit, symbols, records, most):
    assert np.median([limit(symbols, records, 1.0, same, s)[0].value for s in range(20)]) < most


@pytest.mark.parametrize("symbols", [20, 600])
def test_polynomials_are_above_the_score_and_convex(limit, symbols):
    found, _ = limit(symbols, 5_000, 1.0, same, 0)
    x = np.linspace(-6, 1, 701)
    for degree in (2, 4, 6, 8):
        b = found._design._majorant(degree)
        linear = (1 - THETA - b[1]) * x
        polynomial = np.polynomial.Polynomial(b)
        assert (polynomial(x) >= score(1 - x, THETA) - linear - 1e-9).all()
        assert (polynomial.deriv(2)(x) >= 0).all()


def test_records_of_clients_that_are_alike_only_raise_the_sum(plan_for, publish, zipf):
    plan = plan_for(zipf(40))
    rng, sums = np.random.default_rng(0), []
    for seed in range(50):
        counts = sum(rng.multinomial(50, rng.dirichlet(2 * plan.mass)) for _ in range(100))
        sums.append(upper_limit(publish(plan, counts, 2.0, seed), theta=THETA).excess)
    assert np.mean(sums) > 3 * np.std(sums) / len(sums) ** 0.5


def test_nothing_is_excluded_without_theta(limit):
    found, _ = limit(20, 2_000, 1.0, same, 0, theta=0.0)
    assert math.isinf(found.value)
    assert "theta=0.01" in found.resolves(0.1)


def test_following_its_advice_helps(limit):
    found, _ = limit(150, 3_000, 0.5, same, 0)
    records, epsilon, symbols = found.resolves(0.05).split(" or ")
    times = float(records.split(" times")[0])
    more = [limit(150, int(3_000 * times), 0.5, same, seed)[0].value for seed in range(9)]
    assert np.median(more) < 0.05 < found.value
    times = float(epsilon.split(" times")[0])
    sharper = [limit(150, 3_000, 0.5 * times, same, seed)[0].value for seed in range(9)]
    assert np.median(sharper) < 0.05
    fewer = int(symbols.split("at most ")[1].split(" ")[0])
    assert 2 < fewer < 150


def test_a_drift_is_not_resolved_by_more_records(limit):
    found, _ = limit(20, 20_000, 1.0, vanished, 0)
    advice = found.resolves(0.1)
    assert "times" not in advice  # as much again would not help
    assert not re.search(r"\d", advice)  # a limit's own sum is not an estimate to show beside one


def test_more_records_are_asked_for_where_no_number_of_such_checks_clears(limit):
    for seed in range(30):  # whatever chance has it that moved
        found, _ = limit(150, 3_000, 0.02, same, seed)
        assert "times" in found.resolves(0.1), seed


@pytest.mark.parametrize(
    ("name", "value"), [("theta", 1.0), ("level", 1.0), ("design_effect", 0.5)]
)
def test_bad_arguments(plan_for, publish, zipf, name, value):
    noisy = publish(plan_for(zipf(20)), np.ones(20), 1.0)
    with pytest.raises(ValueError, match=name):
        upper_limit(noisy, **{"theta": THETA} | {name: value})
