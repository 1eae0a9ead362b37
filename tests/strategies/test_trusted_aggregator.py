"""Checks through an aggregator, in process: near the truth, and from enough clients."""

import json
from operator import attrgetter

import pytest
from aggregators import deployed, shared_app
from federation import FAR, REFERENCE, SHARES, app_of
from flwr.app import RecordDict
from flwr.clientapp import ClientApp
from sealed_federation import AGGREGATOR, KEY, NODES, WatchedGrid, federation, monitor, on_request

from flwr_kld.clients import AggregatorLimits, aggregate_drift_checks
from flwr_kld.common.errors import CheckFailed
from flwr_kld.infer.divergence import skewed_divergence
from flwr_kld.strategies import KLDrift, Trusted, WholeClients


@pytest.mark.parametrize(
    ("epsilon", "options"),
    [
        (3.0, {}),
        (3.0, {"delta": 0.3}),
        (200.0, {"protects": WholeClients(100)}),
    ],
)
def test_every_release_is_near_the_truth_and_like_the_trusted_one(epsilon, options):
    report = monitor(epsilon, options).check(federation())
    truth = skewed_divergence(REFERENCE.probabilities, SHARES, 0.01)
    assert abs(report.reading.estimate - truth) < FAR * report.reading.error.privacy + 0.03
    assert (report.cohort.asked, report.cohort.survivors, report.cohort.dropouts) == (20, 20, {})
    assert (report.protection.trust, report.protection.private) == ("trusted-aggregator", True)
    assert report.guarantee.epsilon == epsilon
    central = KLDrift(REFERENCE, Trusted(epsilon, **options)).check(WatchedGrid(app_of(), NODES))
    for name in ("guarantee", "protection.mechanism", "protection.noise", "cost.epsilon"):
        assert attrgetter(name)(report) == attrgetter(name)(central)


def test_the_noise_is_new_in_every_check_and_no_seed_reaches_it():
    reports = []
    for _ in range(3):
        asking = monitor(0.1)
        asking._seeded(3)
        reports.append(asking.check(federation()))
    assert len({report.reading.estimate for report in reports}) == 3
    assert all(report.protection.private for report in reports)


def test_the_server_cannot_lower_the_aggregators_minimum():
    grid = federation(limits=AggregatorLimits(min_clients=21))
    with pytest.raises(CheckFailed, match="CohortTooSmall: 20"):
        monitor(min_clients=1).check(grid)


def test_rejected_boxes_do_not_count_towards_the_minimum():
    def spoil(content: RecordDict) -> None:
        content["numbers"].update({f"{1000 + i}:0": bytes([i]) * 64 for i in range(6)})

    grid = federation(limits=AggregatorLimits(min_clients=15), meddle=on_request(spoil))
    with pytest.raises(CheckFailed, match="CohortTooSmall: 14"):
        monitor().check(grid)
    (request,) = grid.requests()
    grid.meddle = lambda message: None
    assert "AnsweredAlready" in grid.again(request)["answer"]["answer"]  # and no second try


def test_the_servers_own_minimum_holds_before_anything_is_noised():
    def spoil(content: RecordDict) -> None:
        content["numbers"]["1003:0"] = bytes(64)

    with pytest.raises(CheckFailed, match="CohortTooSmall: 19"):
        monitor(min_clients=20).check(federation(meddle=on_request(spoil)))


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"drift-min-clients": 21}, "CohortTooSmall"),
        ({"drift-most-epsilon": 1}, "EpsilonTooLarge"),
        ({"drift-most-epsilom": 1}, "unknown"),
        ({"drift-reference": "another"}, "unknown"),
        ({"drift-min-clients": "many"}, "config"),
        ({"drift-most-epsilon": "all"}, "config"),
        ({"drift-min-clients": True}, "min_clients"),
        ({"drift-min-clients": 21.0}, "min_clients"),
        ({"drift-min-clients": -1}, "min_clients"),
        ({"drift-most-epsilon": True}, "most_epsilon"),
        ({"drift-most-epsilon": 0.0}, "most_epsilon"),
        ({"drift-most-epsilon": float("nan")}, "most_epsilon"),
        ({"drift-memory": b"/memory"}, "memory"),
        ({"drift-memory": "relative"}, "memory"),
        ({"drift-memory": "/nowhere/memory"}, "cannot"),
    ],
)
def test_the_operators_limits_come_from_the_node_config(key_file, config, message):
    grid = deployed(shared_app(), {"drift-key": key_file, **config})
    with pytest.raises(CheckFailed, match=message):
        monitor().check(grid)


