"""Queries that adapt, through Flower's own messages, the ledger and the guard."""

import json

import numpy as np
import pytest
from federation import FRUIT, basket, grid_of
from flwr.clientapp import ClientApp

from flwr_kld import Reference
from flwr_kld.clients import answer_predictor_queries
from flwr_kld.ledger import Budget, Ledger
from flwr_kld.predictors import BayesMixture, Hypotheses
from flwr_kld.strategies import PrivatePredictor

CANDIDATES = Hypotheses(
    {
        f"f{j}": Reference.from_probabilities(FRUIT, law)
        for j, law in enumerate(np.random.default_rng(2).dirichlet(np.ones(4), 24))
    }
)


def app():
    made = ClientApp()
    answer_predictor_queries(made, basket, FRUIT)
    return made


def predictor(**options):
    return PrivatePredictor(BayesMixture(CANDIDATES, epsilon=2.0), **options)


def test_rounds_ask_anew_and_every_client_answers():
    learning, grid = predictor(), grid_of(app(), 30)
    names = []
    for number in (1, 2, 3):
        report = learning.ask(grid)
        assert (report.cohort.survivors, report.cohort.dropouts) == (30, {})
        names.append(learning.predictor.design(round=number).names)
    assert names[0] != names[1] != names[2]
    assert sum(report.reading.mixture.values()) == pytest.approx(1)


def test_a_report_says_when_no_candidate_fits():
    lopsided = {f"only {i}": np.where(np.arange(4) == i, 0.97, 0.01) for i in (2, 3)}
    laws = {name: Reference.from_probabilities(FRUIT, law) for name, law in lopsided.items()}
    for epsilon, clients, refuted in ((8.0, 60, True), (0.5, 4, False)):  # 4 reports: e² at most
        learning = PrivatePredictor(BayesMixture(Hypotheses(laws), epsilon))
        assert learning.ask(grid_of(app(), clients)).reading.refuted is refuted


def test_a_restart_from_the_ledger_predicts_the_same_and_asks_the_same(tmp_path):
    ledger = Ledger(f"sqlite:///{tmp_path}/drift.db")
    ledger.set_budget(Budget(9.0, 0.0, window_days=30, protects="client"))
    learning, grid = predictor(ledger=ledger), grid_of(app(), 30)
    for _ in range(2):
        learning.ask(grid)
    again = predictor(ledger=ledger)
    assert again.predictor.predict().tobytes() == learning.predictor.predict().tobytes()
    assert again.predictor.design(round=3).names == learning.predictor.design(round=3).names
    assert json.dumps(again.predictor.state()["rounds"]) == json.dumps(
        learning.predictor.state()["rounds"]
    )
    assert again.ask(grid).round == 3
