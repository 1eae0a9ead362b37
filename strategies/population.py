"""Which clients there are to choose from."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Mapping
from typing import Protocol, runtime_checkable

from flwr.serverapp import Grid

from flwr_kld.ask.cohort import Participant
from flwr_kld.common.errors import CheckFailed
from flwr_kld.kernel.count import InvalidReply
from flwr_kld.strategies.exchange import NO_REPLY, failure, first_replies
from flwr_kld.trust.envelopes import ANSWER, HOSTED_ACTION, Hosted

logger = logging.getLogger("flwr.kld")


@runtime_checkable
class Population(Protocol):
    """Lists the clients that can be asked, in a fixed order."""

    # One that has to leave out connected nodes says why in an attribute ``left_out``, by node, as
    # `HostedClients` does: reports count them.

    def present(self, grid: Grid, timeout: float) -> list[Participant]:
        """Return everybody connected now."""
        ...


def nodes_left_out(population: Population) -> Counter[str]:
    """Count the nodes that a population left out when it was last asked, by reason."""
    left_out: Mapping[int, str] = getattr(population, "left_out", {})
    return Counter(f"node without a list of its clients: {why}" for why in left_out.values())


class Nodes:
    """Each connected Flower node is one client: every real deployment."""

    def present(self, grid: Grid, timeout: float) -> list[Participant]:
        """Return everybody connected now."""
        return [Participant(node) for node in sorted(grid.get_node_ids())]


class HostedClients:
    """Each node hosts many virtual clients: large simulations on few Flower nodes.

    Nodes are asked in every round which clients they host, and believed: a node that invents
    clients is none of this simulation's.

    Attributes
    ----------
    left_out : dict[int, str]
        Why nodes are left out that do not say which clients they host, by node.
    """

    def __init__(self) -> None:
        self.left_out: dict[int, str] = {}

    def present(self, grid: Grid, timeout: float) -> list[Participant]:
        """Return everybody connected now.

        Raises `CheckFailed` if no node says which clients it hosts.
        """
        nodes, hosted = sorted(grid.get_node_ids()), dict[int, tuple[int, ...]]()
        self.left_out = dict.fromkeys(nodes, NO_REPLY)
        for node, reply in first_replies(grid, nodes, HOSTED_ACTION, timeout):
            if reply.has_error():
                self.left_out[node] = failure(reply.error)
                continue
            try:
                hosted[node] = Hosted.from_config(reply.content.get(ANSWER)).members
                del self.left_out[node]
            except InvalidReply as error:
                self.left_out[node] = f"invalid reply: {error}"
        if nodes and not hosted:
            raise CheckFailed(
                "no node says which clients it hosts: does its app call host_drift_queries? "
                f"({next(iter(self.left_out.values()))})"
            )
        for node, why in self.left_out.items():
            logger.warning("node %s is left out: %s", node, why)
        return [Participant(node, m) for node in nodes for m in hosted.get(node, ())]
