"""Whoever was asked is in the sum, or left out for one reason: in every path, and only once."""

import copy
import json
from collections import Counter

import pytest
from federation import FRUIT, REFERENCE, app_of, basket, grid_of
from flwr.app import Message
from flwr.clientapp import ClientApp
from sealed_federation import KEY, federation, on_request
from sealed_federation import monitor as sealing

from flwr_kld.clients import FirstUse, host_drift_queries
from flwr_kld.common.errors import CheckFailed
from flwr_kld.simulations.in_process_grid import InProcessGrid
from flwr_kld.strategies import (
    Distributed,
    HostedClients,
    KLDrift,
    PlainSum,
    SecureSum,
    Trusted,
)

ODD, SILENT = {1001, 1002}, {1003}
"""Nodes that refuse, and that say nothing."""
PATHS = {
    "plain": (Trusted(1.0), PlainSum),
    "secure": (Trusted(1.0), SecureSum),
    "shares": (Distributed(1.0, min_clients=8), SecureSum),
}


def odd(context):
    if context.node_id in ODD:
        raise OSError("the records of Mrs Smith are not there")
    return basket(context)


def lost(message: Message) -> bool:
    return message.metadata.dst_node_id in SILENT


def adds_up(report) -> None:
    assert report.cohort.asked - report.cohort.survivors == sum(report.cohort.dropouts.values())
    assert all(n > 0 for n in report.cohort.dropouts.values())


@pytest.mark.parametrize("path", PATHS)
def test_each_client_is_left_out_once(path):
    """Also where a check decides by the counts of all."""
    (trust, aggregation), nodes = PATHS[path], 20
    grid = grid_of(app_of(odd, secure_sum=FirstUse()), nodes, lose=lost)
    report = KLDrift(REFERENCE, trust, aggregation=aggregation(), threshold=0.05).check(grid)
    adds_up(report)
    assert (report.cohort.asked, report.cohort.survivors) == (nodes, nodes - 3)
    why = Counter[str]()
    for reason, n in report.cohort.dropouts.items():
        why[reason.split(":")[0]] += n
    assert why == {"refused": 2, "no reply": 1}


def test_each_client_of_an_aggregator_is_left_out_once():
    grid = federation(app_of(odd, aggregator=KEY.public), lose=lost)
    report = sealing(threshold=0.05).check(grid)
    adds_up(report)
    assert (report.cohort.asked, report.cohort.survivors) == (20, 17)


def test_who_is_rejected_is_left_out_once():
    """The aggregator cannot open two boxes."""

    def spoil(content):
        for name in ("1004:0", "1005:0"):
            content["numbers"][name] = b"junk " + name.encode()

    report = sealing(threshold=0.05).check(federation(meddle=on_request(spoil)))
    adds_up(report)
    assert report.cohort.survivors == 18


@pytest.mark.parametrize("aggregator_says", [{"1004:0": ["text"]}, {"9:9": "why"}, ["1004:0"]])
def test_an_aggregator_that_rejects_nobody_asked_is_not_believed(aggregator_says):
    grid = federation()
    deliver = grid.deliver

    def lying(message):
        reply = deliver(message)
        if message.metadata.message_type == "query.drift_aggregate":
            reply.content["published"]["rejected"] = json.dumps(aggregator_says)
        return reply

    grid.deliver = lying
    with pytest.raises(CheckFailed, match="aggregator"):
        sealing().check(grid)


class Echo(InProcessGrid):
    """Each reply comes twice."""

    def pull_messages(self, message_ids):
        replies = list(super().pull_messages(message_ids))
        return [*replies, *map(copy.deepcopy, replies)]


@pytest.mark.parametrize("path", PATHS)
def test_messages_that_come_twice_leave_nobody_out(path):
    (trust, aggregation), nodes = PATHS[path], 12
    grid = Echo(app_of(secure_sum=FirstUse()), nodes)
    report = KLDrift(REFERENCE, trust, aggregation=aggregation(), threshold=0.05).check(grid)
    assert (report.cohort.survivors, report.cohort.dropouts) == (nodes, {})


@pytest.mark.parametrize("path", PATHS)
def test_every_member_of_a_node_has_its_own_reason(path):
    """Node 1 hosts four clients: two refuse, for different reasons."""
    app = ClientApp()

    def hosted(context):
        return range(4 * context.node_config["partition-id"], 4 * (context.node_id - 999))

    def records(context, member):
        if member in (5, 6):
            raise (OSError if member == 5 else KeyError)("Mrs Smith")
        return basket(context)

    host_drift_queries(app, records, hosted, lambda _: FRUIT, secure_sum=FirstUse())
    trust, aggregation = PATHS[path]
    report = KLDrift(
        REFERENCE, trust, aggregation=aggregation(), population=HostedClients(), threshold=0.05
    ).check(InProcessGrid(app, 4))
    adds_up(report)
    assert report.cohort.survivors == 14
    assert sorted(r.rpartition("(")[2] for r in report.cohort.dropouts) == ["KeyError)", "OSError)"]
