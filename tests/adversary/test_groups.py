"""A server that asks clients to count in groups, so small that a sum shows single clients.

Checks once knew such groups: no field of a message can ask for them any more.
"""

import json
from types import SimpleNamespace

import numpy as np
import pytest
from adversary.lying_server import SCENARIOS, watching
from adversary.mutations import allotment_of
from federation import REFERENCE, app_of, grid_of
from sealed_federation import KEY, federation

from flwr_kld.clients import FirstUse
from flwr_kld.errors import CheckFailed
from flwr_kld.query.partition import Partition
from flwr_kld.query.plan import plan_fingerprint
from flwr_kld.query.selection import EVERYTHING, Selection
from flwr_kld.strategies import KLDrift

PLAN = Partition(1000).draw(REFERENCE, np.random.default_rng(0))
GROUPS = [{"groups": 1}, {"groups": 65536}, {"groups": 2, "by": "client"}, {"by": "record"}]


def in_groups(selection: str, groups: dict[str, object]) -> str:
    changed = json.loads(selection) | groups
    return json.dumps(changed, sort_keys=True, separators=(",", ":"))


@pytest.mark.parametrize("groups", GROUPS)
def test_a_selection_has_no_groups(groups):
    with pytest.raises(ValueError, match="the selection of records: it has a field"):
        Selection.from_json(in_groups(EVERYTHING.to_json(), groups))


@pytest.mark.parametrize("groups", GROUPS)
@pytest.mark.parametrize("name", ["plain", "sum", "sealed", "shares"])
def test_a_question_that_asks_for_groups_is_refused_before_anything_is_counted(name, groups):
    """In every trust model, and though the plan's fingerprint fits what is asked."""
    trust, kind = SCENARIOS[name]
    app = app_of(secure_sum=FirstUse(), aggregator=KEY.public)

    def client(message, context):
        record = "terms"
        asked = message.content.get(record, {})
        if "selection" in asked:
            text = in_groups(asked["selection"], groups)
            named = SimpleNamespace(to_json=lambda: text)
            asked["selection"] = text
            asked["plan"] = plan_fingerprint(
                REFERENCE.fingerprint, PLAN.cell_of, named, allotment_of(asked)
            )
        return app(message, context)

    grid = federation(client) if trust.aggregator_keys else grid_of(client, 12)
    with watching() as seen, pytest.raises(CheckFailed, match="a field that is not known"):
        KLDrift(REFERENCE, trust, aggregation=kind and kind()).check(grid)
    assert not seen.admitted
    assert not seen.counted
