"""Queries that adapt: chosen from public reports, stored by name, and the same when read again."""

import json

import numpy as np
import pytest
from predictors.candidates import named, random_laws

from flwr_kld.kernel.count import InvalidReply
from flwr_kld.predictors import BayesMixture
from flwr_kld.predictors.asked import adaptive_design, classes_for
from flwr_kld.predictors.bayes_mixture import Intake, Rejection
from flwr_kld.predictors.class_maps import as_code, regions
from flwr_kld.predictors.designs import Design
from flwr_kld.predictors.laws import Laws
from flwr_kld.predictors.tally import LocalReports
from flwr_kld.simulations.studies.predictor_learners import affinities

LAWS = random_laws(24, 60)
HYPOTHESES = named(LAWS.probabilities)
UNIFORM = np.full(24, -np.log(24))


def law_of(design, query, true):
    law = np.split(design.law[:, true], design.starts[1:-1])[query]
    return law / law.sum()


def ask(predictor, true, rng, reports=80, context=""):
    """One round of clients that follow hypothesis `true`; their reports are returned."""
    number = predictor._next
    design = predictor.design(context, number)
    queries = rng.integers(len(design.queries), size=reports)
    symbols = [rng.choice(len(law), p=law) for law in (law_of(design, q, true) for q in queries)]
    batch = LocalReports(number, queries + 16 * number, np.array(symbols, dtype=np.int64), context)
    predictor.update(batch)
    return batch


def after(rounds, *, seed=0, epsilon=2.0, **options):
    predictor, rng = BayesMixture(HYPOTHESES, epsilon, **options), np.random.default_rng(seed)
    for _ in range(rounds):
        ask(predictor, 3, rng)
    return predictor


def test_it_is_the_default_beyond_twenty_hypotheses_and_not_below():
    assert BayesMixture(HYPOTHESES, 1.0).state()["design"] == "adaptive"
    assert BayesMixture(named(LAWS.probabilities[:20]), 1.0).state()["design"] == "design"


def test_it_asks_about_the_rivals_that_are_left():
    """Of two that are left, the sets asked tell nearly as much as their own set does."""
    rivals = np.full(24, -40.0)
    rivals[[5, 9]] = np.log(0.5)
    chosen = adaptive_design(LAWS, 1.0, rivals, 1)
    apart = 1 - affinities(chosen)[5, 9]
    best = 1 - affinities(Design(LAWS, 1.0, ["pair/5/9"]))[5, 9]
    at_large = 1 - affinities(adaptive_design(LAWS, 1.0, UNIFORM, 1))[5, 9]
    assert apart > 0.95 * best
    assert apart > 4 * at_large


def test_reports_say_more_than_a_bit_at_large_epsilon():
    assert [classes_for(e) for e in (0.1, 0.5, 1.0, 2.0, 3.0, 4.0, 700.0)] == [
        2,
        2,
        2,
        2,
        6,
        16,
        16,
    ]
    one, many = (adaptive_design(LAWS, e, UNIFORM, 1) for e in (1.0, 4.0))
    assert {q.channel.classes for q in one.queries} == {2}
    assert max(q.channel.classes for q in many.queries) > 8
    bits = Design(LAWS, 4.0, [f"ovr/{j}" for j in range(24)])
    apart = [1 - affinities(d)[np.triu_indices(24, 1)].mean() for d in (bits, many)]
    assert apart[1] > 2 * apart[0]


def test_equal_laws_and_any_epsilon_give_queries():
    twins = Laws(np.tile(LAWS.probabilities[:1], (24, 1)))
    for laws in (LAWS, twins, Laws(np.eye(24))):
        for epsilon in (1e-6, 1.0, 30.0, 700.0):
            design = adaptive_design(laws, epsilon, UNIFORM, 1)
            assert np.isfinite(design.log_law[design.law > 0]).all()
            assert 1 <= len(design.queries) <= 8


def test_regions_are_the_largest_of_linear_scores_and_names_keep_them():
    coefficients = np.random.default_rng(1).integers(-127, 128, (5, 24)).astype(float)
    coefficients[0, 0] = 127
    scores = coefficients @ (LAWS.probabilities - LAWS.mean)
    assert regions(LAWS, 5, as_code(coefficients)).tolist() == scores.argmax(axis=0).tolist()
    assert set(regions(LAWS, 2, as_code(np.zeros((2, 24)))).tolist()) == {0}


def test_each_round_asks_from_the_reports_before_it_and_from_nothing_else():
    one, other = after(3), after(3)
    assert one.design().names == other.design().names
    assert one.design(round=1).names != one.design(round=3).names
    changed = after(2)
    ask(changed, 3, np.random.default_rng(9))
    assert changed.design(round=3).names == one.design(round=3).names
    assert changed.design(round=4).names != one.design(round=4).names


def test_a_late_report_does_not_change_what_its_round_asked():
    predictor = after(3)
    names = predictor.design(round=3).names
    predictor.update(LocalReports(1, np.array([16]), np.array([0])))
    assert predictor.design(round=3).names == names


def test_a_stored_state_gives_the_same_predictions_and_the_same_next_queries():
    """Also where another machine's climb would end elsewhere: what was asked is stored."""
    predictor = after(5)
    state = json.loads(json.dumps(predictor.state()))
    restored = BayesMixture(HYPOTHESES, 2.0)
    restored.restore(state)
    assert restored.predict().tobytes() == predictor.predict().tobytes()
    assert restored.mixture.tobytes() == predictor.mixture.tobytes()
    assert restored.state() == predictor.state()
    for one in (restored, predictor):
        ask(one, 3, np.random.default_rng(7))
        one.settle(5)
    assert json.dumps(restored.state()) == json.dumps(predictor.state())
    assert len(state["queries"]) == 5
    assert [key.split()[0] for key in predictor.state()["queries"]] == ["5", "6"]


@pytest.mark.parametrize("change", [{"queries": {}}, {"contexts": {}}])
def test_a_state_without_what_was_asked_is_refused(change):
    with pytest.raises(ValueError, match="state"):
        BayesMixture(HYPOTHESES, 2.0).restore(after(2).state() | change)


def test_reports_to_another_rounds_queries_teach_nothing():
    predictor = after(2)
    intake = Intake(predictor, 3)
    now, before = predictor.query_of(3, "c"), predictor.query_of(2, "c")
    assert now != before
    for number in (before, now % 16, now + 16, -1, 10**9):
        assert intake.take("c", number, 0) is Rejection.WRONG_QUERY
    weights = predictor.log_weights.copy()
    for number, round in (
        (before, 3),
        (now, 2),
        (now + 16, 4),
        (16 * 9, 9),
        (now - now % 16 + 15, 3),
    ):
        with pytest.raises(InvalidReply):
            predictor.update(LocalReports(round, np.array([number]), np.array([0])))
    assert np.array_equal(predictor.log_weights, weights)
