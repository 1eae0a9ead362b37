"""Replies that refuse or lie are left out by reason, and nothing that a client holds is quoted."""

import logging
from dataclasses import replace

import numpy as np
import pytest
from federation import FRUIT, REFERENCE, app_of, basket, grid_of
from flwr.app import ConfigRecord, MetricRecord
from flwr.clientapp import ClientApp

from flwr_kld import Labels, Reference
from flwr_kld.clients import answer_drift_queries
from flwr_kld.common.errors import CheckFailed
from flwr_kld.strategies import KLDrift, Trusted
from flwr_kld.trust.envelopes import Answer


def test_another_domain_is_refused_by_the_client():
    other = Reference.from_probabilities(Labels(["a", "b"]), [0.5, 0.5])
    with pytest.raises(CheckFailed, match="domain"):
        KLDrift(other, Trusted(epsilon=1.0)).check(grid_of())


class _Odd:
    """Raises whatever is done with it."""

    def __array__(self, *_):
        raise RuntimeError("patient with measles")

    def __eq__(self, _):
        raise RuntimeError("patient with measles")

    def __hash__(self):
        return hash("apple")

    __repr__ = __float__ = __array__


@pytest.mark.parametrize("record", ["zucchini", None, float("nan"), 7, [1, 2], {}, b"x", _Odd()])
def test_a_record_that_does_not_fit_changes_nothing_but_counts(record):
    """Neighbouring federations: what a report says besides noised numbers must be the same."""

    def odd(context):
        records = basket(context)
        return [record, *records[1:]] if context.node_config["partition-id"] == 0 else records

    told = []
    for records in (basket, odd):
        report = KLDrift(REFERENCE, Trusted(epsilon=0.1)).check(grid_of(app_of(records)))
        told.append(
            (
                report.cohort.asked,
                report.cohort.survivors,
                report.cohort.dropouts,
                report.reading.records,
                report.compared.cells,
            )
        )
    assert told[0] == told[1] == (20, 20, {}, 2000, 6)


def test_what_a_loader_raises_never_leaves_the_client(caplog):
    def broken(_):
        raise KeyError("patient has measles")

    seen = []
    app = app_of(broken)

    def spy(message, context):
        reply = app(message, context)
        seen.append(repr(reply))
        return reply

    grid = grid_of(spy)
    with caplog.at_level(logging.DEBUG), pytest.raises(CheckFailed) as failure:
        KLDrift(REFERENCE, Trusted(epsilon=1.0)).check(grid)
    assert "could not be loaded (KeyError)" in str(failure.value)
    for text in (*seen, str(failure.value), caplog.text):
        assert "measles" not in text


def test_what_odd_records_raise_while_read_never_leaves_the_client():
    def odd(context):
        return _Odd() if context.node_config["partition-id"] == 0 else basket(context)

    report = KLDrift(REFERENCE, Trusted(epsilon=1.0)).check(grid_of(app_of(odd)))
    assert report.cohort.survivors == 19
    assert "measles" not in report.to_json()


@pytest.mark.parametrize(
    "spoilt",
    [
        lambda symbols: symbols + 987_654,
        lambda symbols: symbols - FRUIT.size,  # numpy would count from the end
        lambda symbols: symbols - 987_654,
        lambda symbols: symbols.astype(float),
        lambda symbols: symbols > 1,
        lambda symbols: symbols.reshape(-1, 1),
    ],
)
def test_a_symbol_outside_the_domain_is_never_quoted(spoilt):
    class Broken(Labels):
        def encode(self, records):
            return spoilt(super().encode(records))

    def app(message, context):
        broken = ClientApp()
        answer_drift_queries(broken, basket, Broken(FRUIT.names))
        return (broken if context.node_id == 1000 else app_of())(message, context)

    report = KLDrift(REFERENCE, Trusted(epsilon=1.0)).check(grid_of(app))
    assert list(report.cohort.dropouts) == [
        "refused: the domain encodes records to symbols that it does not have"
    ]


