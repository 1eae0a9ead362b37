"""Two halves of a cohort share nobody whom the noise hides."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from flwr_kld.cohort.cohort import Participant
from flwr_kld.cohort.halves import halves, whom
from flwr_kld.errors import CheckFailed
from flwr_kld.kernel import Guarantee
from flwr_kld.kernel.promise import WholeClients

RECORD, CLIENT = Guarantee(1.0), Guarantee(1.0, protects=WholeClients(5))


@given(st.integers(2, 120), st.integers(1, 30))
def test_nobody_hidden_is_asked_twice_and_nobody_is_left_out(clients, least):
    chosen = [Participant(i) for i in range(clients)]
    if clients < 2 * least:
        with pytest.raises(CheckFailed, match="two halves"):
            halves(chosen, least, np.random.default_rng(0))
        return
    first, second = halves(chosen, least, np.random.default_rng(0))
    assert not set(first.participants) & set(second.participants)
    assert {*first.participants, *second.participants} == set(chosen)
    assert first.by == second.by == "client"
    assert min(len(first.participants), len(second.participants)) >= min(least, clients)


@pytest.mark.parametrize(
    ("clients", "present", "least", "guarantee", "about"),
    [
        (400, 400, 2, RECORD, "these clients"),
        (400, 401, 2, RECORD, "the population"),
        (40, 100, 2, RECORD, "the population"),
        (39, 100, 2, RECORD, "these clients"),
        (300, 900, 200, RECORD, "these clients"),  # halves of whole clients would be too small
        (39, 39, 2, CLIENT, "the population"),  # nobody hidden answers twice
    ],
)
def test_all_that_are_connected_or_few_are_asked_about_themselves(
    clients, present, least, guarantee, about
):
    assert whom(clients, present, least, guarantee) == about
