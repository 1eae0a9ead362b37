"""Two halves of a cohort share nobody whom the noise hides."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from flwr_kld.cohort.cohort import Participant
from flwr_kld.cohort.halves import halves
from flwr_kld.errors import CheckFailed
from flwr_kld.kernel import Unit
from flwr_kld.query.selection import EVERYTHING, Selection

IDS = np.arange(60, dtype=np.uint64)


def records(part):
    """(client, record) pairs that a part asks for."""
    kept = part.selection.selected(IDS)
    return {(p, i) for p in part.participants for i in np.flatnonzero(kept)}


@given(st.integers(2, 120), st.integers(1, 30), st.sampled_from(Unit), st.integers(1, 4))
def test_nobody_hidden_is_asked_twice_and_nobody_is_left_out(clients, least, unit, modulus):
    chosen = [Participant(i) for i in range(clients)]
    selection = Selection("k", modulus, (modulus - 1,))
    if unit is Unit.CLIENT and clients < 2 * least:
        with pytest.raises(CheckFailed, match="two halves"):
            halves(chosen, selection, least, unit, np.random.default_rng(0))
        return
    first, second = halves(chosen, selection, least, unit, np.random.default_rng(0))
    assert not records(first) & records(second)
    whole = {(p, i) for p in chosen for i in np.flatnonzero(selection.selected(IDS))}
    assert records(first) | records(second) == whole
    if unit is Unit.CLIENT:
        assert not set(first.participants) & set(second.participants)
    assert min(len(first.participants), len(second.participants)) >= min(least, clients)


def test_many_clients_are_split_by_client_and_few_by_record():
    rng = np.random.default_rng(0)
    for clients, unit, least, by in (
        (400, Unit.RECORD, 2, "client"),
        (200, Unit.RECORD, 2, "client"),
        (40, Unit.RECORD, 2, "client"),
        (39, Unit.RECORD, 2, "record"),
        (300, Unit.RECORD, 200, "record"),  # halves of whole clients would be too small
        (200, Unit.CLIENT, 2, "client"),
        (40, Unit.CLIENT, 20, "client"),
        (39, Unit.CLIENT, 2, "client"),
    ):
        chosen = [Participant(i) for i in range(clients)]
        first, second = halves(chosen, EVERYTHING, least, unit, rng)
        assert first.by == second.by == by
        told = {"client": "the population", "record": "these clients"}[by]
        if clients >= 40 or by == "record":
            again, _ = halves(chosen, EVERYTHING, least, unit, rng, told)
            assert again.by == by
        if by == "client":  # who taught the witness is not asked again
            assert not set(first.participants) & set(second.participants)
