"""Values near the ring's edge wrap."""

import numpy as np
import pytest
from exact import words
from secure_sums.summing import Sum, session_of

from flwr_kld.kernel.channels import WORD, from_ring
from flwr_kld.secure_sums.messages import Phase


def test_sums_wrap_exactly():
    top = 2**64 - 1
    vectors = np.array([[top, 1, 2**63, 0]] * 3, dtype=WORD)
    result = Sum(session_of(3), vectors).run()
    assert [int(v) for v in words(result)] == [top - 2, 3, 2**63, 0]


def test_signed_sums_at_the_edge():
    values = np.array([[-(2**63), 2**63 - 1, -5, 7], [0, 0, 3, -7], [0, 0, 1, 0]])
    result = Sum(session_of(3), values.astype(WORD)).run()
    assert from_ring(words(result)).tolist() == values.sum(0).tolist()


@pytest.mark.parametrize("vector", [np.zeros(4), np.zeros(3, int)])
def test_a_client_refuses_what_is_no_vector_of_the_sum(vector):
    total = Sum(session_of(3), np.zeros((3, 4), WORD)).until(Phase.MASK)
    total.vectors = [vector] * 3
    with pytest.raises(ValueError, match=r"length|integers"):
        total.collect(Phase.MASK)


def test_the_callers_vector_is_not_changed():
    vectors = np.arange(12, dtype=WORD).reshape(3, 4)
    before = vectors.copy()
    Sum(session_of(3), vectors).run()
    assert np.array_equal(vectors, before)
