"""A Flower Grid in this process: the same ServerApp and ClientApp code, without Ray or network.

For tests and studies. Each node gets its own deep copy of a message, because Flower's mods may
change it, and keeps its own Context, as on a real deployment.
"""

from __future__ import annotations

import pickle
import secrets
from collections.abc import Callable, Iterable, Set
from itertools import islice
from uuid import uuid4

from flwr.app import Context, Error, Message, RecordDict
from flwr.app.user_config import UserConfig
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid
from flwr.supercore.run import Run
from flwr.supercore.task_identity import TaskIdentity

from flwr_kld.kernel.arguments import integer

_CLIENT_APP_RAISED = 2  # Flower's ErrorCode.CLIENT_APP_RAISED_EXCEPTION
_NODE_UNAVAILABLE = 5
_SERVER_NODE = 1
_AT_A_TIME = 8
"""Nodes that answer between two looks of the server: as on a SuperLink, it never has to hold all
replies."""


class InProcessGrid(Grid):
    """A Flower grid of nodes in this process, which answer some at a time: for tests and notebooks.

    Parameters
    ----------
    app : ClientApp
        Which every node runs.
    nodes : int
        How many there are; each knows its place by Flower's ``partition-id``.
    lose : Callable[[Message], bool], optional
        Whether a message of the server gets no reply.
    """

    def __init__(
        self, app: ClientApp, nodes: int, *, lose: Callable[[Message], bool] | None = None
    ) -> None:
        nodes = integer("nodes", nodes, least=1)
        run = secrets.randbits(62)  # as Flower draws it: nodes remember what they did in a run
        TaskIdentity.task_id, TaskIdentity.run_id, TaskIdentity.node_id = 1, run, _SERVER_NODE
        self.app = app
        self.lose = lose or (lambda _: False)
        self._run = Run.create_empty(run_id=run)
        self.contexts = {  # Of each node, by its id
            1000 + i: Context(
                run_id=run,
                node_id=1000 + i,
                node_config={"partition-id": i, "num-partitions": nodes},
                state=RecordDict(),
                run_config={},
            )
            for i in range(nodes)
        }
        self._messages: dict[str, Message] = {}

    def set_run(self, run: Run) -> None:
        """Set the run."""
        self._run = run

    @property
    def run(self) -> Run:
        """The run."""
        return self._run

    def set_run_config(self, config: UserConfig) -> None:
        """Give every node a run config, as ``flwr run`` does."""
        for context in self.contexts.values():
            context.run_config = dict(config)

    def create_message(
        self,
        content: RecordDict,
        message_type: str,
        dst_node_id: int,
        group_id: str,
        ttl: float | None = None,
    ) -> Message:
        """Create a message."""
        return Message(content, dst_node_id, message_type, ttl=ttl, group_id=group_id)

    def get_node_ids(self) -> Iterable[int]:
        """Ids of all nodes."""
        return list(self.contexts)

    def push_messages(self, messages: Iterable[Message]) -> Iterable[str]:
        """Keep messages until the server looks for replies."""
        sent = {}
        for message in messages:
            message.metadata.__dict__["_message_id"] = str(uuid4())
            sent[message.metadata.message_id] = message
        self._messages |= sent
        return list(sent)

    def pull_messages(self, message_ids: Iterable[str]) -> Iterable[Message]:
        """Let some of the nodes answer, in the order in which they were asked."""
        wanted = message_ids if isinstance(message_ids, Set) else set(message_ids)
        now = list(islice((i for i in self._messages if i in wanted), _AT_A_TIME))
        return [self.deliver(self._messages.pop(i)) for i in now]

    def send_and_receive(
        self, messages: Iterable[Message], *, timeout: float | None = None
    ) -> Iterable[Message]:
        """Deliver messages and return the replies; those of lost ones are errors."""
        sent, replies = set(self.push_messages(messages)), list[Message]()
        while came := list(self.pull_messages(sent)):
            replies += came
        return replies

    def deliver(self, message: Message) -> Message:
        """Return a node's reply."""
        if self.lose(message):
            return Message(Error(_NODE_UNAVAILABLE, "lost"), reply_to=message)
        received = pickle.loads(pickle.dumps(message))  # noqa: S301  # faster than deepcopy
        try:
            return self.app(received, self.contexts[message.metadata.dst_node_id])
        except Exception as error:  # Flower reports whatever a ClientApp raises
            reason = f"{type(error)}:<'{error}'>"
            return Message(Error(_CLIENT_APP_RAISED, reason), reply_to=message)
