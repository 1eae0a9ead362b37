"""Objects of a wrong type or in a wrong order are refused where they are given, in a sentence."""

import numpy as np
import pandas as pd
import pytest
from flwr.clientapp import ClientApp
from flwr.serverapp.strategy import FedAvg

from flwr_kld import Labels, Reference, Table
from flwr_kld.clients import (
    aggregate_drift_checks,
    answer_drift_queries,
    answer_predictor_queries,
    node_records,
)
from flwr_kld.clients.handwriting import Handwriting
from flwr_kld.integral import FiniteBase, Mollifier, mbde, mollify, project
from flwr_kld.kernel.arguments import instance
from flwr_kld.ledger import Budget, Ledger
from flwr_kld.planner import Setting, forecast
from flwr_kld.predictors import BayesMixture, Hypotheses
from flwr_kld.strategies import (
    KLDrift,
    PlainSum,
    PrivatePredictor,
    SecureSum,
    Statistics,
    Trusted,
    UniformCohort,
    WithDriftChecks,
)
from flwr_kld.views import CheckSeries

DOMAIN = Labels(["a", "b"])
REFERENCE = Reference.from_counts(DOMAIN, [5, 5])
OTHER = Reference.from_counts(DOMAIN, [1, 9])
TRUST = Trusted(1.0)
MONITOR = KLDrift(REFERENCE, TRUST)
SETTING = Setting(clients=9, records=9.0, trust=TRUST)
HYPOTHESES = Hypotheses({"even": REFERENCE, "odd": OTHER})

BASE, BOX = FiniteBase.uniform(DOMAIN), Mollifier.symmetric(1.0)


def monitored(**changes):
    return KLDrift(**{"reference": REFERENCE, "trust": TRUST, "threshold": 0.1, **changes})


def answered(**changes):
    answer_drift_queries(
        **{"app": ClientApp(), "records": node_records, "domain": DOMAIN, **changes}
    )


WRONG = {
    "a size for a cohort": ("UniformCohort", lambda: monitored(cohort=100)),
    "a class for a cohort": ("UniformCohort", lambda: monitored(cohort=UniformCohort)),
    "a text for cells": ("whole number", lambda: monitored(cells="1000")),
    "a number for a population": ("HostedClients", lambda: monitored(population=50)),
    "a rate for an alarm": ("Alarm", lambda: monitored(alarm=0.05)),
    "a name for an aggregation": ("SecureSum", lambda: monitored(aggregation="secure-sum")),
    "a class for an aggregation": ("SecureSum", lambda: monitored(aggregation=PlainSum)),
    "a number for a ledger": ("sqlite:///", lambda: monitored(ledger=5)),
    "a budget for its name": ("name", lambda: monitored(budget=Budget(1.0, 1e-6, 30.0))),
    "a number for a truth value": (
        "True or False", lambda: WithDriftChecks(FedAvg(), MONITOR, show_model=1),
    ),
    "a name for a trust model": ("Trusted", lambda: monitored(trust="trusted")),
    "an epsilon for a trust model": ("Trusted", lambda: monitored(trust=1.0)),
    "a domain for a reference": ("Reference", lambda: monitored(reference=DOMAIN)),
    "an aggregation for a trust model": ("Trusted", lambda: monitored(trust=SecureSum())),
    "a reference for a domain": ("Domain", lambda: Statistics(REFERENCE, TRUST)),
    "a monitor for a strategy": ("KLDrift", lambda: WithDriftChecks(MONITOR, FedAvg())),
    "a number for a function": (
        "on_report", lambda: WithDriftChecks(FedAvg(), MONITOR, on_report=1),
    ),
    "hypotheses for a predictor": ("BayesMixture", lambda: PrivatePredictor(HYPOTHESES)),
    "a list for hypotheses": ("Hypotheses", lambda: BayesMixture([REFERENCE], 1.0)),
    "records for their loader": ("node_records", lambda: answered(records=["a", "b"])),
    "a reference for the records' domain": ("reference.domain", lambda: answered(domain=REFERENCE)),
    "a truth value for keys": ("PinnedByNode", lambda: answered(secure_sum=True)),
    "a text for a key": ("key", lambda: answered(aggregator="0" * 64)),
    "ids for their loader": ("record_ids", lambda: answered(record_ids=[1, 2])),
    "a function for an app": ("ClientApp", lambda: answered(app=node_records)),
    "a predictor's records": (
        "records", lambda: answer_predictor_queries(ClientApp(), ["a"], DOMAIN),
    ),
    "a key's bytes": ("AggregatorKey", lambda: aggregate_drift_checks(ClientApp(), key=bytes(32))),
    "a frame before its domain": (
        "come first", lambda: Reference.from_frame(pd.DataFrame({"x": [1]}), Table({"x": ["1"]})),
    ),
    "counts before their domain": ("come first", lambda: Reference.from_counts([1, 2], DOMAIN)),
    "rows for probabilities": (
        "from_frame", lambda: Reference(Table({"x": ["a"]}), pd.DataFrame({"x": ["a"]})),
    ),
    "an epsilon for a budget": ("Budget", lambda: Ledger.set_budget(object(), 10)),
    "a setting first": ("Reference", lambda: forecast(SETTING, REFERENCE)),
    "a monitor for a setting": ("Setting", lambda: forecast(REFERENCE, MONITOR)),
    "a domain for a base": ("Reference", lambda: FiniteBase.of(DOMAIN)),
    "names for a base's domain": ("Domain", lambda: FiniteBase.uniform(["a", "b"])),
    "a reference for a base": ("FiniteBase", lambda: mollify([0, 1], REFERENCE, BOX)),
    "a reference for a base of boosting": ("FiniteBase", lambda: mbde([0, 1], REFERENCE, 1.0)),
    "an epsilon for a box": ("Mollifier", lambda: mollify([0, 1], BASE, 1.0)),
    "an epsilon for a box to stay in": ("Mollifier", lambda: project([1, 1, 1, 1], BASE, 1.0)),
    "a reference for a base to stay near": ("FiniteBase", lambda: project([1], REFERENCE, BOX)),
    "a text for a yes": (
        "True or False",
        lambda: Handwriting(np.zeros((1, 8, 8), np.uint8), [0], [0]).patterns(cropped="no"),
    ),
    "a monitor for reports": ("reports", lambda: CheckSeries(MONITOR)),
}  # fmt: skip


@pytest.mark.parametrize(("words", "make"), WRONG.values(), ids=WRONG)
def test_it_is_refused_and_the_sentence_names_what_to_write(words, make):
    with pytest.raises(ValueError, match=words):
        make()


def test_a_class_is_no_object_of_itself():
    assert instance("n", 1, int, "a number") == 1
    with pytest.raises(ValueError, match="number"):
        instance("n", int, int, "a number")
