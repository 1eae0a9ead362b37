"""One of 20 clients lies: it is left out, or the check says what cannot be, and decides nothing."""

import json
from types import SimpleNamespace

import numpy as np
import pytest
from federation import FRUIT, REFERENCE, app_of, grid_of
from sealed_federation import KEY, federation
from sealed_federation import monitor as sealing

from flwr_kld.ask.noisy import NoisyCounts
from flwr_kld.clients import FirstUse
from flwr_kld.clients.own_records import OwnRecords, Records
from flwr_kld.common.errors import CheckFailed
from flwr_kld.infer.alarm import Alarm
from flwr_kld.infer.contradictions import contradiction, impossible_estimate
from flwr_kld.infer.decision import held_against_estimates
from flwr_kld.infer.verdict import Cause, Outcome, Verdict
from flwr_kld.kernel import Guarantee
from flwr_kld.kernel.law import SystemBits, sample
from flwr_kld.kernel.promise import Allotment
from flwr_kld.kernel.vector import ClientRows, SumVector
from flwr_kld.strategies import (
    Distributed,
    KLDrift,
    SecureSum,
    Statistics,
    Trusted,
    WholeClients,
)
from flwr_kld.trust.calibration import calibrated_laplace

LIAR = 1000
MOST = 2**31 - 1
VECTORS = {
    "everything -2^31": lambda v: np.full_like(v, -(2**31)),
    "everything 2^31-1": lambda v: np.full_like(v, MOST),
    "no records": lambda v: np.append(v[:-1], -(10**6)),
    "too many records": lambda v: np.append(v[:-1], MOST),
    "records cancelled": lambda v: np.append(v[:-1], -2000),
    "one count": lambda v: np.where(np.arange(len(v)) == 3, 10**9, v),
    "one count below": lambda v: np.where(np.arange(len(v)) == 3, -(10**5), v),
    "minus the others": lambda v: -40 * np.abs(v),
    "some of the others": lambda v: np.append(v[:-1], -500),
}
"""What a client puts into a secure sum, in place of its own vector (the last number: its records,
under shares of noise)."""
NEGATIVE = {"everything -2^31", "no records", "records cancelled", "minus the others"}
"""Lies after which the number of records is not positive."""


@pytest.fixture
def lie(monkeypatch):
    """Let node 1000 change what it counted, or what it puts into a secure sum."""

    def install(*, vector=None, counts=None):
        load, count, summand, node = OwnRecords.load, Records.counted, ClientRows.summand, {}

        def loaded(self, context, *args, **limits):
            node["id"] = context.node_id
            return load(self, context, *args, **limits)

        def counted(*args):
            rows = count(*args)
            if counts is not None and node["id"] == LIAR:
                counts(rows._values[0])
            return rows

        def summed(*args, **options):
            own = summand(*args, **options)
            if vector is None or node["id"] != LIAR:
                return own
            return SumVector(vector(own._values))

        monkeypatch.setattr(OwnRecords, "load", loaded)
        monkeypatch.setattr(Records, "counted", counted)
        monkeypatch.setattr(ClientRows, "summand", summed)

    return install


def of_all(share):
    """Return a client's lie: `share` of 2^31 - 1 records in the first cell, or the last."""

    def counts(own):
        own[:] = 0
        own[0 if share > 0 else -2] = abs(share) * MOST  # alike records are the last
        return own

    return counts


@pytest.mark.parametrize("name", VECTORS)
def test_a_lie_in_a_sum_with_shares_says_what_cannot_be(lie, name):
    lie(vector=VECTORS[name])
    trust = Distributed(1.0, min_clients=5)
    monitor = KLDrift(REFERENCE, trust, aggregation=SecureSum(), threshold=0.05)
    grid = grid_of(app_of(secure_sum=FirstUse()))
    if name in NEGATIVE:
        with pytest.raises(CheckFailed, match="records"):
            monitor.check(grid)
        return
    report = monitor.check(grid)
    assert report.outcome is Outcome.INCONCLUSIVE
    assert "contradict" in report.verdict.reason
    assert report.reading.note.startswith("the published numbers contradict each other: ")


