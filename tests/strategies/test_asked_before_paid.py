"""Who can take part is known before anything is paid for; a failure is forgotten afterwards."""

from collections import Counter

import pytest
import sealed_federation
import split_federation
from federation import FRUIT, REFERENCE, app_of, basket, grid_of
from flwr.clientapp import ClientApp

from flwr_kld import Binned, Reference
from flwr_kld.clients import AggregatorKey, FirstUse, answer_drift_queries, host_drift_queries
from flwr_kld.common.errors import CheckFailed, NobodyAnswered, QueryRefused
from flwr_kld.ledger import Budget, Ledger
from flwr_kld.ledger.entry import AlreadyChecked
from flwr_kld.simulations.in_process_grid import InProcessGrid
from flwr_kld.strategies import (
    Distributed,
    HostedClients,
    KLDrift,
    PlainSum,
    SecureSum,
    Trusted,
    TrustedAggregator,
    TwoAggregators,
)

NODES = 20
OTHER = AggregatorKey.generate().public
CLIENTS = set(range(1000, 1000 + NODES))
SEALER, SPLITTER = sealed_federation.AGGREGATOR, split_federation.SECOND


def summed(lose):
    return grid_of(app_of(secure_sum=FirstUse()), NODES, lose=lose)


WAYS = {
    "plain": (Trusted(0.5), None, lambda lose: grid_of(app_of(), NODES, lose=lose)),
    "sum": (Trusted(0.5), SecureSum, summed),
    "shares": (Distributed(0.5, min_clients=4), SecureSum, summed),
    "sealed": (
        TrustedAggregator(0.5, aggregator=sealed_federation.KEY.public),
        None,
        lambda lose: sealed_federation.federation(lose=lose),
    ),
    "split": (
        TwoAggregators(0.5, aggregators=split_federation.PAIR),
        None,
        lambda lose: split_federation.federation(lose=lose),
    ),
}


@pytest.fixture
def ledger(tmp_path):
    ledger = Ledger(f"sqlite:///{tmp_path}/l.db")
    ledger.set_budget(Budget(3.0, 1e-5, 30))
    return ledger


def monitor(way, ledger, **options):
    trust, kind, _ = WAYS[way]
    return KLDrift(REFERENCE, trust, aggregation=kind and kind(), ledger=ledger, **options)


@pytest.mark.parametrize(
    ("way", "down"),
    [
        ("sum", CLIENTS),
        ("sum", CLIENTS - {1000}),
        ("shares", CLIENTS),
        ("shares", CLIENTS - {1000, 1001, 1002}),
        ("sealed", {SEALER}),
        ("split", {SPLITTER}),
        ("split", {SPLITTER - 1, SPLITTER}),
    ],
)
def test_what_nobody_could_be_asked_costs_nothing_and_may_run_again(way, down, ledger):
    away = [True]
    grid = WAYS[way][2](lambda m: away[0] and m.metadata.dst_node_id in down)
    checks = monitor(way, ledger, timeout=20)
    with pytest.raises(CheckFailed):
        checks.check(grid, key="night")
    entry = ledger.check("night")
    assert (entry.refused, entry.release, ledger.spent().epsilon) == (True, None, 0)
    away[0] = False
    report = checks.check(grid, key="night")
    assert report.cohort.survivors == NODES
    assert 0.3 < ledger.spent().epsilon < 0.51  # clients who add more noise than is needed pay less
    assert report.cost.left == ledger.spent().left  # both as of what was delivered
    assert report.cost.room == ledger.room_for(ledger.check("night"))


@pytest.mark.parametrize("way", ["sealed", "split"])
def test_an_aggregator_that_is_not_there_or_holds_another_key_costs_nothing(way, ledger):
    trust = {
        "sealed": TrustedAggregator(0.5, aggregator=OTHER),
        "split": TwoAggregators(0.5, aggregators=(OTHER, split_federation.PAIR[1])),
    }[way]
    checks = KLDrift(REFERENCE, trust, ledger=ledger, timeout=20)
    for grid in (WAYS[way][2](None), InProcessGrid(app_of(), NODES)):
        with pytest.raises(CheckFailed, match="key"):
            checks.check(grid, key="night")
        assert ledger.check("night").refused
    assert ledger.spent().epsilon == 0


