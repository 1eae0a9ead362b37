"""Who is the aggregator, who is a client, and whom clients seal to."""

import json

import pytest
from aggregators import deployed, shared_app
from federation import REFERENCE, app_of
from flwr.app import ConfigRecord, Context, Message, RecordDict
from flwr.clientapp import ClientApp
from sealed_federation import AGGREGATOR, KEY, WatchedGrid, federation, monitor, on_request

from flwr_kld.clients import AggregatorKey, aggregate_drift_checks
from flwr_kld.common.errors import CheckFailed
from flwr_kld.strategies import (
    Distributed,
    KLDrift,
    PlainSum,
    SecureSum,
    Trusted,
    TrustedAggregator,
    TwoAggregators,
)
from flwr_kld.strategies.sealed_sum import SealedSum
from flwr_kld.strategies.split_sum import SplitSum
from flwr_kld.trust.terms import AggregatorNoise


def test_one_app_serves_both_roles_by_node_config(key_file):
    report = monitor().check(grid := deployed(shared_app(), {"drift-key": key_file}))
    assert (report.cohort.asked, report.cohort.survivors) == (20, 20)
    asked = {m.metadata.dst_node_id for m in grid.sent if m.metadata.message_type == "query.drift"}
    assert asked == set(range(1000, 1020))


def test_the_aggregators_node_answers_no_other_check(key_file):
    grid = deployed(shared_app(), {"drift-key": key_file})
    report = KLDrift(REFERENCE, Trusted(3.0)).check(grid)
    assert report.cohort.survivors == 20
    assert report.cohort.dropouts == {
        "refused: this node does not host the client that is asked": 1
    }


@pytest.mark.parametrize(
    "config",
    [{}, {"drift-key": "key"}, {"drift-key": "/nowhere/key"}, {"drift-key": "/etc/hostname"}],
)
def test_an_aggregator_without_its_key_is_no_client_either(config, aggregator_is):
    with pytest.raises(CheckFailed, match="key"):
        monitor().check(deployed(shared_app(), config))
    failure = r"the aggregator refused: the aggregator's key (cannot be read|must be named)"
    aggregator_is(AGGREGATOR)
    with pytest.raises(CheckFailed, match=failure):
        monitor().check(deployed(shared_app(), config))


def test_a_node_that_is_no_aggregator_refuses_to_be_one(key_file, aggregator_is):
    grid = deployed(shared_app(), {"drift-key": key_file})
    aggregator_is(1003)
    with pytest.raises(CheckFailed, match="aggregator"):
        monitor().check(grid)


@pytest.mark.parametrize(
    "proof",
    [None, b"", bytes(32), KEY.public, "proof", KEY.proof(AggregatorKey.generate().public)],
    ids=["none", "empty", "zeros", "public", "text", "another"],
)
def test_a_client_that_names_the_aggregators_key_is_not_the_aggregator(proof):
    """Everybody knows the public key; whoever is heard last would publish what it likes."""
    people, aggregator, asked = app_of(aggregator=KEY.public), ClientApp(), set()
    aggregate_drift_checks(aggregator, key=KEY)
    liar = AGGREGATOR + 1

    def run(message: Message, context: Context) -> Message:
        asked.add((context.node_id, message.metadata.message_type))
        if context.node_id == liar:
            said = {"answer": KEY.public.hex()} | ({} if proof is None else {"proof": proof})
            return Message(RecordDict({"answer": ConfigRecord(said)}), reply_to=message)
        return (aggregator if context.node_id == AGGREGATOR else people)(message, context)

    report = monitor().check(WatchedGrid(run, 22))
    assert (report.cohort.asked, report.cohort.survivors) == (20, 20)
    assert {kind for node, kind in asked if node == liar} == {"query.drift_role"}


ONE = TrustedAggregator(1.0, aggregator=KEY.public)
TWO = TwoAggregators(1.0, aggregators=(KEY.public, AggregatorKey.generate().public))
SHARES = Distributed(1.0, min_clients=5)


@pytest.mark.parametrize(
    ("trust", "aggregations", "message"),
    [
        (
            ONE,
            [PlainSum, SecureSum, SplitSum],
            "SealedSum",
        ),
        (TWO, [PlainSum, SecureSum, SealedSum], "SplitSum"),
        (SHARES, [lambda: None, PlainSum], "SecureSum"),
        (SHARES, [SealedSum], "SealedSum"),
        (Trusted(1.0), [SealedSum], "SealedSum"),
        (Trusted(1.0), [SplitSum], "TwoAggregators"),
    ],
)
def test_pairs_that_keep_no_promise_fail_at_construction(trust, aggregations, message):
    for aggregation in aggregations:
        with pytest.raises(ValueError, match=message):
            KLDrift(REFERENCE, trust, aggregation=aggregation())


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"aggregator": b"short"}, "AggregatorKey"),
        ({"aggregator": bytes(32)}, "point"),
        ({"protects": 5}, "protects"),
    ],
)
def test_contradictions_fail_at_construction(arguments, message):
    with pytest.raises(ValueError, match=message):
        TrustedAggregator(**{"epsilon": 1.0, "aggregator": KEY.public, **arguments})


def test_a_client_pins_a_key_that_protects():
    with pytest.raises(ValueError, match="order"):
        app_of(aggregator=bytes(32))


def test_a_client_seals_to_no_other_key_than_the_pinned_one():
    other = AggregatorKey.generate()
    trust = TrustedAggregator(1.0, aggregator=other.public)
    with pytest.raises(CheckFailed, match="WrongAggregator"):
        KLDrift(REFERENCE, trust).check(federation(key=other))


def test_an_aggregator_opens_nothing_for_another_key():
    def change(content: RecordDict) -> None:
        told = AggregatorNoise((AggregatorKey.generate().public.hex(),))
        content["terms"]["noise"] = told.to_json()

    with pytest.raises(CheckFailed, match="WrongAggregator"):
        monitor().check(federation(meddle=on_request(change)))


def test_clients_that_pinned_nobody_seal_nothing():
    with pytest.raises(CheckFailed, match="trusted-aggregator"):
        monitor().check(federation(app_of()))


def test_a_client_is_asked_for_one_box_a_check():
    """However often a server asks, and by whatever number of a member."""
    monitor().check(grid := federation())
    first = next(m for m in grid.sent if m.metadata.message_type == "query.drift")
    reply = grid.again(first)
    assert "AnsweredAlready" in reply["answer"]["answer"]
    assert not reply["numbers"]
    first.content["terms"]["check"] = "anew"
    first.content["members"]["members"] = [0, 1, 2]
    reply = grid.again(first)
    assert len(reply["numbers"]["numbers"]) == 1
    assert json.loads(reply["answer"]["answer"])["answered"] == [0]
