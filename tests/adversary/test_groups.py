"""A server that chooses groups so small that a sum without noise shows single clients."""

import json

import numpy as np
import pytest
from federation import REFERENCE, app_of, grid_of

from flwr_kld.clients import FirstUse
from flwr_kld.cohort.cohort import Participant
from flwr_kld.errors import CheckFailed
from flwr_kld.privacy.bits import SystemBits
from flwr_kld.query.partition import Partition
from flwr_kld.query.selection import EVERYTHING, MOST_GROUPS, Selection
from flwr_kld.secure_aggregation.policy import ClientPolicy
from flwr_kld.strategies import Distributed, KLDrift, SecureSum, Trusted
from flwr_kld.strategies.publisher import Publisher


class Grouping:
    """Asks everybody, in groups of clients."""

    def __init__(self, groups: int, by: str = "client") -> None:
        self.groups, self.by = groups, by

    def draw(self, present, generator):
        return present

    def recall(self, rotation, present):
        pass

    def select(self):
        return Selection(groups=self.groups, by=self.by)


def ask(groups, trust=None, nodes=20, policy=None, by="client"):
    app = app_of(secure_sum=FirstUse(policy or ClientPolicy()))
    monitor = KLDrift(
        REFERENCE, trust or Trusted(1.0), aggregation=SecureSum(), cohort=Grouping(groups, by)
    )
    return monitor.check(grid_of(app, nodes))


@pytest.mark.parametrize("groups", [65536, MOST_GROUPS + 1])
def test_a_selection_has_no_more_groups_than_a_check_needs(groups):
    text = json.dumps({**json.loads(EVERYTHING.to_json()), "groups": groups}, sort_keys=True)
    with pytest.raises(ValueError, match="the selection of records"):
        Selection.from_json(text.replace(", ", ",").replace(": ", ":"))


@pytest.mark.parametrize(("nodes", "groups"), [(20, 7), (20, MOST_GROUPS), (5, 2)])
def test_sums_without_noise_keep_groups_of_the_minimum_cohort(nodes, groups):
    with pytest.raises(CheckFailed, match="clients a group"):
        ask(groups, nodes=nodes)


def test_the_clients_own_minimum_decides():
    strict = ClientPolicy(min_cohort=6)
    with pytest.raises(CheckFailed, match="minimum is 6 clients a group"):
        ask(4, policy=strict)


@pytest.mark.parametrize(
    ("trust", "groups", "by"),
    [
        (Trusted(20.0), 6, "client"),  # 20 clients: three a group
        (Trusted(20.0), MOST_GROUPS, "record"),  # every client is in every group
        (Distributed(20.0, min_survivors=11), MOST_GROUPS, "client"),  # noise is in every cell
    ],
)
def test_groups_that_hide_clients_are_counted(trust, groups, by):
    plan = Partition(16).draw(REFERENCE, np.random.default_rng(0))
    publisher = Publisher(trust, SecureSum(), 11, SystemBits())
    published = publisher.publish(
        grid_of(app_of(secure_sum=FirstUse())),
        [Participant(1000 + i) for i in range(20)],
        plan.over(Selection(groups=groups, by=by)),
        check="c",
        group="1",
        timeout=60.0,
    )
    counted = published.values.values.reshape(plan.cells, groups)
    assert abs(counted.sum() - 2000) <= 60  # noise of at most 40 cells at epsilon 20


def test_everybody_together_is_one_group():
    assert ask(1).cohort.survivors == 20
