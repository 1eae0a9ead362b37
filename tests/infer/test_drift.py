"""Drifts of a wanted size."""

from typing import get_args

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numbered import Numbered

from flwr_kld import Reference
from flwr_kld.infer.divergence import skewed_divergence
from flwr_kld.infer.drift import Drift, Shape
from flwr_kld.infer.estimators.score import THETA

WEIGHT = 1 / np.arange(1, 201)
REFERENCE = Reference(Numbered(200), WEIGHT / WEIGHT.sum())


@given(st.floats(1e-4, 2.0), st.sampled_from(get_args(Shape)))
def test_a_drift_has_the_divergence_that_was_asked_for(divergence, shape):
    drift = Drift(REFERENCE, shape)
    if divergence > drift.largest:
        return
    law = drift.at(divergence)
    assert law.sum() == pytest.approx(1.0)
    assert skewed_divergence(REFERENCE.probabilities, law, THETA) == pytest.approx(
        divergence, rel=1e-5
    )


def test_no_drift_is_the_reference():
    assert (Drift(REFERENCE).at(0.0) == REFERENCE.probabilities).all()


def test_spread_moves_every_symbol_its_own_way_and_always_the_same():
    first, second = (Drift(REFERENCE).at(0.2) for _ in range(2))
    assert (first == second).all()
    assert len(np.unique(first / REFERENCE.probabilities)) == 200


def test_what_cannot_be_reached_is_refused():
    for divergence, shape in ((4.7, "spread"), (-0.1, "spread"), (4.7, "tilted")):
        with pytest.raises(ValueError, match="reach"):
            Drift(REFERENCE, shape).at(divergence)
    with pytest.raises(ValueError, match="sideways"):
        Drift(REFERENCE, "sideways")
