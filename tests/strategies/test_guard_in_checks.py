"""Whole checks of guarded nodes, in process: receipts, each limit, and the budget of a period."""

import os
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from federation import FRUIT, REFERENCE, app_of, basket, grid_of
from flwr.app import Context, RecordDict
from flwr.clientapp import ClientApp
from forks import forked, joined
from guard.files import guard_file
from guarded_nodes import plain, summed, summing

from flwr_kld.clients import (
    AggregatorKey,
    aggregate_drift_checks,
    answer_drift_queries,
    host_drift_queries,
)
from flwr_kld.clients.admission import account
from flwr_kld.common.errors import CheckFailed
from flwr_kld.kernel.promise import WholeClients
from flwr_kld.strategies import Distributed, HostedClients, KLDrift, Trusted, TrustedAggregator

DAY = 86400


TEN = Distributed(epsilon=1.0, min_clients=10)


def test_unguarded_nodes_answer_and_write_nothing(tmp_path, receipts):
    assert plain().check(grid_of()).cohort.survivors == 20
    assert summed().check(grid_of(summing())).cohort.survivors == 20
    assert receipts() == ()


def test_every_answered_check_leaves_a_receipt_of_what_the_report_says(limits, receipts):
    limits()
    report = plain().check(grid_of())
    assert (report.cohort.survivors, len(receipts())) == (20, 20)
    for receipt in receipts():
        assert (receipt.check, receipt.trust, receipt.protects) == (
            report.check,
            "trusted",
            "record",
        )
        assert receipt.plan == report.compared.plan
        assert (receipt.epsilon, receipt.delta) == (1, 0)
    assert {r.account for r in receipts()} == {f"{i}:0" for i in range(20)}


def test_secure_sums_leave_receipts_too(limits, receipts):
    limits()
    report = summed().check(grid_of(summing()))
    assert (report.cohort.survivors, len(receipts())) == (20, 20)
    assert {(r.trust, r.epsilon, r.delta) for r in receipts()} == {
        ("distributed", 1, Fraction("1e-9"))
    }
    summed(Trusted(epsilon=1.0)).check(grid_of(summing()))
    assert [r.trust for r in receipts()[20:]] == ["trusted"] * 20


def test_a_check_that_protects_others_than_the_limits_is_not_answered(limits, receipts):
    limits()
    whole = Trusted(1.0, protects=WholeClients(50))
    with pytest.raises(CheckFailed, match="record"):
        KLDrift(REFERENCE, whole).check(grid_of(summing()))
    assert receipts() == ()


def test_receipts_hold_no_data(limits, receipts, tmp_path):
    limits()
    plain().check(grid_of())
    summed().check(grid_of(summing()))
    content = b"".join(p.read_bytes() for p in tmp_path.iterdir() if "receipts" in p.name)
    assert b"trusted" in content
    counts = np.array([10, 20, 30, 40, 0, 0])
    for form in ("u1", "<u4", "<i8", ">u4", ">i8"):
        assert counts.astype(form).tobytes() not in content
    assert not any(name.encode() in content for name in FRUIT.names)


@pytest.fixture
def sealed():
    """Nineteen clients that seal for the twentieth node, and a monitor of them."""
    key, clients, aggregator = AggregatorKey.generate(), ClientApp(), ClientApp()
    answer_drift_queries(clients, basket, FRUIT, aggregator=key.public)
    aggregate_drift_checks(aggregator, key=key)

    def dispatch(message, context):
        return (aggregator if context.node_id == 1019 else clients)(message, context)

    return grid_of(dispatch), KLDrift(REFERENCE, TrustedAggregator(1.0, aggregator=key.public))


def test_sealed_counts_leave_receipts_and_the_aggregator_none(limits, receipts, sealed):
    limits(('"trusted", ', '"trusted-aggregator", '))
    grid, monitor = sealed
    report = monitor.check(grid)
    assert report.cohort.survivors == 19
    assert {r.account for r in receipts()} == {f"{i}:0" for i in range(19)}
    assert {(r.check, r.trust) for r in receipts()} == {(report.check, "trusted-aggregator")}


@pytest.mark.parametrize(
    ("change", "monitor", "message"),
    [
        (('["trusted", "distributed"]', '["distributed"]'), plain, "distrib"),
        (('["trusted", "distributed"]', '["trusted"]'), summed, "trusted"),
        (('domains = "any"', f'domains = ["{"0" * 64}"]'), plain, "domain"),
        (('domains = "any"', f'domains = ["{"0" * 64}"]'), summed, "domain"),
        (('plans = "any"', f'plans = ["{"0" * 64}"]'), plain, "plan"),
        (("max_epsilon = 1.0", "max_epsilon = 0.9"), plain, "epsilon"),
        (("max_epsilon = 1.0", "max_epsilon = 0.9"), summed, "epsilon"),
        (("max_delta = 1e-6", "max_delta = 1e-12"), summed, "limit"),
        (("min_asked = 5", "min_asked = 21"), plain, "minimum"),
        (("min_asked = 5", "min_asked = 21"), summed, "minimum"),
        (("[check]", "[secure_sum]\nmin_asked = 30\n[check]"), summed, "minimum"),
        (("[check]", "[secure_sum]\nmin_clients = 18\n[check]"), summed, "minimum"),
        (("[check]", "[secure_sum]\nmin_threshold = 0.9\n[check]"), summed, "fraction"),
    ],
)
def test_each_limit_refuses_by_name_and_spends_nothing(limits, receipts, change, monitor, message):
    limits(change)
    with pytest.raises(CheckFailed, match=message):
        monitor().check(grid_of(summing()))
    assert receipts() == ()


