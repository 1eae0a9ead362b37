"""One site in twenty that drifts is lost in its column, and found in the column of both."""

import numpy as np
from flwr.clientapp import ClientApp

from flwr_kld import Binned, Reference
from flwr_kld.clients import answer_drift_queries
from flwr_kld.report import Outcome
from flwr_kld.simulations.in_process_grid import InProcessGrid
from flwr_kld.strategies import Alarm, KLDrift, Trusted
from flwr_kld.table.table import Table

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


def check(drifted):
    """Simulated noise; clients round their sums at random."""
    asking = KLDrift(
        REFERENCE,
        Trusted(2.0, 1e-6),
        threshold={"site": 0.05, "age": 0.05, "site × age": 0.005},
        alarm=Alarm(horizon=1),
    )
    return asking.check(InProcessGrid(app_of(drifted), 20))


def test_pooled_it_is_lost_and_counted_by_site_it_is_found():
    """A site that holds a twentieth: D / 20 in the column of both, about D / 400 pooled."""
    columns = check(7).columns
    assert columns["site × age"].outcome is Outcome.DRIFT
    assert columns["age"].outcome is Outcome.NO_DRIFT
    assert columns["site × age"].sentence.startswith("site=site 7, age=< 10: ")


def test_where_no_site_moved_there_is_no_drift():
    assert check(None).outcome is not Outcome.DRIFT
