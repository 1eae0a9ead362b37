"""Where a p-value comes down to a level."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import ndtr, stdtr, stdtrit

from flwr_kld.inference.score_sum import crossing

LOW, HIGH, CLOSE = -1.0, 3.0, 4 * 4.0 * 2.0**-32


@given(
    st.sampled_from([0.05, 1e-3, 1e-7, 1e-12]),
    st.floats(1, 200),
    st.floats(-0.9, 2.9),
    st.floats(-9, 3),
    st.floats(0.1, 10),
)
def test_a_limit_is_found_on_the_safe_side(at, degrees, middle, log_deviation, guess):
    deviation = math.exp(log_deviation)
    exact = middle - float(stdtrit(degrees, at)) * deviation

    def p_value(x):
        return float(stdtr(degrees, (middle - x) / deviation))

    found = crossing(p_value, LOW, HIGH, at, middle=middle, deviation=guess * deviation)
    if exact >= HIGH:
        assert found == HIGH
    else:
        assert exact - 1e-9 * deviation <= found <= exact + CLOSE


@pytest.mark.parametrize(("middle", "end"), [(-5.0, LOW), (8.0, HIGH)])
def test_what_is_beyond_an_end_is_that_end(middle, end):
    found = crossing(lambda x: float(ndtr(middle - x)), LOW, HIGH, 0.05, middle=middle, deviation=1)
    assert found == end


def test_few_values_are_needed():
    """Each one takes a sum over the laws of the noise."""
    asked = []

    def p_value(x):
        asked.append(x)
        return float(stdtr(30, -x / 0.02))

    crossing(p_value, 0.0, 1.0, 1e-6, middle=0.0, deviation=0.025)
    assert len(asked) <= 7