def test_what_another_handler_raises_is_reported_by_code_only():
    def crash(message, context):
        raise RuntimeError("measles")

    def one_crashes(message, context):
        run = crash if context.node_id == 1000 else app_of()
        return run(message, context)

    report = KLDrift(REFERENCE, Trusted(epsilon=1.0)).check(grid_of(one_crashes))
    assert report.cohort.dropouts == {"client error (Flower code 2)": 1}


def tampering(change):
    """A federation in which node 1000 changes its reply."""
    honest = app_of()

    def app(message, context):
        reply = honest(message, context)
        if context.node_id == 1000:
            change(reply.content)
        return reply

    return grid_of(app)


def put_counts(values, dtype="<i4"):
    def change(content):
        content["numbers"]["numbers"] = [np.asarray(values, dtype=dtype).tobytes()]

    return change


OTHER_CHECK = Answer("x", [0], [])


NONSENSE = Answer(1, 0, [])


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (put_counts([1, 2, -3, 4, 0, 0, 0]), "counts must not be negative"),
        (put_counts([2**31 - 1] * 6 + [0]), "counts exceed the most records"),
        (put_counts([1, 2, 3, 4, 0, 0], "<i8"), "wrong shape"),
        (put_counts([1, 2, 3]), "wrong shape"),
        (put_counts([[1, 2, 3, 4, 0, 0]] * 2), "wrong shape"),
        (lambda content: content["numbers"].update(numbers="text"), "carries no numbers"),
        (lambda content: content["numbers"].update(numbers=["x"]), "carries no numbers"),
        (lambda content: content["numbers"]["numbers"].append(b""), "carries no numbers"),
        (
            lambda content: content["numbers"].update(numbers=[1, 2, 3, 4, 0, 0]),
            "carries no numbers",
        ),
        (lambda content: content["numbers"].pop("numbers"), "carries no numbers"),
        (lambda content: content.pop("numbers"), "carries no numbers"),
        (
            lambda content: content.update(numbers=MetricRecord({"a": 1})),
            "carries no numbers",
        ),
        (lambda content: content.pop("answer"), "the answer"),
        (lambda content: content.update(answer=ConfigRecord({"answer": []})), "the answer"),
        (lambda content: content.update(answer=ConfigRecord({"answer": "[1]"})), "the answer"),
        (
            lambda content: content.update(answer=ConfigRecord(OTHER_CHECK.to_config())),
            "another check",
        ),
        (
            lambda content: content.update(answer=ConfigRecord(NONSENSE.to_config())),
            "the answer",
        ),
    ],
)
def test_a_bad_reply_is_left_out_by_reason_and_the_rest_counts(change, reason):
    report = KLDrift(REFERENCE, Trusted(epsilon=1.0)).check(tampering(change))
    assert report.cohort.survivors == 19
    assert report.reading.records == 1900
    ((said, n),) = report.cohort.dropouts.items()
    assert said.startswith("invalid reply: ")
    assert reason in said
    assert n == 1


def test_a_refusal_is_quoted_short_and_harmless():
    reasons = ["\x1b[2J" + "x" * 1000]
    refusal = Answer("", [], reasons)
    report = KLDrift(REFERENCE, Trusted(epsilon=1.0)).check(
        tampering(lambda c: c.update(answer=ConfigRecord(refusal.to_config())))
    )
    ((reason, n),) = report.cohort.dropouts.items()
    assert reason.startswith("refused: [2Jxxx")
    assert len(reason) < 220
    assert n == 1


@pytest.mark.parametrize("answered", [[0, 0], [0, 1], [1]])
def test_a_reply_cannot_count_twice_or_for_others(answered):
    honest = app_of()

    def greedy(message, context):
        reply = honest(message, context)
        if context.node_id == 1000:
            answer = Answer.from_config(reply.content["answer"])
            answer = replace(answer, answered=answered)
            reply.content["answer"] = ConfigRecord(answer.to_config())
            counts = np.array([10, 20, 30, 40, 0, 0], "<i4").tobytes()
            reply.content["numbers"] = ConfigRecord({"numbers": [counts] * len(answered)})
        return reply

    report = KLDrift(REFERENCE, Trusted(epsilon=1.0)).check(grid_of(greedy))
    assert (report.cohort.survivors, report.reading.records) == (19, 1900)