@pytest.mark.parametrize("way", WAYS)
def test_too_few_clients_cost_nothing(way, ledger):
    checks = monitor(way, ledger, min_clients=NODES + 1)
    with pytest.raises(CheckFailed):
        checks.check(WAYS[way][2](None), key="night")
    assert (ledger.check("night").refused, ledger.spent().epsilon) == (True, 0)


DOMAIN = Binned([0.5])
HOSTS = Reference.from_counts(DOMAIN, [1, 1])
FORMS = [list, set, iter]


@pytest.mark.parametrize("form", FORMS)
def test_who_is_hosted_is_looked_at_in_every_check_and_once_a_message(form):
    members, calls = {node: list(range(3)) for node in (1000, 1001)}, []

    def hosted(context):
        calls.append(context.node_id)
        return form(members[context.node_id])

    app = ClientApp()
    host_drift_queries(app, lambda context, member: [0.1] * 20, hosted, lambda context: DOMAIN)
    checks, grid = KLDrift(HOSTS, Trusted(1.0), population=HostedClients()), InProcessGrid(app, 2)
    report = checks.check(grid)
    assert (report.cohort.asked, report.cohort.survivors, len(calls)) == (6, 6, 4)
    members[1000], members[1001] = list(range(5)), []
    report = checks.check(grid)
    assert (report.cohort.asked, report.cohort.survivors, report.cohort.dropouts) == (5, 5, {})


MISTAKEN = Reference.from_counts(Binned([1, 2]), [1, 2, 3, 4])
"""Nobody's domain: every client refuses the terms."""


def mistaken(way, ledger):
    trust, kind, _ = WAYS[way]
    return KLDrift(MISTAKEN, trust, aggregation=kind and kind(), ledger=ledger, timeout=5.0)


@pytest.mark.parametrize("way", ["plain", "sealed", "split"])
def test_a_check_that_all_clients_refuse_is_free_and_its_key_runs_again(way, ledger):
    grid = WAYS[way][2](None)
    with pytest.raises(NobodyAnswered, match="domain"):
        mistaken(way, ledger).check(grid, key="monday")
    entry = ledger.check("monday")
    assert (entry.state, entry.failure.kind, entry.release) == ("failed", "refused", None)
    assert entry.refused
    assert ledger.spent().epsilon == 0
    report = monitor(way, ledger).check(grid, key="monday")
    assert report.key == "monday"
    assert ledger.spent().epsilon == pytest.approx(0.5, rel=1e-3)


@pytest.mark.parametrize("way", ["plain", "sealed", "split"])
def test_one_client_that_may_have_answered_is_paid_for(way, ledger):
    """A client that is silent has perhaps sent numbers to whoever reads along."""
    silent = 1000

    def lose(message):
        return message.metadata.dst_node_id == silent and "terms" in message.content

    with pytest.raises(CheckFailed, match="reply") as failed:
        mistaken(way, ledger).check(WAYS[way][2](lose), key="monday")
    assert not isinstance(failed.value, NobodyAnswered)
    assert ledger.check("monday").failure.kind == "unanswered"
    assert ledger.spent().epsilon == pytest.approx(0.5, rel=1e-3)
    with pytest.raises(AlreadyChecked):
        monitor(way, ledger).check(WAYS[way][2](None), key="monday")


@pytest.mark.parametrize(
    "error", [ValueError("raise epsilon"), QueryRefused("no such terms"), KeyError("a secret")]
)
def test_a_mistake_that_shows_before_anybody_is_asked_is_free_and_its_key_runs_again(
    ledger, monkeypatch, error
):
    def broken(*_):
        raise error

    monkeypatch.setattr("flwr_kld.strategies.exchange.CountExchange.content", broken)
    with pytest.raises((type(error), CheckFailed)):
        monitor("plain", ledger).check(WAYS["plain"][2](None), key="monday")
    monkeypatch.undo()
    entry = ledger.check("monday")
    assert (entry.refused, ledger.spent().epsilon) == (True, 0)
    assert entry.failure.words == ("KeyError" if isinstance(error, KeyError) else str(error))
    monitor("plain", ledger).check(WAYS["plain"][2](None), key="monday")
    assert ledger.spent().epsilon == pytest.approx(0.5, rel=1e-3)


