"""The deciding half's sums are those of the clients' records, in every trust model."""

import math

import numpy as np
import pytest
from federation import FAR, FRUIT, REFERENCE, SHARES, app_of, basket, grid_of
from sealed_federation import KEY, federation

from flwr_kld.clients import FirstUse
from flwr_kld.kernel.count import MOVES, NUMBERS, Scores, numbers_of
from flwr_kld.kernel.law import SystemBits
from flwr_kld.kernel.vector import ClientRows, SumVector
from flwr_kld.query.noisy import ClientSums
from flwr_kld.query.partition import Partition
from flwr_kld.query.plan import QueryPlan
from flwr_kld.strategies import (
    Distributed,
    KLDrift,
    PlainSum,
    SecureSum,
    Trusted,
    TrustedAggregator,
    WholeClients,
)
from flwr_kld.strategies.publisher import Publisher
from flwr_kld.strategies.sealed_sum import SealedSum

EPSILON, NODES, EACH = 2.0, 20, 100
WAYS = {
    "plain": (Trusted(EPSILON), PlainSum),
    "plain, Gaussian counts": (Trusted(EPSILON, 1e-6, noise="gaussian"), PlainSum),
    "plain, clients": (Trusted(EPSILON, protects=WholeClients(EACH)), PlainSum),
    "sum": (Trusted(EPSILON), SecureSum),
    "sealed": (TrustedAggregator(EPSILON, aggregator=KEY.public), SealedSum),
    "sealed, clients": (
        TrustedAggregator(EPSILON, aggregator=KEY.public, protects=WholeClients(EACH)),
        SealedSum,
    ),
    "shares": (Distributed(EPSILON, min_clients=10), SecureSum),
    "shares, Skellam counts": (
        Distributed(EPSILON, min_clients=10, delta=1e-6, noise="skellam"),
        SecureSum,
    ),
    "shares, clients": (
        Distributed(EPSILON, min_clients=10, protects=WholeClients(EACH)),
        SecureSum,
    ),
}


def plan_of(most: int = EACH) -> QueryPlan:
    plan = Partition(16).draw(REFERENCE, np.random.default_rng(0))
    divergence = np.array([-7, 4, 9, -2, 0, 1])[: plan.cells]
    outside = np.where(plan.outside, 900, -100)
    scores = Scores(tuple(divergence.tolist()), tuple(outside.tolist()), 5 * most, most)
    return plan.scored((scores,))


def grid(way: str, **options):
    app = app_of(secure_sum=FirstUse(), aggregator=KEY.public, **options)
    return federation(app) if way.startswith("sealed") else grid_of(app, NODES)


def released(way: str, plan: QueryPlan, grid) -> ClientSums:
    trust, kind = WAYS[way]
    aggregation = kind()
    publisher = Publisher(trust, aggregation, max(2, trust.min_clients), SystemBits())
    present = KLDrift(REFERENCE, trust, aggregation=aggregation)._present(grid)
    found = publisher.publish(
        grid, present, plan, check="c" * 16, group="1", timeout=60.0
    )  # fmt: skip
    assert isinstance(found.values, ClientSums)
    assert found.survivors == NODES
    return found.values


@pytest.mark.parametrize("way", ["sum", "shares"])
def test_sums_of_many_records_do_not_wrap(way, monkeypatch):
    """As of 20 clients with 4 million records each, of which 64 steps are one."""
    summand, more, records = ClientRows.summand, 2**28, NUMBERS.index("records")

    def summed(*args, **options):
        own = summand(*args, **options)
        return SumVector(own._values + more * (np.arange(len(own._values)) == records))

    monkeypatch.setattr(ClientRows, "summand", summed)
    sums = released(way, plan_of(), grid(way))
    assert sums.steps[records] == pytest.approx(NODES * more, rel=0.01)


@pytest.mark.parametrize("way", WAYS)
def test_sums_are_those_of_the_records_but_for_the_noise(way):
    plan = plan_of()
    sums = released(way, plan, grid(way))
    assert sums.clients == NODES
    each = np.array(SHARES) * EACH
    counts = np.bincount(plan.cell_of, each, plan.cells).astype(np.int64)
    exact = NODES * numbers_of(plan.scores, counts[None])[0]
    for number, value in zip(NUMBERS, exact, strict=True):
        margin = FAR * sums.deviation(number) + NODES * sums.unit(number)
        assert abs(sums.value(number) - value) < margin


def test_the_noise_is_that_of_all_moves_together():
    """Laplace noise of scale (sum of moves) / epsilon, whatever noise counts get."""
    for way in ("plain", "plain, Gaussian counts", "plain, clients"):
        trust, _ = WAYS[way]
        variance = trust.sums_event(NODES).table.variance
        scale = sum(MOVES) / EPSILON
        assert math.sqrt(variance) == pytest.approx(math.sqrt(2) * scale, rel=0.01)


def test_clients_count_no_more_records_than_they_are_asked_for():
    plan = plan_of(most=10)
    sums = released("plain", plan, grid("plain"))
    assert sums.records == pytest.approx(10 * NODES, abs=FAR * sums.deviation("records"))
    assert FAR * sums.deviation("records") < NODES  # 100 records each would be far beyond


def test_a_client_that_answers_more_than_anyone_can_is_left_out():
    """A lying client: its numbers are held to what an honest one may answer."""
    plan = plan_of()
    _, high = plan.scores[0].limits(WAYS["plain"][0].guarantee)

    def lie(message):
        record = message.content.get("numbers")
        if record is None or message.metadata.src_node_id != 1000:
            return
        steps = high.copy()
        steps[0] += 1
        record["numbers"] = [steps.astype("<i4").tobytes()]

    class Lying(type(grid("plain"))):
        def pull_messages(self, ids):
            replies = list(super().pull_messages(ids))
            for reply in replies:
                lie(reply)
            return replies

    trust, aggregation = WAYS["plain"][0], PlainSum()
    lying = Lying(app_of(), NODES)
    publisher = Publisher(trust, aggregation, 2, SystemBits())
    present = KLDrift(REFERENCE, trust)._present(lying)
    found = publisher.publish(lying, present, plan, check="c" * 16, group="1", timeout=60.0)
    assert found.survivors == NODES - 1
    (reason,) = found.left_out.values()
    assert "beyond what a client may answer" in reason


def test_fruit_outside_the_reference_counts_as_such():
    plan = plan_of()

    def others(context):
        return [*basket(context)[: EACH // 2], *["egg"] * (EACH // 2)]

    sums = released("plain", plan, grid_of(app_of(others), NODES))
    share = (sums.value("outside") / sums.records + 100) / 1000
    assert share == pytest.approx(0.5, abs=FAR * sums.deviation("outside") / sums.records / 1000)
    assert FRUIT.size == len(SHARES)
