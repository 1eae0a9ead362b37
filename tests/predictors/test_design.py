"""Designs: the table of report laws is exact, and public coins pick the queries."""

import numpy as np
import pytest
from predictors.candidates import random_laws

from flwr_kld.kernel.count import InvalidReply
from flwr_kld.kernel.law import TOTAL
from flwr_kld.predictors.bayes_mixture import public_hash
from flwr_kld.predictors.designs import DESIGNS, Design
from flwr_kld.simulations.studies.predictor_learners import affinities

LAWS = random_laws(4, 11)


def integers(*values):
    return np.array(values, dtype=np.int64)


@pytest.mark.parametrize("name", DESIGNS)
def test_the_law_of_a_report_is_the_sum_over_labels(name):
    design = DESIGNS[name](LAWS, 1.0)
    assert len(design.names) == len(design.weights) == len(design.queries)
    for q, query in enumerate(design.queries):
        direct = [
            [query.channel.weight(int(c), z) / TOTAL for z in range(query.channel.classes)]
            for c in query.class_of
        ]
        mine = design.law[design.starts[q] : design.starts[q + 1]]
        np.testing.assert_allclose(mine, (LAWS.probabilities @ direct).T, rtol=1e-12)


@pytest.mark.parametrize("name", DESIGNS)
def test_one_report_moves_any_log_odds_by_at_most_epsilon(name):
    for epsilon in (0.5, 4.0):
        logs = DESIGNS[name](LAWS, epsilon).log_law
        assert np.ptp(logs, axis=1).max() <= epsilon * (1 + 1e-12)


def test_many_classes_and_few_give_the_same_masses():
    laws = random_laws(3, 300)  # as many classes in the first
    design = Design(laws, 1.0, ["labels", "mlq", "cells/6/0"])
    query = design.queries[2]
    masses = [np.bincount(query.class_of, law) for law in laws.probabilities]
    rows = design.law[design.starts[2] :]
    np.testing.assert_allclose(rows.T, query.channel.push(np.array(masses)), rtol=1e-12)
    np.testing.assert_allclose(design.law.sum(axis=0), 3.0, rtol=1e-12)


def test_affinities_are_means_over_queries():
    design = Design(LAWS, 1.0, ["mlq", "ovr/1"], [3, 1])
    expected = 0.0
    for q, share in ((0, 0.75), (1, 0.25)):
        law = design.law[design.starts[q] : design.starts[q + 1]]
        expected = expected + share * np.sqrt(law).T @ np.sqrt(law)
    np.testing.assert_allclose(affinities(design), expected, rtol=1e-12)


def test_queries_are_picked_in_proportion_by_a_public_hash():
    design = Design(LAWS, 1.0, ["mlq", "ovr/0", "ovr/1"], [5, 2, 1])
    assert [design.pick(n) for n in range(9)] == [0] * 5 + [1, 1, 2, 0]
    picks = [design.pick(public_hash(7, str(client))) for client in range(4000)]
    seen = np.bincount(picks) / 4000  # a fixed sequence: no false alarm, ever
    assert np.abs(seen - [0.625, 0.25, 0.125]).max() < 0.03
    assert public_hash(7, "a") != public_hash(8, "a") != public_hash(8, "b")


def test_rows_of_impossible_reports_are_refused():
    design = Design(LAWS, 1.0, ["ovr/0", "mlq"])
    assert design.rows(integers(0, 1, 1), integers(1, 0, 3)).tolist() == [1, 2, 5]
    for query, symbol in ((0, 2), (0, -1), (1, 4), (1, 2**63 - 1)):
        with pytest.raises(InvalidReply, match="impossible"):
            design.rows(integers(query), integers(symbol))
    for query in (-1, 2):
        with pytest.raises(InvalidReply, match="asked"):
            design.rows(integers(query), integers(0))


def test_malformed_designs_are_refused():
    for names, weights in (([], []), (["mlq"], [1, 2]), (["mlq"], [0])):
        with pytest.raises(ValueError, match="design"):
            Design(LAWS, 1.0, names, weights)
