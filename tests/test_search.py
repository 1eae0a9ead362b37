"""Edges and roots against ones that are known, and SciPy's."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flwr_kld.common.search import edge, root


@given(
    at=st.floats(-5, 5),
    power=st.sampled_from([1, 3, 9]),
    steep=st.floats(0, 20),
    sign=st.sampled_from([-1, 1]),
)
def test_it_is_within_what_was_asked(at, power, steep, sign):
    def function(x):
        return sign * ((x - at) ** power + math.expm1(steep * (x - at)))

    low, high = at - 7, at + 3
    assert root(function, low, high, within=1e-9) == pytest.approx(at, abs=2.1e-9)


@pytest.mark.parametrize("end", [0.0, 1.0])
def test_an_end_may_be_the_root(end):
    assert root(lambda x: x - end, 0.0, 1.0, within=1e-9) == end


def test_a_step_is_found():
    assert root(lambda x: 1.0 if x > 0.3 else -1.0, 0.0, 1.0, within=1e-9) == pytest.approx(0.3)


def test_one_sign_at_both_ends_is_refused():
    with pytest.raises(ValueError, match="sign"):
        root(lambda x: x * x + 1, -1.0, 1.0, within=1e-9)


@given(at=st.floats(-5, 5), sure=st.sampled_from([-7.0, 7.0]), within=st.sampled_from([0, 1e-9]))
def test_an_edge_is_on_the_side_that_was_sure(at, sure, within):
    def holds(x):
        return x <= at if sure < 0 else x >= at

    found = edge(holds, sure, -sure, within=within)
    assert holds(found)
    assert found == pytest.approx(at, abs=1e-8)
    if not within:
        assert not holds(math.nextafter(found, -sure))


def test_an_edge_at_the_sure_end_is_that_end():
    assert edge(lambda x: False, 1.0, 2.0, within=1e-6) == 1.0