def test_one_node_refuses_for_itself(tmp_path):
    """The node config names the file; other nodes have none."""
    path, app = guard_file(tmp_path, ("max_epsilon = 1.0", "max_epsilon = 0.5")), app_of()

    def guarded(message, context):
        if context.node_id == 1000:
            context.node_config["drift-guard"] = str(path)
        return app(message, context)

    report = plain().check(grid_of(guarded))
    assert report.cohort.survivors == 19
    assert report.cohort.dropouts == {
        "refused: epsilon 1; this client's limit for a check is 0.5": 1
    }


@pytest.mark.parametrize("key", ["drift-gaurd", "drift_guard"])
def test_a_misspelt_guard_is_not_as_if_there_were_none(tmp_path, key, caplog):
    path, app = guard_file(tmp_path), app_of()

    def unguarded(message, context):
        context.node_config[key] = str(path)
        return app(message, context)

    with pytest.raises(CheckFailed, match="key"):
        plain().check(grid_of(unguarded))
    assert repr(key) in caplog.text


@pytest.mark.parametrize("monitor", [plain, summed])
def test_the_budget_of_a_period_runs_out_and_comes_back(limits, receipts, clock, monitor):
    limits()
    grid, monitor = grid_of(summing(), nodes=10), monitor()
    for _ in range(3):
        assert monitor.check(grid).cohort.survivors == 10
        clock.seconds += DAY
    with pytest.raises(CheckFailed, match="left: 0"):
        monitor.check(grid)
    clock.seconds -= 90 * DAY
    with pytest.raises(CheckFailed, match="left: 0"):
        monitor.check(grid)
    clock.seconds += 90 * DAY + 27 * DAY + 1  # 30 days and a second after it was answered
    with pytest.raises(CheckFailed, match="left: 0"):
        monitor.check(grid)
    clock.seconds += 2 * 60 * 60  # and after the last moment at which it could be released
    assert monitor.check(grid).cohort.survivors == 10
    with pytest.raises(CheckFailed, match="left: 0"):
        monitor.check(grid)
    assert len(receipts()) == 40


def test_hosted_clients_have_a_budget_each(limits, receipts):
    limits()
    app = ClientApp()
    host_drift_queries(app, lambda c, _: basket(c), lambda _: [3, 4], lambda _: FRUIT)
    report = plain(population=HostedClients()).check(grid_of(app, nodes=3))
    assert report.cohort.survivors == 6
    assert {r.account for r in receipts()} == {f"{i}:{m}" for i in range(3) for m in (3, 4)}


def test_a_budget_does_not_follow_flowers_node_id():
    def context(node_id, **config):
        return Context(1, node_id, config, RecordDict(), {})

    assert account(context(7), 0) == account(context(8), 0) == "0"
    one, other = (context(7, **{"partition-id": i}) for i in (1, 2))
    assert (account(one, 0), account(other, 0)) == ("1:0", "2:0")


def test_a_second_opening_of_a_sum_is_refused(limits, receipts):
    limits()
    app, second = summing(), []

    def twice(message, context):
        if "terms" in message.content and context.node_id == 1000:
            app(message, context)
            second.append(app(message, context))
            return second[-1]
        return app(message, context)

    assert summed().check(grid_of(twice)).cohort.survivors == 19
    assert len(receipts()) == 20
    assert "answered this check before" in str(second[0].content["answer"])


@pytest.mark.parametrize(
    ("members", "answered"), [([0, 0], []), ([0, 1, 2, -1], []), ([0, 1, 2], [0])]
)
def test_a_client_cannot_be_asked_under_several_numbers(limits, receipts, members, answered):
    limits()
    app, replies = app_of(), []

    def greedy(message, context):
        if "members" in message.content:
            message.content["members"]["members"] = members
        replies.append(app(message, context))
        return replies[-1]

    if answered:
        assert plain().check(grid_of(greedy)).cohort.survivors == 20
    else:
        with pytest.raises(CheckFailed, match="members"):
            plain().check(grid_of(greedy))
    assert len(receipts()) == 20 * len(answered)
    assert all(f'"answered":{answered}' in str(reply.content["answer"]) for reply in replies)


def test_the_spend_is_written_before_records_are_loaded(limits, receipts):
    limits()
    written = []

    def look(context):
        written.append(len(receipts()))
        return basket(context)

    plain().check(grid_of(app_of(look), nodes=5))
    assert written == [1, 2, 3, 4, 5]
    summed(replace(TEN, min_clients=5)).check(grid_of(summing(records=look), nodes=5))
    assert written[5:] == [10] * 5


def test_a_node_that_dies_between_the_two_has_spent(limits, receipts):
    limits(("max_epsilon = 3.0", "max_epsilon = 1.0"))
    killed = app_of(lambda _: os.kill(os.getpid(), 9))  # while it loads the first node's records
    assert joined(forked(lambda: plain().check(grid_of(killed)))) == [-9]
    assert [r.account for r in receipts()] == ["0:0"]
    report = plain().check(grid_of())
    assert report.cohort.survivors == 19
    (reason,) = report.cohort.dropouts
    assert "left: 0 of 1" in reason
