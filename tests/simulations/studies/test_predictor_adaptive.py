"""The study of queries that adapt: what it asks is checked, and the same command goes on."""

import numpy as np
import pytest

from flwr_kld.predictors.channel import RandomisedResponse
from flwr_kld.predictors.query import Query
from flwr_kld.simulations.studies import predictor_adaptive as study


def test_a_query_that_leaks_is_caught_and_each_is_counted_once():
    asked = study.Asked(1.0)
    private = Query(np.array([0, 1, 0]), RandomisedResponse(2, 1.0))
    for _ in range(2):
        asked.hold(private)
    assert asked.count == 1
    with pytest.raises(AssertionError, match="not private"):
        asked.hold(Query(np.array([0, 1, 0]), RandomisedResponse(2, 1.001)))


def test_designs_and_epsilons_meet_the_same_instance():
    tasks = [t for t in study.tasks_of(1, 200, 20) if (t["family"], t["K"]) == ("drift", 100)]
    assert {(t["epsilon"], t["design"]) for t in tasks if t["part"] == study.INSIDE} == {
        (e, d) for e in study.EPSILONS for d in ("adaptive", "design")
    }
    (table, true), *others = [study.instance(task) for task in tasks]
    assert all((table == other).all() and true == other_true for other, other_true in others)
