import numpy as np
import pytest
from scipy.stats import binom

from flwr_kld.inference.divergence import skewed_divergence
from flwr_kld.inference.interval import Interval, NoInterval, two_sided_interval
from flwr_kld.inference.lower_bound import lower_confidence_bound
from flwr_kld.inference.witness import Witness

THETA, GROUPS = 0.05, 10


@pytest.fixture(scope="module")
def check(plan_for, publish, zipf):
    """Both halves of a check: the first one's counts, and the second one's bound."""
    plan = plan_for(zipf(16, 0.5))

    def run(p, records, epsilon, seed, theta=THETA):
        rng = np.random.default_rng(seed)
        first = publish(plan, rng.multinomial(records, p), epsilon, seed)
        witness = Witness.from_counts(first, theta=theta)
        cells = rng.multinomial(records, np.repeat(p / GROUPS, GROUPS)).reshape(-1, GROUPS)
        merged = np.zeros((len(witness.values), GROUPS), dtype=np.int64)
        np.add.at(merged, witness.level_of, cells)
        second = publish(witness.query_plan(), merged, epsilon, seed + 1)
        bound = lower_confidence_bound(witness, second, theta=theta)
        return plan, two_sided_interval(first, bound, theta=theta)

    return run


def drifted(mass, amount):
    p = mass * np.exp(
        amount * np.linspace(-1, 1, len(mass))[np.random.default_rng(4).permutation(16)]
    )
    return p / p.sum()


@pytest.mark.parametrize("amount", [0.0, 0.1, 1.0])
def test_it_covers_the_truth(check, plan_for, zipf, amount):
    """200 runs at 95 %: as many misses as 5 % make with a probability of 1e-6 are a finding."""
    mass = plan_for(zipf(16, 0.5)).mass
    p = drifted(mass, amount)
    truth = skewed_divergence(mass, p, THETA)
    found = [check(p, 20_000, 1.0, seed)[1] for seed in range(0, 400, 2)]
    assert all(isinstance(one, Interval) for one in found)
    misses = sum(not one.lower <= truth <= one.upper for one in found)
    assert misses <= binom.isf(1e-6, 200, 0.05)
    width = np.mean([one.upper - one.lower for one in found])
    assert width < 0.02 + 0.3 * truth  # not vacuous


@pytest.mark.parametrize(
    ("records", "epsilon", "theta", "words"),
    [
        (300, 50.0, THETA, "times the records or at most"),
        (3_000, 0.2, THETA, "times the epsilon"),
        (20_000, 1.0, 0.0, "use theta=0.01"),
    ],
)
def test_it_refuses_and_says_what_is_short(check, plan_for, zipf, records, epsilon, theta, words):
    _, found = check(plan_for(zipf(16, 0.5)).mass, records, epsilon, 0, theta)
    assert isinstance(found, NoInterval)
    assert words in found.reason


def test_following_its_advice_helps(check, plan_for, zipf):
    mass = plan_for(zipf(16, 0.5)).mass
    _, refused = check(mass, 1_000, 1.0, 0)
    factor = float(refused.reason.split("would take ")[1].split(" times")[0])
    assert isinstance(check(mass, int(1_000 * factor * 0.9), 1.0, 0)[1], NoInterval)
    assert isinstance(check(mass, int(1_000 * factor * 1.02), 1.0, 0)[1], Interval)


@pytest.mark.parametrize(("epsilon", "least"), [(50.0, 3.0), (1.0, None)])
def test_the_smallest_cell_needs_three_records_and_three_noise_deviations(
    check, plan_for, publish, zipf, epsilon, least
):
    plan = plan_for(zipf(16, 0.5))
    if least is None:
        least = 3 * publish(plan, np.ones(plan.cells, dtype=int), epsilon).noise.variance ** 0.5
    records = least / (THETA * plan.mass[plan.mass > 0].min())
    assert isinstance(check(plan.mass, int(0.97 * records), epsilon, 0)[1], NoInterval)
    assert isinstance(check(plan.mass, int(1.03 * records), epsilon, 0)[1], Interval)
