"""Drifts of a wanted size."""

from typing import get_args

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numbered import Numbered

from flwr_kld import Reference
from flwr_kld.inference.divergence import skewed_divergence
from flwr_kld.planner.drift import Drift, Shape, Towards

WEIGHT = 1 / np.arange(1, 201)
REFERENCE = Reference(Numbered(200), WEIGHT / WEIGHT.sum())


@given(st.floats(1e-4, 2.0), st.sampled_from(get_args(Shape)), st.sampled_from([0.01, 0.1]))
def test_a_drift_has_the_divergence_that_was_asked_for(divergence, shape, theta):
    drift = Drift(REFERENCE, shape)
    if divergence > drift.largest(theta):
        return
    law = drift.at(divergence, theta)
    assert law.sum() == pytest.approx(1.0)
    assert skewed_divergence(REFERENCE.probabilities, law, theta) == pytest.approx(
        divergence, rel=1e-5
    )


def test_no_drift_is_the_reference():
    assert (Drift(REFERENCE).at(0.0, 0.01) == REFERENCE.probabilities).all()


def test_concentrated_means_the_most_frequent_symbols():
    ratio = Drift(REFERENCE, "concentrated").at(0.2, 0.01) / REFERENCE.probabilities
    assert ratio[0] > 1.5  # it alone holds more than a tenth
    assert np.ptp(ratio[1:]) < 1e-9
    uniform = Reference(Numbered(50), np.full(50, 0.02))
    ratio = Drift(uniform, "concentrated").at(0.2, 0.01) / 0.02
    assert (ratio > 1.5).sum() == 5


def test_spread_moves_every_symbol_its_own_way_and_always_the_same():
    first, second = (Drift(REFERENCE).at(0.2, 0.01) for _ in range(2))
    assert (first == second).all()
    assert len(np.unique(first / REFERENCE.probabilities)) == 200


def test_towards_a_law_is_a_mixture_with_it():
    unused = Reference(Numbered(4), [0.5, 0.3, 0.2, 0.0])
    new = Towards(unused, np.array([0.0, 0.0, 1.0, 1.0]))
    assert new.law(0.5) == pytest.approx([0.25, 0.15, 0.35, 0.25])
    law = new.at(0.1, 0.01)
    assert skewed_divergence(unused.probabilities, law, 0.01) == pytest.approx(0.1, rel=1e-5)
    assert law[3] > 0
    assert (new.at(0.0, 0.01) == unused.probabilities).all()


def test_some_clients_move_the_population_only_so_far():
    q = np.eye(200)[7]
    everyone, tenth = (Towards(REFERENCE, q, clients=part) for part in (1.0, 0.1))
    assert tenth.law(1.0) == pytest.approx(everyone.law(0.1))
    assert tenth.largest(0.01) < everyone.largest(0.01) / 5
    with pytest.raises(ValueError, match="out of reach"):
        tenth.at(0.5, 0.01)


@pytest.mark.parametrize(
    ("law", "clients"),
    [(np.ones(3), 1.0), (np.full(200, -1.0), 1.0), (np.zeros(200), 1.0), (np.ones(200), 0.0),
     (np.full(200, np.nan), 1.0)],
)  # fmt: skip
def test_what_is_no_law_is_refused(law, clients):
    with pytest.raises(ValueError, match=r"law|clients"):
        Towards(REFERENCE, law, clients=clients)


def test_what_cannot_be_reached_is_refused():
    for divergence, shape in ((4.7, "spread"), (-0.1, "spread"), (4.0, "concentrated")):
        with pytest.raises(ValueError, match="out of reach"):
            Drift(REFERENCE, shape).at(divergence, 0.01)
    with pytest.raises(ValueError, match=r"'spread', .*, got 'sideways'"):
        Drift(REFERENCE, "sideways")
