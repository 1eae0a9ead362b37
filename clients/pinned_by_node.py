"""Pinned keys for one app on many nodes: each node's key and list of clients are its own files."""

from __future__ import annotations

from dataclasses import dataclass, field

from flwr.app import Context

from flwr_kld.clients.node_files import read_named
from flwr_kld.clients.sum_members import Pinned
from flwr_kld.errors import QueryRefused
from flwr_kld.secure_aggregation import Identity, Roster
from flwr_kld.secure_aggregation.policy import ClientPolicy

IDENTITY = "drift-identity"
"""Key of the node config: file of the node's Ed25519 key, 32 bytes, mode 0600."""
ROSTER = "drift-roster"
"""Key of the node config: file of the pinned list of clients, ``Roster.to_json``."""


@dataclass(frozen=True)
class PinnedByNode:
    """`Pinned`, from files that each node's operator names when the SuperNode is started.

    ``--node-config 'drift-identity="/var/lib/flwr-kld/node.key"
    drift-roster="/etc/flwr-kld/roster.json"'``. The files are read anew for every message. The
    node's name is the one under which the list has its public key.

    Every method raises `QueryRefused` if a file is missing or not named, if others may read the
    key, or if the key is not in the list: the node then takes part in no secure sum.

    Parameters
    ----------
    policy : ClientPolicy
        The client's own minimums, which the server cannot lower.
    """

    policy: ClientPolicy = field(default_factory=ClientPolicy)

    def name(self, context: Context, member: int) -> str:
        """Return the node's pinned name."""
        return self._pinned(context).own_name

    def identity(self, context: Context, member: int) -> Identity:
        """Return the node's long-term key."""
        return self._pinned(context).key

    def roster(self, context: Context, offered: str) -> Roster:
        """Return the pinned list."""
        return self._pinned(context).roster(context, offered)

    def _pinned(self, context: Context) -> Pinned:
        key = read_named(context, IDENTITY, "this node's signing key", Identity, secret=True)
        roster = read_named(context, ROSTER, "this node's list of clients", _roster, secret=False)
        if key.public not in roster.keys:
            raise QueryRefused(
                "this node's signing key is not in its own list of clients, which should have the "
                f"public key {key.public.hex()}"
            )
        name = roster.names[roster.keys.index(key.public)]
        return Pinned(name, key, roster)


def _roster(content: bytes) -> Roster:
    return Roster.from_json(content.decode())
