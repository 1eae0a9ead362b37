"""Boxes and rows that are not right are left out by reason, and no check is answered twice."""

import json

import numpy as np
import pytest
from federation import app_of
from flwr.app import ConfigRecord, Message, RecordDict
from sealed_federation import AGGREGATOR, KEY, WatchedGrid, federation, monitor, on_request
from trust.vector_forms import claim

from flwr_kld.clients import AggregatorLimits
from flwr_kld.common.errors import CheckFailed
from flwr_kld.kernel.channels import seal
from flwr_kld.strategies import WholeClients
from flwr_kld.trust.sealing import SealContext
from flwr_kld.trust.terms import Terms

NOT_OPENED = (
    "rejected by the aggregator: NotOpened: the sealed counts were changed, or sealed for another "
    "check, sender or key"
)


DUPLICATED = "rejected by the aggregator: Duplicated: the same sealed counts under two names"


def test_a_box_of_an_earlier_check_does_not_open():
    grid = federation()
    monitor().check(grid)
    (earlier,) = grid.requests()
    grid.meddle = on_request(
        lambda c: c["numbers"].update({"1003:0": earlier.content["numbers"]["1003:0"]})
    )
    assert monitor().check(grid).cohort.dropouts == {NOT_OPENED: 1}


def test_a_box_does_not_open_for_another_sender():
    def swap(content: RecordDict) -> None:
        sealed = content["numbers"]
        sealed["1003:0"], sealed["1004:0"] = sealed["1004:0"], sealed["1003:0"]

    report = monitor().check(federation(meddle=on_request(swap)))
    assert (report.cohort.survivors, report.cohort.dropouts) == (18, {NOT_OPENED: 2})


@pytest.mark.parametrize("name", ["1003:1", "1004:0"])
def test_a_box_under_two_names_is_left_out_under_both(name):
    def double(content: RecordDict) -> None:
        content["numbers"][name] = content["numbers"]["1003:0"]

    grid = federation(meddle=on_request(double))
    if name == "1004:0":
        assert monitor().check(grid).cohort.dropouts == {DUPLICATED: 2}
        return
    with pytest.raises(CheckFailed, match="numbers"):
        monitor().check(grid)
    said = json.loads(grid.received[-1].content["published"]["rejected"])
    assert said == dict.fromkeys(["1003:0", name], DUPLICATED.partition(": ")[2])


@pytest.mark.parametrize(
    ("name", "key", "value", "message"),
    [
        (
            "terms",
            "guarantee",
            claim(epsilon=9.0),
            "CohortTooSmall: 0",
        ),
        ("terms", "plan", "x", "CohortTooSmall: 0"),
        ("terms", "cells", [5], "CohortTooSmall: 0"),
        ("terms", "cells", [0], "cells"),
        ("terms", "cells", [2**24] * 2, "cells"),
        ("terms", "noise", "null", "WrongAggregator"),
        ("terms", "noise", "[" * 10000, "noise"),
        ("order", "least", "many", "least"),
        ("numbers", "1003:0", "text", "bytes"),
    ],
)
def test_a_server_that_changes_the_request_is_refused(name, key, value, message):
    grid = federation(meddle=on_request(lambda c: c[name].update({key: value})))
    with pytest.raises(CheckFailed, match=message):
        monitor().check(grid)


def lying(values, dtype="<i4", **trust):
    """Client 1000 seals these counts, properly."""
    honest = app_of(aggregator=KEY.public)

    def app(message: Message, context):
        reply = honest(message, context)
        if context.node_id == 1000 and "numbers" in reply.content:
            terms = Terms.from_config(message.content["terms"])
            context_of = SealContext(context.run_id, terms.fingerprint, "1000:0")
            raw = np.asarray(values).astype(dtype).tobytes()
            reply.content["numbers"]["numbers"] = [seal(KEY.public, raw, context_of.to_bytes())]
        return reply

    return monitor(20.0, trust).check(federation(app))


@pytest.mark.parametrize(
    ("values", "options", "reason"),
    [
        ([1, 2, -3, 4, 0, 0, 0], {}, "counts must not be negative"),
        ([2**31 - 1] * 6 + [0], {}, "counts exceed the most records that a client may have"),
        ([1, 2, 3], {}, "an answer has the wrong shape: one number each is expected"),
        ([1, 2, 3, 4, 5, 6], {}, "an answer has the wrong shape: one number each is expected"),
        (
            [101, 0, 0, 0, 0, 0, 0],
            {"protects": WholeClients(100)},
            "counts exceed the most records",
        ),
    ],
)
def test_the_aggregator_leaves_out_rows_that_cannot_be(values, options, reason):
    report = lying(values, **options)
    assert report.cohort.survivors == 19
    ((said, n),) = report.cohort.dropouts.items()
    assert said.startswith(f"rejected by the aggregator: {reason}")
    assert n == 1


def test_a_check_is_answered_once_whatever_is_changed_in_the_second_request():
    monitor(0.1).check(grid := federation())
    (request,) = grid.requests()
    for drop in range(3):
        sealed = dict(list(request.content["numbers"].items())[drop:])
        request.content["numbers"] = ConfigRecord(dict(reversed(sealed.items())))
        reply = grid.again(request)
        assert "AnsweredAlready" in reply["answer"]["answer"]
        assert "published" not in reply


def aggregators_context(grid: WatchedGrid):
    return grid.contexts[AGGREGATOR]


def test_boxes_do_not_open_in_another_run():
    """A server that starts a run anew, so that the aggregator's state is blank."""
    monitor(0.1).check(grid := federation())
    context = aggregators_context(grid)
    context.state, context.run_id = RecordDict(), 2
    answer = grid.again(grid.requests()[0])["answer"]["answer"]
    assert "CohortTooSmall: 0" in answer


def test_a_memory_on_disk_outlives_the_node(tmp_path):
    limits = AggregatorLimits(memory=tmp_path / "checks.db")
    monitor(0.1).check(grid := federation(limits=limits))
    monitor(0.1).check(grid)
    for request in grid.requests()[:2]:
        aggregators_context(grid).state = RecordDict()
        reply = grid.again(request)
        assert "AnsweredAlready" in reply["answer"]["answer"]
    assert monitor(0.1).check(grid).cohort.survivors == 20