@pytest.mark.parametrize("name", ["one count", "one count below", "too many records"])
def test_no_statistics_are_told_of_numbers_that_cannot_be_true(lie, name):
    """Nor do they serve as a reference."""
    lie(vector=VECTORS[name])
    statistics = Statistics(FRUIT, Distributed(1.0, min_clients=5), aggregation=SecureSum())
    with pytest.raises(CheckFailed, match=r"contradict|records"):
        statistics.ask(grid_of(app_of(secure_sum=FirstUse())))


@pytest.mark.parametrize("threshold", [None, 0.05])
@pytest.mark.parametrize("records", [10**12, 2**62])
def test_a_number_of_records_beyond_any_estimate_is_said_to_be_impossible(lie, records, threshold):
    lie(vector=lambda v: np.append(v[:-1], records))
    trust = Distributed(1.0, min_clients=5)
    monitor = KLDrift(REFERENCE, trust, aggregation=SecureSum(), threshold=threshold)
    report = monitor.check(grid_of(app_of(secure_sum=FirstUse())))
    assert report.outcome is (threshold and Outcome.INCONCLUSIVE)
    assert "contradict" in report.reading.note
    assert report.reading.note in " ".join(str(report).split())


@pytest.mark.parametrize(
    ("name", "shows"),
    [("everything -2^31", True), ("minus the others", True), ("one count below", True),
     ("one count", False)],
)  # fmt: skip
def test_a_lie_in_a_secure_sum_without_shares_shows_or_the_verdict_says_if_no_client_lies(
    lie, name, shows
):
    """There the number of records is the counts' sum: a large count does not contradict it."""
    lie(vector=VECTORS[name])
    options = {"aggregation": SecureSum(), "threshold": 0.05}
    grid = grid_of(app_of(secure_sum=FirstUse()))
    report = KLDrift(REFERENCE, Trusted(1.0), **options).check(grid)
    assert report.outcome is (Outcome.INCONCLUSIVE if shows else Outcome.DRIFT)
    assert ("contradict" in report.verdict.reason) == shows
    assert ("if no client lies" in report.verdict.reason) is not shows
    limited = KLDrift(REFERENCE, Trusted(1.0), most_records=100, **options)
    report = limited.check(grid)
    assert "contradict" in report.verdict.reason


@pytest.mark.parametrize("share", [1, 0.5, -1])
def test_a_client_of_a_plain_sum_that_claims_the_world_is_named(lie, share):
    """All its records count: the verdict says that it alone could have made it."""
    lie(counts=of_all(share))
    report = KLDrift(REFERENCE, Trusted(1.0), threshold=0.05).check(grid_of())
    assert report.outcome is Outcome.DRIFT
    assert (report.one_client.name, report.verdict.by_one_client) == (f"{LIAR}:0", True)
    assert f"{LIAR}:0 holds 100 %" in str(report)
    limited = KLDrift(REFERENCE, Trusted(1.0), threshold=0.05, most_records=100)
    report = limited.check(grid_of())
    assert report.cohort.survivors == 19
    assert abs(report.reading.estimate - 0.456) < 0.2
    ((reason, n),) = report.cohort.dropouts.items()
    assert (n, "most records that a client may have" in reason) == (1, True)


def test_an_aggregator_leaves_out_who_reports_too_much(lie):
    lie(counts=of_all(1))
    report = sealing(threshold=0.05, most_records=100).check(federation())
    assert report.cohort.survivors == 19
    ((reason, n),) = report.cohort.dropouts.items()
    assert (n, "most records that a client may have" in reason) == (1, True)


BOXES = {
    "nothing": b"",
    "one byte": b"x",
    "a low-order key": bytes(32 + 16 + 24),
    "another low-order key": b"\1" + bytes(71),
    "a key of order 8": bytes.fromhex(
        "e0eb7a7c3b41b8ae1656e3faf19fc46ada098deb9c32b1fd866205165f49b800"
    )
    + bytes(40),
    "an odd length": bytes(range(101)),
    "as long as an honest one": bytes(range(72)),
    "a megabyte": bytes(2**20),
}
"""What a client hands in, in place of its sealed counts (six cells: 72 bytes)."""