def test_an_error_while_messages_leave_is_paid_for(ledger):
    grid = WAYS["plain"][2](None)
    push = grid.push_messages

    def lost(messages):
        push(messages)
        raise ConnectionError("the SuperLink is gone")

    check = monitor("plain", ledger)
    grid.push_messages = lost
    with pytest.raises(ConnectionError):
        check.check(grid, key="monday")
    assert ledger.check("monday").failure.kind == "error"
    assert ledger.spent().epsilon > 0


def given_up(ledger, lose=None, records=basket):
    """Run a secure sum under a key; return why it failed."""
    app, heard = ClientApp(), Counter()
    answer_drift_queries(app, records, FRUIT, secure_sum=FirstUse())

    def lost(message):
        heard[node := message.metadata.dst_node_id] += 1
        return lose is not None and lose(node, heard[node])

    check = monitor("sum", ledger)
    with pytest.raises(CheckFailed, match="sum") as failed:
        check.check(InProcessGrid(app, NODES, lose=lost), key="monday")
    return failed.value


@pytest.mark.parametrize("before", [2, 3])
def test_a_secure_sum_in_which_no_client_was_asked_for_numbers_is_free(ledger, before):
    """Whoever falls silent after its name, or after its keys, has not sent any."""
    error = given_up(ledger, lambda _, heard: heard >= before)
    assert isinstance(error, NobodyAnswered)
    assert (ledger.check("monday").refused, ledger.spent().epsilon) == (True, 0)


def test_a_secure_sum_that_all_refuse_before_they_count_is_free(ledger):
    def records(context):
        raise KeyError("no file")

    assert isinstance(given_up(ledger, records=records), NobodyAnswered)
    assert (ledger.check("monday").refused, ledger.spent().epsilon) == (True, 0)


@pytest.mark.parametrize("silent", [1, 4, NODES])
def test_a_secure_sum_in_which_one_client_may_have_sent_numbers_is_paid_for(ledger, silent):
    def records(context):
        raise KeyError("no file")

    error = given_up(ledger, lambda node, heard: heard >= 4 and node < 1000 + silent, records)
    assert not isinstance(error, NobodyAnswered)
    assert ledger.spent().epsilon > 0


def test_a_secure_sum_that_is_refused_after_the_numbers_came_is_paid_for(ledger, monkeypatch):
    def refuses(*_):
        raise QueryRefused("not the survivors")

    monkeypatch.setattr("flwr_kld.clients.secure_sum.SumClient.confirm", refuses)
    assert not isinstance(given_up(ledger), NobodyAnswered)
    assert ledger.spent().epsilon > 0


def test_a_client_that_answers_among_others_that_refuse_is_paid_for(ledger):
    app = ClientApp()

    def records(context):
        if context.node_config["partition-id"]:
            raise KeyError("no file")
        return basket(context)

    answer_drift_queries(app, records, FRUIT)
    with pytest.raises(CheckFailed, match="answered") as failed:
        monitor("plain", ledger).check(InProcessGrid(app, NODES), key="monday")
    assert not isinstance(failed.value, NobodyAnswered)
    assert ledger.spent().epsilon == pytest.approx(0.5, rel=1e-3)


class OwnWay(PlainSum):
    """Sends by Flower's own call, and fails in words that quote what a client answered."""

    name = "own-way"

    def collect(self, exchange, least):
        messages = [exchange.message(exchange.content([p]), p.node) for p in exchange.chosen]
        replies = list(exchange.grid.send_and_receive(messages, timeout=20))
        raise ValueError(f"{len(replies)} sick patients")


def test_what_an_aggregation_of_ones_own_may_have_asked_is_spent(ledger):
    grid = grid_of(app_of(), NODES)
    checks = KLDrift(REFERENCE, Trusted(0.5), aggregation=OwnWay(), ledger=ledger)
    with pytest.raises(ValueError, match="patients"):
        checks.check(grid, key="night")
    entry = ledger.check("night")
    assert not entry.refused
    assert ledger.spent().epsilon == pytest.approx(0.5, abs=1e-3)
    assert "patients" not in str(entry)
    with pytest.raises(AlreadyChecked):
        checks.check(grid, key="night")
