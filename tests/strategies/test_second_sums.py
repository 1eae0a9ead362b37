"""A check that decides over secure sums: keys set up once where the same clients answer twice."""

from dataclasses import replace

import pytest
from federation import grid_of
from guarded_nodes import summed, summing

from flwr_kld.strategies import Distributed
from flwr_kld.sums.session import Session


def deciding(**options):
    return summed(Distributed(epsilon=1.0, min_clients=16), threshold=0.1, **options)


@pytest.mark.parametrize(("about", "messages"), [("these clients", 6), ("the population", 4)])
def test_a_deciding_check_sets_up_keys_once_for_the_same_clients(about, messages):
    """Clients answer both halves, in six exchanges; of a population half are in each, in four."""
    heard: dict[int, list[bool]] = {}
    app = summing()

    def spy(message, context):
        if message.metadata.message_type == "query.drift_sum":
            heard.setdefault(context.node_id, []).append("terms" in message.content)
        return app(message, context)

    report = deciding(about=about).check(grid_of(spy, nodes=44))
    openings = [True, *[False] * 3, *[True, False][: messages - 4]]
    assert list(heard.values()) == [openings] * 44
    assert report.cohort.dropouts == {}


def test_whom_the_first_half_lost_is_not_asked_in_the_second_and_that_is_said():
    heard: dict[int, int] = {}

    def lose(message):
        node = message.metadata.dst_node_id
        heard[node] = heard.get(node, -1) + 1
        return node < 1002 and heard[node] >= 4  # what opens the first sum is lost

    report = deciding().check(grid_of(summing(), lose=lose))
    assert (heard[1000], heard[1002]) == (4, 6)
    assert report.cohort.dropouts == {"no reply": 2}


@pytest.mark.parametrize("change", ["survivors", "first session", "neither", "cohort's least"])
def test_a_second_sum_of_another_kind_is_refused_before_anything_is_spent(limits, receipts, change):
    limits()
    app = summing()

    def lie(message, context):
        if "terms" in message.content:
            for member, payload in message.content["phase"].items():
                session = Session.from_bytes(payload)
                if session.follows:
                    told = {
                        "survivors": {"follows": session.follows[:32] + bytes(32)},
                        "first session": {"follows": bytes(32) + session.follows[32:]},
                        "neither": {},
                        "cohort's least": {"min_clients": session.min_clients + 1},
                    }[change]
                    message.content["phase"][member] = replace(session, **told).to_bytes()
        return app(message, context)

    deciding().check(grid_of(lie))
    assert len(receipts()) == (40 if change == "neither" else 20)


def test_a_second_half_that_is_refused_leaves_no_secret(limits):
    contexts, app = {}, summing()
    limits()

    def lie(message, context):
        contexts[context.node_id] = context
        if "terms" in message.content:
            for member, payload in message.content["phase"].items():
                session = Session.from_bytes(payload)
                if session.follows:
                    assert "flwr_kld.sum.0" in context.state
                    told = replace(session, follows=bytes(64))
                    message.content["phase"][member] = told.to_bytes()
        return app(message, context)

    deciding().check(grid_of(lie))
    assert not any("flwr_kld.sum.0" in context.state for context in contexts.values())
