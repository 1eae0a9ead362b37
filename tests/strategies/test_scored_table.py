"""Checks of a table with a score: drifts that no column shows, and a model of the server's own."""

from dataclasses import replace

import numpy as np
import pytest
from federation import grid_of
from tables import table_app

from flwr_kld import Binned, Reference, Table
from flwr_kld.errors import CheckFailed
from flwr_kld.strategies import KLDrift, Trusted

TABLE = Table({"x": Binned.uniform(-2, 2, 10), "place": ["north", "south"]})


def rows_of(seed, number, broken=0.0):
    """Places that go with x, but for a part of the rows."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=number)
    place = np.where(x > 0, "north", "south")
    some = np.flatnonzero(rng.random(number) < broken)
    place[some] = rng.permutation(place[some])
    return {"x": x, "place": place}


REFERENCE = Reference.from_frame(TABLE, rows_of(0, 8000), score="dependence")


def app_of(broken, table=REFERENCE.domain):
    return table_app(lambda context: rows_of(context.node_id, 200, broken), table)


@pytest.mark.parametrize(("broken", "drifted"), [(0.3, ["dependence"]), (0.0, [])])
def test_the_score_alone_is_found_to_have_drifted(broken, drifted):
    monitor = KLDrift(REFERENCE, Trusted(2.0, 1e-6), threshold=0.02)
    report = monitor.check(grid_of(app_of(broken)))
    assert set(report.columns) == {"x", "place", "dependence"}
    assert [name for name, column in report.columns.items() if column.drifted] == drifted


def test_a_server_with_another_model_is_refused():
    score = REFERENCE.domain.scores["dependence"]
    others = [
        replace(score, trees=score.trees[1:]),
        replace(score, edges=[score.edges[0] - 1, *score.edges[1:]]),
    ]
    tables = [replace(TABLE, scores={"dependence": one}) for one in others]
    for table in [TABLE, *tables]:
        with pytest.raises(CheckFailed, match="domain"):
            KLDrift(REFERENCE, Trusted(2.0)).check(grid_of(app_of(0.0, table)))
