"""Rounds of a predictor whose labels a trust model adds up: as checks are asked, paid, guarded."""

import numpy as np
import pytest
from federation import FRUIT, REFERENCE, app_of, basket, grid_of
from flwr.app import ConfigRecord
from split_federation import NODES as PEOPLE
from split_federation import PAIR, federation, people

from flwr_kld import Labels, Reference
from flwr_kld.accounting import Budget, BudgetExhausted, Ledger
from flwr_kld.clients import FirstUse, answer_predictor_queries
from flwr_kld.errors import CheckFailed
from flwr_kld.kernel import Unit
from flwr_kld.kernel.vector import ClientRows, SumVector
from flwr_kld.predictors import BayesMixture, Hypotheses
from flwr_kld.strategies import (
    Adjacency,
    Distributed,
    PrivatePredictor,
    SecureSum,
    Trusted,
    TwoAggregators,
)

NOW = Reference.from_probabilities(FRUIT, [0.1, 0.2, 0.3, 0.4])
CANDIDATES = Hypotheses({"as the reference": REFERENCE, "turned round": NOW})
NODES = 40


def rounds(learning, grid, number=4):
    for _ in range(number):
        report = learning.check(grid)
    return report


def test_it_counts_one_label_of_each_client_and_learns():
    learning = PrivatePredictor(CANDIDATES, trust=Trusted(4.0))
    report = rounds(learning, grid_of(nodes=NODES))
    assert report.reading.leader == "turned round"
    assert report.reading.weights["turned round"] > 0.98
    assert (report.cohort.asked, report.cohort.survivors, report.cohort.dropouts) == (
        NODES, NODES, {},
    )  # fmt: skip
    assert (report.round, report.reading.reports) == (4, 4 * NODES)  # of a hundred records each
    assert report.guarantee == Trusted(4.0).guarantee
    assert learning.predictor.select().name == "turned round"


@pytest.mark.parametrize("way", ["two aggregators", "shares"])
def test_nobody_need_be_trusted_with_the_labels(way):
    if way == "two aggregators":
        trust, grid = TwoAggregators(4.0, aggregators=PAIR), federation(people())
        learning = PrivatePredictor(CANDIDATES, trust=trust)
    else:
        trust, grid = (
            Distributed(4.0, min_clients=10),
            grid_of(app_of(secure_sum=FirstUse()), PEOPLE),
        )
        learning = PrivatePredictor(CANDIDATES, trust=trust, aggregation=SecureSum())
    report = rounds(learning, grid)
    assert report.reading.reports == 4 * PEOPLE
    assert report.reading.leader == "turned round"
    assert report.reading.outlasts == 0  # who lies there may have counted any number


@pytest.mark.parametrize("lie", [{1: 10**6}, {1: -300}, {-1: 10**6}, {-1: 2**62}], ids=str)
def test_nothing_is_learnt_of_counts_that_cannot_be_true(lie, monkeypatch):
    """One client's, where nobody sees it: more labels than clients, fewer than none, or any."""
    summand, lies = ClientRows.summand, [lie]

    def summed(*args, **options):
        own = summand(*args, **options)
        told = own._values.copy()
        for place, number in lies.pop().items() if lies else ():
            told[place] = number
        return SumVector(told)

    monkeypatch.setattr(ClientRows, "summand", summed)
    trust, secure = Distributed(4.0, min_clients=10), SecureSum()
    learning = PrivatePredictor(CANDIDATES, trust=trust, aggregation=secure)
    grid, before = grid_of(app_of(secure_sum=FirstUse())), learning.predictor.weights
    with pytest.raises(CheckFailed, match="contradict"):
        learning.check(grid)
    np.testing.assert_array_equal(learning.predictor.weights, before)
    assert learning.check(grid).reading.reports == 20