@pytest.mark.parametrize("box", BOXES.values(), ids=list(BOXES))
@pytest.mark.parametrize("liars", [1, 2, 3])
def test_an_aggregator_goes_on_without_clients_whose_boxes_are_none(box, liars):
    """Also if several hand in the same."""
    honest = app_of(aggregator=KEY.public)

    def app(message, context):
        reply = honest(message, context)
        if context.node_id < LIAR + liars and "numbers" in reply.content:
            reply.content["numbers"]["numbers"] = [box]
        return reply

    grid = federation(app)
    report = sealing().check(grid)
    assert (report.cohort.survivors, report.reading.records) == (20 - liars, 100 * (20 - liars))
    ((reason, n),) = report.cohort.dropouts.items()
    assert n == liars
    assert reason.startswith("rejected by the aggregator: ")
    named = json.loads(grid.received[-1].content["published"]["rejected"])
    assert named.keys() == {f"{LIAR + i}:0" for i in range(liars)}


def test_shares_show_in_the_total_what_nobody_may_have(lie):
    """Eleven thousand records, all counted: possible, but not for 20 clients of at most 100."""

    trust = Distributed(1.0, min_clients=5)
    limited = KLDrift(REFERENCE, trust, aggregation=SecureSum(), most_records=100)

    def vector(own):
        more = own + 600 * limited.trust.allotment.counts[0]
        more[-1] = own[-1] + 600 * (len(own) - 2)
        return more

    lie(vector=vector)
    report = limited.check(grid_of(app_of(secure_sum=FirstUse())))
    assert "20 clients count at most 100 each" in report.reading.note


@pytest.mark.parametrize(
    ("trust", "most", "why"),
    [
        (Trusted(1.0, protects=WholeClients(5)), 100, "WholeClients"),
        (Trusted(1.0), 0, "most_records"),
        (Trusted(1.0), 2**31, "most_records"),
    ],
)
def test_limits_that_would_show_something_or_are_none(trust, most, why):
    with pytest.raises(ValueError, match=why):
        KLDrift(REFERENCE, trust, most_records=most)


@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize(("cells", "epsilon"), [(1, 0.05), (4, 1.0), (1000, 0.05), (1000, 6.0)])
def test_noise_alone_is_no_contradiction(cells, epsilon, known):
    """By its margins one release of 200 is called impossible with probability below 1e-6."""
    rng = np.random.default_rng(cells)
    event = calibrated_laplace(Guarantee(epsilon))
    plan = SimpleNamespace(cells=cells, allotment=Allotment.even(1))
    for _ in range(200):
        clear = rng.multinomial(500, np.full(cells, 1 / cells))
        noisy = clear + sample(event.table, cells, SystemBits())
        records = 500.0 if known else max(float(noisy.sum()), 1.0)
        assert contradiction(NoisyCounts(noisy, records, event, plan, True), 5, 100) is None


@pytest.mark.parametrize(
    ("estimate", "possible"), [(0.1, True), (-0.3, True), (4.7, True), (-2.0, False), (7.0, False)]
)
def test_an_estimate_outside_of_its_range(estimate, possible):
    assert (impossible_estimate(estimate, 0.01) is None) == possible


@pytest.mark.parametrize("outcome", Outcome)
def test_no_drift_never_stands_beside_an_estimate_above_what_it_excludes(outcome):
    """The population's above what is tolerated, or the cohort's above what is excluded."""
    verdict = Verdict(
        outcome, Cause.LIMITS, "as said", None, threshold=0.1, alarm=Alarm(), lower_bound=0.0
    )
    for population, cohort in ((0.1, 0.2), (0.05, 0.0)):
        assert held_against_estimates(verdict, population, cohort, None) is verdict
    held = held_against_estimates(verdict, None, 0.2, None)  # quiet is of what it would have shown
    assert (held is verdict) is (outcome is not Outcome.NO_ALARM)
    for population, cohort, told in ((0.15, 0.1, "0.150"), (0.05, 0.3, "0.300")):
        held = held_against_estimates(verdict, population, cohort, None)
        if outcome is Outcome.DRIFT:
            assert held is verdict
            continue
        assert held.outcome is Outcome.INCONCLUSIVE
        if outcome is not Outcome.INCONCLUSIVE or population > 0.1:
            assert told in held.reason
