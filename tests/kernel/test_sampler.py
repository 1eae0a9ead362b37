"""The sampler follows the table: exactly at every boundary, and in law."""

from itertools import accumulate

import numpy as np
import pytest
from scipy import stats
from scripted import ScriptedBits

from flwr_kld.kernel.law import TOTAL, NoiseTable, SystemBits, sample
from flwr_kld.trust.noise_laws import discrete_gaussian, discrete_laplace

DRAWS = 2_000_000
FALSE_ALARM = 1e-7


def drawn_from(number: int, table: NoiseTable) -> int:
    """Value drawn when the uniform 128-bit number is `number`."""
    return int(sample(table, 1, ScriptedBits.of(number))[0])


@pytest.mark.parametrize("table", [discrete_laplace(1.3), discrete_gaussian(0.8)])
def test_each_value_owns_exactly_its_weight_in_numbers(table):
    bounds = list(accumulate(table.weights))
    for i, bound in enumerate(bounds):
        value = i - table.reach
        assert drawn_from(bound - 1, table) == value
        if i + 1 < len(bounds):
            assert drawn_from(bound, table) == value + 1
    assert drawn_from(0, table) == -table.reach


def test_bounds_that_share_a_high_word_are_told_apart():
    weights = (1, 2, TOTAL - 6, 2, 1)
    table = NoiseTable(weights)
    assert [drawn_from(n, table) for n in (0, 1, 2, 3, 4)] == [-2, -1, -1, 0, 0]
    assert [drawn_from(TOTAL - n, table) for n in (1, 2, 3, 4)] == [2, 1, 1, 0]


def test_the_tail_is_a_fair_sign_and_geometric_steps():
    table = discrete_laplace(1.0)
    high = (1 << 64) - 1
    first = sum(table.weights)  # the first number of the tail
    words = (first >> 64, first & high)
    stop, go_on = high, table.tail_ratio - 1
    assert sample(table, 1, ScriptedBits(*words, stop, 1))[0] == table.reach + 1
    assert sample(table, 1, ScriptedBits(*words, stop, 0))[0] == -table.reach - 1
    assert sample(table, 1, ScriptedBits(*words, go_on, go_on, stop, 1))[0] == table.reach + 3
    assert sample(table, 1, ScriptedBits(*words, table.tail_ratio, 1))[0] == table.reach + 1


def fits(draws: np.ndarray, table: NoiseTable) -> bool:
    """χ² test at a false-alarm rate of 1e-7; rare values are pooled on either side."""
    expected = table.probabilities * len(draws)
    common = expected >= 10
    observed = np.bincount(draws + table.reach, minlength=len(expected)).astype(float)
    pooled = [
        np.append(x[common], [x[~common & side].sum() for side in (low, high)])
        for x in (observed, expected)
        for low, high in [(table.support < 0, table.support > 0)]
    ]
    seen, hoped = (x[pooled[1] >= 1] for x in pooled)
    return stats.chisquare(seen, hoped * seen.sum() / hoped.sum()).pvalue > FALSE_ALARM


@pytest.mark.rate(1e-6)
@pytest.mark.parametrize(
    ("law", "scale"), [(discrete_laplace, 2.0), (discrete_laplace, 0.4), (discrete_gaussian, 6.0)]
)
def test_law_of_two_million_draws(law, scale):
    table = law(scale)
    draws = sample(table, DRAWS, SystemBits())
    assert fits(draws, table)
    assert not fits(
        np.clip(draws, -law(0.9 * scale).reach, law(0.9 * scale).reach), law(0.9 * scale)
    )
    assert not fits(draws, law(1.1 * scale))


@pytest.mark.rate(1e-6)
def test_successive_draws_are_independent():
    draws = sample(discrete_laplace(2.0), DRAWS, SystemBits()).astype(float)
    correlation = np.corrcoef(draws[:-1], draws[1:])[0, 1]
    assert abs(correlation) < 5.5 / DRAWS**0.5  # P < 4e-8 under independence
