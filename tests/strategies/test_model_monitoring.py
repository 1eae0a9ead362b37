"""Columns that are predictions: of the model that the server shows, and of no other."""

import numpy as np
import pytest
from federation import grid_of
from flwr.app import Array, ArrayRecord, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp.strategy import FedAvg
from sealed_federation import KEY, federation

from flwr_kld import Binned, Reference, Report, Table
from flwr_kld.clients import FirstUse, answer_drift_queries
from flwr_kld.common.errors import CheckFailed
from flwr_kld.strategies import (
    Distributed,
    KLDrift,
    SecureSum,
    Trusted,
    TrustedAggregator,
    WithDriftChecks,
)

NODES = 8
EACH = 50
TABLE = Table({"input": Binned([0.5]), "prediction": Binned([0.25, 0.5, 0.75])})
REFERENCE = Reference.from_counts(TABLE, {"input": [1, 1], "prediction": [1, 1, 1, 1]})
WAYS = {
    "plain": (Trusted(5.0), None),
    "sum": (Trusted(5.0), SecureSum),
    "shares": (Distributed(5.0, min_clients=4), SecureSum),
    "sealed": (TrustedAggregator(5.0, aggregator=KEY.public), None),
}


def model(prediction: float) -> ArrayRecord:
    return ArrayRecord({"prediction": Array(np.array([prediction]))})


def app(*, with_model: bool = True) -> ClientApp:
    """Records whose predictions are all the model's only number."""

    def predicted(context, arrays):
        return {"input": [0.1] * EACH, "prediction": [arrays["prediction"].numpy().item()] * EACH}

    def recorded(context):
        return {"input": [0.1] * EACH, "prediction": [0.1] * EACH}

    found = ClientApp()
    load = predicted if with_model else recorded
    answer_drift_queries(
        found, load, TABLE, secure_sum=FirstUse(), aggregator=KEY.public, with_model=with_model
    )
    return found


def grid(way: str, **options):
    return (federation if way == "sealed" else grid_of)(app(**options))


def monitor(way: str) -> KLDrift:
    trust, kind = WAYS[way]
    return KLDrift(REFERENCE, trust, aggregation=kind and kind())


def largest(report) -> str:
    """Name the bin of predictions that grew most."""
    bars = report.columns["prediction"].histogram.bars
    return max(bars, key=lambda bar: bar[2] - bar[1])[0]


@pytest.mark.parametrize("way", WAYS)
def test_predictions_are_those_of_the_model_that_is_shown(way):
    checks, nodes = monitor(way), grid(way)
    assert largest(checks.check(nodes, model=model(0.3))) == "[0.25, 0.5)"
    assert largest(checks.check(nodes, model=model(0.6))) == "[0.5, 0.75)"


@pytest.mark.parametrize("way", WAYS)
def test_clients_answer_no_check_that_shows_no_model(way):
    nodes = grid(way)
    monitor(way).check(nodes, model=model(0.3))  # and keep none from an earlier check
    with pytest.raises(CheckFailed, match="sent"):
        monitor(way).check(nodes)


@pytest.mark.parametrize("way", WAYS)
def test_clients_that_need_no_model_do_without(way):
    report = monitor(way).check(grid(way, with_model=False), model=model(0.9))
    assert largest(report) == "< 0.25"


def test_beside_training_it_is_the_model_of_the_round():
    """Each round trains one more step; each check's predictions are that round's."""
    nodes = app()

    @nodes.train()
    def train(message, context):
        step = message.content["arrays"]["prediction"].numpy() + 0.25
        content = {
            "arrays": ArrayRecord({"prediction": Array(step)}),
            "metrics": MetricRecord({"num-examples": EACH}),
        }
        return Message(RecordDict(content), reply_to=message)

    strategy = WithDriftChecks(
        FedAvg(fraction_evaluate=0.0), monitor("plain"), every=1, show_model=True
    )
    strategy.start(grid_of(nodes, NODES), model(0.1), num_rounds=2)
    found = [largest(report) for report in strategy.reports.values()]
    assert found == ["[0.25, 0.5)", "[0.5, 0.75)"]


def test_the_report_says_how_well_predictions_fit():
    """Every other record is an event, and the model says 0.9: right in half of them."""
    table = Table(
        {"prediction": Binned([0.2, 0.4, 0.6, 0.8]), "label": ["no", "yes"]},
        interactions=[("prediction", "label")],
    )

    def predicted(context, arrays):
        shown = arrays["prediction"].numpy().item()
        return {"prediction": [shown] * EACH, "label": ["no", "yes"] * (EACH // 2)}

    nodes = ClientApp()
    answer_drift_queries(nodes, predicted, table, with_model=True)
    reference = Reference.from_counts(table, np.ones(table.size), floor=0.1)
    checks = KLDrift(reference, Trusted(50.0))
    report = checks.check(grid_of(nodes, NODES), model=model(0.9))
    found = report.columns["prediction × label"].calibration
    assert found.accuracy.value == pytest.approx(0.5, abs=0.05)
    assert found.error.value == pytest.approx(0.4, abs=0.05)
    assert report.columns["label"].calibration is None
    assert Report.from_json(report.to_json()) == report
