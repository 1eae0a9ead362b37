"""One site in twenty that drifts: pooled, it is lost; by segment, it is found and named."""

from functools import cache

import numpy as np
import pytest
from flwr.clientapp import ClientApp

from flwr_kld import Binned, Reference
from flwr_kld.clients import answer_drift_queries
from flwr_kld.domain.table import Table
from flwr_kld.report import Outcome
from flwr_kld.simulations.in_process_grid import InProcessGrid
from flwr_kld.strategies import Alarm, KLDrift, Trusted

SITES = [f"site {i}" for i in range(20)]
EACH = 2000
TABLE = Table({"site": SITES, "age": Binned(range(10, 100, 10))}, by="site")
AGES = (np.arange(100_000) % 5000 + 0.5) / 50
REFERENCE = Reference.from_samples(TABLE, {"site": np.repeat(SITES, 5000), "age": AGES})


def app_of(drifted):
    """A node a site; those who drifted are younger."""

    def rows(context):
        site = context.node_id % 20
        age = 100 * np.random.default_rng(context.node_id).random(EACH)
        if site == drifted:
            age = age**3 / 1e4
        return {"site": EACH * [SITES[site]], "age": age}

    app = ClientApp()
    answer_drift_queries(app, rows, TABLE)
    return app


@cache
def check(drifted, threshold):
    """Simulated noise; clients round their sums at random."""
    asking = KLDrift(
        REFERENCE,
        Trusted(2.0, 1e-6),
        threshold={"site": 0.05, "age": 0.05, "site × age": threshold},
        alarm=Alarm(horizon=1),
        seed=1,
    )
    return asking.check(InProcessGrid(app_of(drifted), 20))


def test_pooled_it_is_lost_and_by_segment_it_is_found():
    report = check(7, 0.05)
    age, by_site = report.columns["age"], report.columns["site × age"]
    assert age.outcome is Outcome.NO_DRIFT
    assert not age.segments
    assert by_site.segments[0].name == "site 7"
    assert by_site.segments[0].lower > 0.1
    assert max(one.lower for one in by_site.segments[1:]) < 0.05  # what is tolerated
    assert len(by_site.segments) == 20


def test_no_drift_is_not_said_beside_a_segment_that_moved():
    report = check(7, 0.05)
    assert report.column == "site × age"
    assert report.outcome is Outcome.INCONCLUSIVE
    assert "above 0.05 nats by themselves: site 7 (at least" in str(report)
    assert "site 7" in report.columns["site × age"].sentence


def test_the_deciding_half_alarms_where_the_threshold_is_a_sites_share():
    report = check(7, 0.005)
    assert report.outcome is Outcome.DRIFT
    assert report.column == "site × age"
    assert "site 7 (at least" in str(report)
    assert report.columns["age"].outcome is Outcome.NO_DRIFT


def test_a_witness_of_both_sees_the_part_of_one_site_and_not_its_square():
    """A site that holds a twentieth: D / 20 in the column of both, about D / 400 pooled."""
    columns = check(7, 0.005).columns
    site = columns["site × age"].segments[0].estimate
    whole, pooled = (columns[name].verdict.lower_bound for name in ("site × age", "age"))
    assert 0.2 * site / 20 < whole < 1.2 * site / 20
    assert pooled < site / 200


@pytest.mark.parametrize("threshold", [0.05, 0.005])
def test_where_nothing_moved_nothing_is_named(threshold):
    report = check(None, threshold)
    assert report.outcome is not Outcome.DRIFT
    assert [one.lower for one in report.columns["site × age"].segments] == [0.0] * 20
    assert "by themselves" not in str(report)