def test_rounds_are_paid_for_and_what_was_learnt_outlives_the_process(tmp_path):
    url = f"sqlite:///{tmp_path}/drift.db"
    Ledger(url).set_budget(Budget(3.0, 0.0, window_days=30, unit=Unit.RECORD))
    first = PrivatePredictor(CANDIDATES, trust=Trusted(1.0), ledger=url)
    before = rounds(first, grid_of(nodes=NODES), 2)
    assert Ledger(url).spent().epsilon == pytest.approx(2.0)
    second = PrivatePredictor(CANDIDATES, trust=Trusted(1.0), ledger=url)
    np.testing.assert_array_equal(second.predictor.log_weights, first.predictor.log_weights)
    after = rounds(second, grid_of(nodes=NODES), 1)
    assert (after.round, after.reading.reports) == (3, before.reading.reports + NODES)
    with pytest.raises(BudgetExhausted):
        second.check(grid_of(nodes=NODES))


@pytest.mark.parametrize("learner", ["counts", "reports"])
def test_what_was_learnt_of_other_labels_or_laws_is_not_taken_up(learner, tmp_path):
    """A stored state goes on with the candidates that it was learnt of, not with their names."""
    url = f"sqlite:///{tmp_path}/drift.db"
    Ledger(url).set_budget(Budget(9.0, 0.0, window_days=30))

    def learning(names, *laws):
        of = [Reference.from_probabilities(Labels(names), law) for law in laws]
        candidates = Hypotheses(dict(zip("ab", of, strict=True)))
        if learner == "counts":
            return PrivatePredictor(candidates, trust=Trusted(1.0), ledger=url)
        return PrivatePredictor(BayesMixture(candidates, epsilon=1.0), ledger=url)

    names, laws = FRUIT.names, ([0.4, 0.3, 0.2, 0.1], [0.1, 0.2, 0.3, 0.4])
    app = app_of()
    answer_predictor_queries(app, basket, FRUIT)
    learning(names, *laws).check(grid_of(app))
    with pytest.raises(ValueError, match="set"):
        learning(names[::-1], *laws)
    with pytest.raises(ValueError, match="changed"):
        learning(names, *laws[::-1])
    assert learning(names, *laws).rounds == 1


def test_a_client_that_counts_more_than_its_label_is_left_out():
    honest = app_of()

    def liar(message, context):
        reply = honest(message, context)
        if context.node_id == 1000:
            counts = np.array([2, 0, 0, 0, 0, 0], "<i4").tobytes()
            reply.content["numbers"] = ConfigRecord({"numbers": [counts]})
        return reply

    learning = PrivatePredictor(CANDIDATES, trust=Trusted(4.0))
    report = learning.check(grid_of(liar, NODES))
    assert report.cohort.survivors == report.reading.reports == NODES - 1
    assert sum(report.cohort.dropouts.values()) == 1


def test_candidates_of_another_domain_are_refused():
    other = Labels(["tea", "coffee"])
    laws = {"a": [0.5, 0.5], "b": [0.1, 0.9]}
    candidates = {name: Reference.from_probabilities(other, law) for name, law in laws.items()}
    learning = PrivatePredictor(Hypotheses(candidates), trust=Trusted(1.0))
    with pytest.raises(CheckFailed, match="domain"):
        learning.check(grid_of(nodes=NODES))


@pytest.mark.parametrize(
    ("predictor", "options", "message"),
    [
        (CANDIDATES, {}, "with trust="),
        (BayesMixture(CANDIDATES, 1.0), {"trust": Trusted(1.0)}, "the trust model says"),
        (BayesMixture(CANDIDATES, 1.0), {"aggregation": SecureSum()}, "needs trust="),
        (CANDIDATES, {"trust": 1.0}, "trust"),
        (BayesMixture(CANDIDATES, 1.0), {"context": 3}, "context"),
        (CANDIDATES, {"trust": Trusted(1.0, adjacency=Adjacency.ADD_REMOVE)}, "REPLACE_ONE"),
        (
            CANDIDATES,
            {"trust": Trusted(1.0, adjacency=Adjacency.ADD_REMOVE, clip=5)},
            "record-level",
        ),
        (CANDIDATES, {"trust": Distributed(1.0, min_clients=5)}, "SecureSum"),
    ],
)
def test_what_does_not_fit_is_said_at_once(predictor, options, message):
    with pytest.raises((ValueError, TypeError), match=message):
        PrivatePredictor(predictor, **options)
