"""The optimal design: it reaches the game's value, and no pair of hypotheses is forgotten."""

import numpy as np
import pytest
from predictors.candidates import random_laws
from scipy.optimize import linprog

from flwr_kld.predictors.designs import (
    Design,
    best_replies,
    maximin,
    optimal_design,
    pair_information,
    query_pool,
)
from flwr_kld.predictors.laws import Laws
from flwr_kld.predictors.query import named_query
from flwr_kld.simulations.studies.predictor_learners import affinities


def game_value(payoff):
    """Largest smallest mean payoff, by linear programming."""
    rows, columns = payoff.shape
    solved = linprog(
        np.append(np.zeros(rows), -1),
        A_ub=np.column_stack([-payoff.T, np.ones(columns)]),
        b_ub=np.zeros(columns),
        A_eq=np.append(np.ones(rows), 0)[None],
        b_eq=[1],
    )
    return -solved.fun


@pytest.mark.parametrize("seed", range(5))
def test_the_game_is_played_to_within_two_percent_of_its_value(seed):
    payoff = np.random.default_rng(seed).random((40, 30))
    rows, columns = maximin(payoff)
    assert rows.sum() == pytest.approx(1)
    assert columns.sum() == pytest.approx(1)
    assert (rows @ payoff).min() > 0.98 * game_value(payoff)
    assert (payoff @ columns).max() < 1.02 * game_value(payoff)


@pytest.mark.parametrize("epsilon", [0.5, 1.0, 4.0])
def test_the_design_is_nearly_the_best_mixture_of_its_pool(epsilon):
    laws = random_laws(6, 40)
    pool = pair_information(Design(laws, epsilon, query_pool(laws, epsilon)))
    design = optimal_design(laws, epsilon)
    mixed = design.shares @ pair_information(design)
    value = (mixed / pool.max(axis=0)).min()
    assert value > 0.98 * game_value(pool / pool.max(axis=0))  # and often above: the pool grows
    np.testing.assert_allclose(mixed, (1 - affinities(design))[np.triu_indices(6, 1)], rtol=1e-9)


def test_twins_do_not_take_the_reports_from_the_others():
    table = np.array(random_laws(6, 40).probabilities)
    others = np.triu_indices(4, 1)
    apart = affinities(optimal_design(Laws(table), 1.0))[2:, 2:][others]
    twin = table[0] * np.exp(0.002 * np.random.default_rng(3).standard_normal(40))
    table[1] = twin / twin.sum()
    beside_twins = affinities(optimal_design(Laws(table), 1.0))[2:, 2:][others]
    assert ((1 - apart) / (1 - beside_twins)).max() < 2


def test_hypotheses_that_agree_here_are_left_out_of_the_game():
    table = np.array(random_laws(4, 9).probabilities)
    table[2] = table[0]
    information = (1 - affinities(optimal_design(Laws(table), 1.0)))[np.triu_indices(4, 1)]
    assert sorted(information > 1e-4) == [False] + [True] * 5
    same = optimal_design(Laws(np.tile(table[0], (3, 1))), 1.0)
    assert len(same.queries) == 1


def test_two_hypotheses_are_told_apart_by_their_likelier_labels():
    laws = random_laws(2, 500)
    assert optimal_design(laws, 1.0).names == ["mlq"]


def test_the_search_is_kept_and_repeatable():
    laws = random_laws(5, 20)
    first = optimal_design(laws, 1.0)
    assert optimal_design(Laws(np.array(laws.probabilities)), 1.0) is first
    optimal_design.cache_clear()
    again = optimal_design(laws, 1.0)
    assert (again.names, again.weights) == (first.names, first.weights)


def test_replies_are_sets_that_serve_the_pairs_they_are_climbed_to_for():
    laws = random_laws(6, 40)
    worth = np.zeros(15)
    worth[7] = 1.0  # hypotheses 1 and 4
    (name,) = best_replies(laws, worth, seed=0)
    asked = named_query(laws, name, 1.0).class_of
    scheffe = named_query(laws, "pair/1/4", 1.0).class_of
    assert asked.tolist() in (scheffe.tolist(), (1 - scheffe).tolist())
    assert best_replies(laws, np.zeros(15), seed=0) == []
