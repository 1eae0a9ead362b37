"""A lying server shows clients of one sum different models: nobody counts with another's."""

from contextlib import suppress

import numpy as np
import pytest
import sealed_federation
import split_federation
from federation import grid_of
from flwr.app import Array, ArrayRecord
from flwr.clientapp import ClientApp
from sealed_federation import KEY

from flwr_kld import Binned, Reference, Table
from flwr_kld.clients import answer_drift_queries
from flwr_kld.clients.shown_model import store_model
from flwr_kld.common.errors import CheckFailed
from flwr_kld.strategies import (
    Distributed,
    KLDrift,
    SecureSum,
    Trusted,
    TrustedAggregator,
    TwoAggregators,
)
from flwr_kld.trust.terms import NO_MODEL, model_fingerprint

VICTIM = 1007
TABLE = Table({"prediction": Binned([0.25, 0.5, 0.75]), "label": ["no", "yes"]})
REFERENCE = Reference.from_counts(TABLE, {"prediction": [1] * 4, "label": [1, 1]})
WAYS = {
    "plain": (Trusted(1.0), None),
    "sum": (Trusted(1.0), SecureSum),
    "shares": (Distributed(1.0, min_clients=5), SecureSum),
    "sealed": (TrustedAggregator(1.0, aggregator=KEY.public), None),
    "split": (TwoAggregators(1.0, aggregators=split_federation.PAIR), None),
}


def model(*weights: float, name: str = "w") -> ArrayRecord:
    return ArrayRecord({name: Array(np.array(weights))})


HONEST, CONSTANT = model(1.0, 0.0), model(0.0, -9.0)
PRINT = model_fingerprint(HONEST)


def rows(context, arrays):
    weight, bias = arrays["w"].numpy()
    return {
        "prediction": 1 / (1 + np.exp(-(weight * np.arange(20) + bias))),
        "label": ["no", "yes"] * 10,
    }


def app() -> ClientApp:
    found = ClientApp()
    answer_drift_queries(
        found, rows, TABLE,
        secure_sum=split_federation.Members(), aggregator=KEY.public,
        aggregators=split_federation.PAIR, with_model=True,
    )  # fmt: skip
    return found


def check(way: str, lie, threshold=None):
    """Run a check, its messages changed by `lie`; return what clients said, and the report."""
    trust, kind = WAYS[way]
    honest, said = app(), {}

    def client(message, context):
        asked = message.metadata.message_type
        opening = asked != "query.drift_identity" and "terms" in message.content
        lie(message, context)
        reply = honest(message, context)
        if opening:
            said.setdefault(context.node_id, []).append(str(reply.content["answer"]))
        return reply

    where = {"sealed": sealed_federation.federation, "split": split_federation.federation}
    grid = where.get(way, grid_of)(client)
    monitor = KLDrift(REFERENCE, trust, aggregation=kind and kind(), threshold=threshold)
    report = None
    with suppress(CheckFailed):
        report = monitor.check(grid, model=HONEST)
    return said, report


REFUSED = "the model that the server shows is not the one of its terms"


@pytest.mark.parametrize("way", WAYS)
def test_an_honest_check_is_answered_by_all(way):
    said, report = check(way, lambda message, context: None, threshold=0.05)
    assert report.cohort.survivors == report.cohort.asked
    assert not [one for answers in said.values() for one in answers if "refuse" in one.lower()]


@pytest.mark.parametrize("way", WAYS)
def test_other_models_than_the_questions_are_not_counted_with(way):
    """All but one are shown a constant model: the sum would tell of the victim alone."""

    def lie(message, context):
        if "model" in message.content and context.node_id != VICTIM:
            message.content["model"] = CONSTANT

    said, report = check(way, lie)
    assert report is None
    assert all(REFUSED in one for node, (one, *_) in said.items() if node != VICTIM)
    assert REFUSED not in said[VICTIM][0]


@pytest.mark.parametrize("way", [way for way in WAYS if way != "plain"])
def test_who_is_told_another_model_and_its_fingerprint_is_in_no_sum_with_the_others(way):
    """A client of its own question seals and signs for that question alone."""

    def lie(message, context):
        if "model" in message.content and context.node_id == VICTIM:
            message.content["model"] = CONSTANT
            for record in message.content.config_records.values():
                if record.get("model") == PRINT:
                    record["model"] = model_fingerprint(CONSTANT)

    said, report = check(way, lie)
    assert VICTIM in said
    assert report is None or report.cohort.survivors == report.cohort.asked - 1


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("lie", ["no model", "model not announced", "not a fingerprint"])
def test_a_model_and_its_fingerprint_come_together(way, lie):
    def change(message, context):
        for record in message.content.config_records.values():
            if lie != "no model" and record.get("model") == PRINT:
                record["model"] = NO_MODEL if lie == "model not announced" else "x" * 64
        if lie == "no model":
            message.content.pop("model", None)

    said, report = check(way, change)
    assert report is None
    wanted = "model is out of range" if lie == "not a fingerprint" else REFUSED
    assert all(wanted in one for (one, *_) in said.values())


@pytest.mark.parametrize("way", ["sum", "shares"])
def test_a_model_that_is_swapped_between_the_phases_of_a_sum_is_not_counted_with(way):
    """Another question puts its model in the place of that which the sum agreed to."""
    swapped = []

    def lie(message, context):
        later = "phase" in message.content and "terms" not in message.content
        if later and context.node_id == VICTIM and not swapped:
            other = type(message.content)({"model": CONSTANT})
            store_model(other, context)
            swapped.append(message)

    _, report = check(way, lie)
    assert swapped
    assert report is None or report.cohort.survivors < report.cohort.asked


@pytest.mark.parametrize("way", WAYS)
def test_both_halves_are_asked_about_one_model(way):
    """A second exchange that shows another model, as its question says, is another question."""
    asked = []

    def lie(message, context):
        for record in message.content.config_records.values():
            if "model" in record:
                asked.append(record["model"])

    _, report = check(way, lie, threshold=0.05)
    assert report is not None
    assert set(asked) == {PRINT}


def test_a_fingerprint_covers_all_that_a_loader_sees():
    one = model(1.0, 2.0)
    others = [
        model(1.0, 2.5),
        model(1.0, 2.0, name="v"),
        model(1.0),
        ArrayRecord({"w": Array(np.array([[1.0, 2.0]]))}),
        ArrayRecord({"w": Array(np.array([1.0, 2.0], np.float32))}),
        ArrayRecord({"w": Array(np.array([1.0, 2.0])), "x": Array(np.array([0.0]))}),
        ArrayRecord({"x": Array(np.array([0.0])), "w": Array(np.array([1.0, 2.0]))}),
        ArrayRecord(),
    ]
    prints = [model_fingerprint(each) for each in (one, *others)]
    assert len(set(prints)) == len(prints)
    assert model_fingerprint(model(1.0, 2.0)) == prints[0]
