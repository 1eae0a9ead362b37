"""Simulated nodes that say which clients they host, and one among them that lies."""

import copy
import logging

import pytest
from federation import FRUIT, REFERENCE, basket
from flwr.app import ArrayRecord, ConfigRecord, Error, Message, RecordDict
from flwr.clientapp import ClientApp

from flwr_kld.ask.cohort import Participant
from flwr_kld.clients import host_drift_queries
from flwr_kld.common.errors import CheckFailed
from flwr_kld.simulations.in_process_grid import InProcessGrid
from flwr_kld.strategies import HostedClients, KLDrift, Trusted
from flwr_kld.trust.envelopes import ANSWER, Hosted

LIAR = 1002
HONEST = [Participant(node, member) for node in (1000, 1001, 1003) for member in (0, 7)]
TOLD = Hosted((0, 7)).to_config()


def honest_app():
    app = ClientApp()
    host_drift_queries(
        app, lambda context, member: basket(context), lambda _: (0, 7), lambda _: FRUIT
    )
    return app


class Lying(InProcessGrid):
    """One node's list of clients is a lie; whatever else it says is true."""

    def __init__(self, lie, nodes=4, liars=(LIAR,)):
        super().__init__(honest_app(), nodes)
        self.lie, self.liars, self.asked = lie, liars, []

    def deliver(self, message):
        reply = super().deliver(message)
        node = message.metadata.dst_node_id
        if "hosted" not in message.metadata.message_type:
            return reply
        self.asked.append(node)
        return self.lie(message, reply) if node in self.liars else reply


def saying(content):
    return lambda message, reply: Message(content, reply_to=message)


def record(**changes):
    kept = {name: value for name, value in (TOLD | changes).items() if value is not None}
    return saying(RecordDict({ANSWER: ConfigRecord(kept)}))


LIES = {
    "no record": saying(RecordDict()),
    "an empty record": saying(RecordDict({ANSWER: ConfigRecord()})),
    "arrays": saying(RecordDict({ANSWER: ArrayRecord()})),
    "another record": saying(RecordDict({"told": ConfigRecord(TOLD)})),
    "an error": lambda message, _: Message(Error(1, "Mrs Smith is 17"), reply_to=message),
    "no version": record(version=None),
    "another version": record(version=2),
    "a field more": record(more="x"),
    "no members": record(members=None),
    "a list of Flower's": record(members=[0, 7]),
    "a number": record(members=2),
    "no JSON": record(members="[0, 7"),
    "texts": record(members='["0"]'),
    "truths": record(members="[true]"),
    "real numbers": record(members="[0.0]"),
    "no number": record(members="[NaN]"),
    "below zero": record(members="[-1]"),
    "a huge number": record(members="[18446744073709551616]"),
    "a huge list": record(members=f"[{','.join(map(str, range(2**20 + 1)))}]"),
    "one twice": record(members="[0,7,0]"),
    "deep": record(members="[" * 100_000),
}  # fmt: skip


@pytest.mark.parametrize("lie", LIES)
def test_a_node_that_lies_about_its_clients_is_left_out_by_name(lie, caplog):
    population, grid = HostedClients(), Lying(LIES[lie])
    with caplog.at_level(logging.WARNING, "flwr.kld"):
        assert population.present(grid, 1.0) == HONEST
    (warned,) = [r.getMessage() for r in caplog.records if r.name == "flwr.kld"]
    assert warned.startswith(f"node {LIAR} is left out: ")
    assert list(population.left_out) == [LIAR]
    assert len(warned) < 300
    assert "Smith" not in warned


@pytest.mark.parametrize("lie", ["no record", "one twice", "a huge list", "an error"])
def test_a_check_goes_on_without_it(lie):
    report = KLDrift(REFERENCE, Trusted(3.0), population=HostedClients()).check(Lying(LIES[lie]))
    assert (report.cohort.asked, report.cohort.survivors) == (6, 6)
    ((reason, nodes),) = report.cohort.dropouts.items()
    assert reason.startswith("node without a list of its clients: ")
    assert nodes == 1
    assert "Smith" not in reason


def test_a_report_counts_nodes_of_its_own_round_only():
    """A node that tells the truth the next time is a dropout no longer."""
    grid = Lying(LIES["no record"], liars=(LIAR, 1003))
    monitor = KLDrift(REFERENCE, Trusted(3.0), population=HostedClients())
    assert sum(monitor.check(grid).cohort.dropouts.values()) == 2
    grid.liars = ()
    report = monitor.check(grid)
    assert (report.cohort.asked, report.cohort.dropouts) == (8, {})


def test_a_reply_that_comes_twice_counts_once():
    """The second says something else; the first one stands."""

    class Twice(Lying):
        def pull_messages(self, message_ids):
            replies = list(super().pull_messages(message_ids))
            later = [copy.deepcopy(reply) for reply in replies]
            for reply in later:
                reply.content[ANSWER] = ConfigRecord(Hosted((0, 1, 2)).to_config())
            return replies + later

    population = HostedClients()
    assert population.present(Twice(None, nodes=2, liars=()), 1.0) == HONEST[:4]
    assert population.left_out == {}


def test_a_reply_of_a_node_that_was_not_asked_counts_for_nothing():
    class Stranger(Lying):
        def pull_messages(self, message_ids):
            replies = list(super().pull_messages(message_ids))
            other = copy.deepcopy(replies[0])
            other.metadata.__dict__["_src_node_id"] = 77
            return [other, *replies]

    population = HostedClients()
    assert population.present(Stranger(None, nodes=2, liars=()), 1.0) == HONEST[:4]
    assert population.left_out == {}


def test_silence_is_named_too():
    population, grid = HostedClients(), Lying(None, liars=())
    grid.lose = lambda message: message.metadata.dst_node_id == LIAR
    assert population.present(grid, 1.0) == HONEST
    assert population.left_out == {LIAR: "no reply"}


def test_where_no_node_says_it_the_app_is_to_blame():
    everybody = range(1000, 1004)
    monitor = KLDrift(REFERENCE, Trusted(3.0), population=HostedClients())
    with pytest.raises(CheckFailed, match="host_drift"):
        monitor.check(Lying(LIES["no record"], liars=everybody))
