"""Which clients there are to choose from."""

from __future__ import annotations

from typing import Protocol

from flwr.app import ConfigRecord, Message, RecordDict
from flwr.serverapp import Grid

from flwr_kld.cohort.cohort import Participant
from flwr_kld.errors import CheckFailed, InvalidReply
from flwr_kld.messages.question import ANSWER, HOSTED_ACTION, QUESTION, Hosted


class Population(Protocol):
    """Lists the clients that can be asked, in a fixed order."""

    def present(self, grid: Grid, timeout: float) -> list[Participant]:
        """Return everybody connected now."""
        ...


class Nodes:
    """Each connected Flower node is one client: every real deployment."""

    def present(self, grid: Grid, timeout: float) -> list[Participant]:
        """Return everybody connected now."""
        return [Participant(node) for node in sorted(grid.get_node_ids())]


class HostedClients:
    """Each node hosts many virtual clients: large simulations on few Flower nodes.

    Nodes are asked once which clients they host.
    """

    def __init__(self) -> None:
        self._hosted: dict[int, list[int]] = {}

    def present(self, grid: Grid, timeout: float) -> list[Participant]:
        """Return everybody connected now."""
        nodes = sorted(grid.get_node_ids())
        unknown = [node for node in nodes if node not in self._hosted]
        if unknown:
            self._hosted.update(_ask_hosted(grid, unknown, timeout))
        return [Participant(node, m) for node in nodes for m in self._hosted.get(node, [])]


def _ask_hosted(grid: Grid, nodes: list[int], timeout: float) -> dict[int, list[int]]:
    content = RecordDict({QUESTION: ConfigRecord()})
    questions = [Message(content, node, f"query.{HOSTED_ACTION}", ttl=timeout) for node in nodes]
    hosted = {}
    for reply in grid.send_and_receive(questions, timeout=timeout):
        try:
            told = Hosted.from_config(reply.content.get(ANSWER) if reply.has_content() else None)
        except InvalidReply as error:
            raise CheckFailed(
                f"a node does not say which clients it hosts: host_drift_queries? ({error})"
            ) from None
        hosted[reply.metadata.src_node_id] = list(told.members)
    return hosted
