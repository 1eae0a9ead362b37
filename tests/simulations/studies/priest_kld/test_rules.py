"""One noised number: the study's rules, their exact sensitivities and their noise."""

from itertools import combinations

import numpy as np
import pytest

from flwr_kld.infer.divergence import skewed_divergence
from flwr_kld.kernel import Guarantee
from flwr_kld.simulations.studies.priest_kld.rules import (
    AMOUNT,
    grid,
    noised,
    paper_rule,
    scalar_rule,
)
from flwr_kld.trust.calibration import calibrated_laplace

LAMBDAS = np.array([0.0, 0.3, 2.0])


def test_the_scalar_rule_targets_the_skewed_divergence():
    rng = np.random.default_rng(1)
    pi = rng.dirichlet(np.ones(40))
    counts = rng.integers(0, 9, 40).astype(float)
    rule = scalar_rule(counts, int(counts.sum()), pi, pi)
    theta = AMOUNT / (1 + AMOUNT)
    assert rule.at(np.zeros(1)) == pytest.approx(skewed_divergence(pi, counts, theta), rel=1e-9)


@pytest.mark.parametrize("rule_of", [paper_rule, scalar_rule])
@pytest.mark.parametrize("weight", [(0.5, 0.3, 0.2), (0.9, 0.1, 0.0)])
def test_no_replaced_record_moves_a_rule_further(rule_of, weight):
    """All histograms of four records over three queried symbols and one that is not."""
    records, weight = 4, np.array(weight)
    pi = np.array([0.6, 0.1, 0.05])
    largest, shown, linear = np.zeros(len(LAMBDAS)), [], 0.0
    for bars in combinations(range(records + 3), 3):
        h = np.diff((-1, *bars, records + 3)) - 1
        here = rule_of(h[:3], records, pi, weight)
        for u in range(4):
            for v in np.flatnonzero((h > 0) & (np.arange(4) != u)):
                moved = h.copy()
                moved[v], moved[u] = moved[v] - 1, moved[u] + 1
                there = rule_of(moved[:3], records, pi, weight)
                move = np.abs(here.at(LAMBDAS) - there.at(LAMBDAS))
                largest = np.maximum(largest, move)
                linear = max(linear, abs(here.linear - there.linear))
        shown.append(here)
    assert shown[0].sensitivity(LAMBDAS) == pytest.approx(largest, rel=1e-9)
    rounding = 1e-12  # of two enumerated numbers; `grid` has a whole step to spare
    assert linear * (1 - rounding) <= shown[0].linear_sensitivity <= linear * 1.001


def test_too_many_records_for_the_clip_are_refused():
    one = np.ones(1)
    with pytest.raises(ValueError, match="500,000"):
        paper_rule(one, 600_000, one, one)


@pytest.mark.rate(1e-5)
def test_noise_has_the_law_of_the_products_table():
    """50,000 draws, each probability within six standard deviations."""
    sensitive, many = np.full(50_000, 0.1), 50_000
    (step, *_), (moves, *_) = grid(sensitive)
    table = calibrated_laplace(Guarantee(20.0), moves=(int(moves),)).table
    drawn = noised(np.zeros(many), sensitive, 20.0, 0.0, np.random.default_rng(0)) / step
    for k in range(-6, 7):
        chance = float(table.probability(k))
        assert abs((drawn == k).mean() - chance) < 6 * (chance / many) ** 0.5
