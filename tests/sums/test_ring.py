"""Values near the ring's edge wrap, or are refused."""

import numpy as np
import pytest
from exact import words
from sums.summing import Sum, session_of

from flwr_kld.kernel.channels import from_ring, to_ring
from flwr_kld.sums.messages import Phase


@pytest.mark.parametrize("bits", [32, 64])
def test_signed_values_come_back(bits):
    half = 2 ** (bits - 1)
    values = np.array([-half, -1, 0, 1, half - 1], dtype=np.int64)
    assert np.array_equal(from_ring(to_ring(values, bits), bits), values)


@pytest.mark.parametrize("value", [2**31, -(2**31) - 1, 2**62])
def test_a_value_that_does_not_fit_is_refused_without_saying_it(value):
    with pytest.raises(ValueError, match="does not fit") as caught:
        to_ring(np.array([0, value]), 32)
    assert str(value) not in str(caught.value)


def test_unsigned_64_bit_input_is_range_checked_too():
    with pytest.raises(ValueError, match="does not fit"):
        to_ring(np.array([2**63], dtype=np.uint64), 64)


@pytest.mark.parametrize("bits", [32, 64])
def test_sums_wrap_exactly(bits):
    word = np.dtype(f"<u{bits // 8}")
    top = 2**bits - 1
    vectors = np.array([[top, 1, 2 ** (bits - 1), 0]] * 3, dtype=word)
    result = Sum(session_of(3, bits=bits), vectors).run()
    assert [int(v) for v in words(result)] == [top - 2, 3, 2 ** (bits - 1), 0]


def test_signed_sums_at_the_edge():
    values = np.array([[-(2**31), 2**31 - 1, -5, 7], [0, 0, 3, -7], [0, 0, 1, 0]])
    vectors = np.stack([to_ring(row) for row in values])
    assert from_ring(words(Sum(session_of(3), vectors).run())).tolist() == values.sum(0).tolist()


@pytest.mark.parametrize("vector", [np.zeros(4), np.zeros(3, int)])
def test_a_client_refuses_what_is_no_vector_of_the_sum(vector):
    total = Sum(session_of(3), np.zeros((3, 4), np.uint32)).until(Phase.MASK)
    total.vectors = [vector] * 3
    with pytest.raises(ValueError, match=r"length|integers"):
        total.collect(Phase.MASK)


def test_the_callers_vector_is_not_changed():
    vectors = np.arange(12, dtype=np.uint32).reshape(3, 4)
    before = vectors.copy()
    Sum(session_of(3), vectors).run()
    assert np.array_equal(vectors, before)
