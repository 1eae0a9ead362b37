"""A hospital: its identity, its roster of the others and its records are files of its own."""

import time
from pathlib import Path

from flwr.app import Context
from flwr.clientapp import ClientApp

from flwr_kld import Labels
from flwr_kld.clients import Pinned, answer_drift_queries
from flwr_kld.secure_sum import ClientPolicy, Identity, Roster

app = ClientApp()


class NodeFiles:
    """`Pinned`, from the files that the node's operator names in ``--node-config``."""

    policy = ClientPolicy()

    def name(self, context: Context, member: int) -> str:
        return self._pinned(context).name(context, member)

    def identity(self, context: Context, member: int) -> Identity:
        return self._pinned(context).identity(context, member)

    def roster(self, context: Context, offered: Roster) -> Roster:
        return self._pinned(context).roster(context, offered)

    def _pinned(self, context: Context) -> Pinned:
        config = context.node_config
        key = Identity(Path(str(config["identity"])).read_bytes())
        roster = Roster.from_json(Path(str(config["roster"])).read_text())
        return Pinned(str(config["name"]), key, roster, self.policy)


def records(context: Context) -> list[str]:
    """This node's records. If the test has set a trap here, the node is caught in it."""
    trap = Path(str(context.node_config["trap"]))
    if trap.exists():
        trap.with_suffix(".caught").touch()
        time.sleep(120)
        raise TimeoutError
    return Path(str(context.node_config["records"])).read_text().split()


answer_drift_queries(app, records, Labels(["bus", "car", "train", "walk"]), secure_sum=NodeFiles())