def test_a_limit_of_epsilon_is_not_evaded_by_delta(key_file):
    """At δ = 0.99 the noise of ε = 0.1 leaves 99 of 100 counts as they are."""
    grid = deployed(shared_app(), {"drift-key": key_file, "drift-most-epsilon": 1})
    with pytest.raises(CheckFailed, match="EpsilonTooLarge"):
        monitor(0.1, {"delta": 0.99}).check(grid)
    assert monitor(0.1, {"delta": 1e-3}).check(grid).cohort.survivors == NODES


def test_a_node_config_cannot_loosen_what_the_app_says():
    strict = AggregatorLimits(min_clients=9, most_epsilon=0.5)
    loose = strict.stricter({"drift-min-clients": 2, "drift-most-epsilon": 5.0})
    assert loose == strict
    assert strict.stricter({"drift-most-epsilon": 0.25}).most_epsilon == 0.25
    with pytest.raises(ValueError, match="min_clients"):
        AggregatorLimits(min_clients=1)


def test_below_the_servers_minimum_the_aggregator_is_not_even_asked():
    grid = federation(lose=lambda m: m.metadata.dst_node_id in range(1004, 1020))
    with pytest.raises(CheckFailed, match="4 clients"):
        monitor(min_clients=5).check(grid)
    assert not grid.requests()


def test_a_cohort_without_any_record_has_nothing_to_compare():
    with pytest.raises(CheckFailed, match="records"):
        monitor().check(federation(app_of(lambda _: [], aggregator=KEY.public)))


def test_a_silent_aggregator_gives_no_number():
    grid = federation(lose=lambda m: m.metadata.message_type == "query.drift_aggregate")
    with pytest.raises(CheckFailed, match="spent"):
        monitor().check(grid)


def published(**changes):
    def change(content: RecordDict) -> None:
        content["published"].update(changes)

    return change


def names_a_stranger(content: RecordDict) -> None:
    sizes = json.loads(content["published"]["sizes"])
    sizes["holder"] = "\x1b[2Jnobody"
    content["published"]["sizes"] = json.dumps(sizes, sort_keys=True, separators=(",", ":"))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda c: c.pop("published"), "published"),
        (published(check="x"), "another"),
        (published(clients=7), "do not add up"),
        (published(values=bytes(8)), "terms"),
        (published(records=0.0), "terms"),
        (published(records=20 * 2.0**31), "terms"),
        (published(records=1e300), "terms"),
        (names_a_stranger, "numbers"),
        (published(records=float("nan")), "published"),
        (published(rejected="[]"), "published"),
        (published(rejected='{"why": -3}'), "published"),
        (published(clients=True), "published"),
    ],
)
def test_an_aggregator_that_talks_nonsense_gives_no_number(change, message):
    app = ClientApp()
    aggregate_drift_checks(app, key=KEY)
    people = app_of(aggregator=KEY.public)

    def run(asked, context):
        reply = (app if context.node_id == AGGREGATOR else people)(asked, context)
        if "published" in reply.content:
            change(reply.content)
        return reply

    with pytest.raises(CheckFailed, match=message):
        monitor().check(WatchedGrid(run))


@pytest.mark.parametrize(
    "trust",
    [{}, {"protects": WholeClients(500)}],
)
def test_both_halves_of_a_deciding_check_reach_the_aggregator(trust):
    people = app_of(aggregator=KEY.public, record_ids=lambda context: range(100))
    report = monitor(trust=trust, threshold=0.05).check(federation(people))
    assert report.verdict.lower_bound is not None, report.verdict.reason
