"""Signing keys of a node's clients in a secure sum: pinned, or trusted on first use."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from flwr.app import ConfigRecord, Context

from flwr_kld.clients.node_config import read_named
from flwr_kld.common.errors import QueryRefused
from flwr_kld.secure_sums import Identity, Roster

_KEYS = "flwr_kld.identities"
_ROSTER = "flwr_kld.roster"

IDENTITY = "drift-identity"
"""Key of the node config: file of the node's Ed25519 key, 32 bytes, mode 0600."""
ROSTER = "drift-roster"
"""Key of the node config: file of the pinned list of clients, ``Roster.to_json``."""


@runtime_checkable
class SumMembers(Protocol):
    """Names and keys of the clients on a node."""

    def name(self, context: Context, member: int) -> str:
        """Name of a member in the roster."""
        ...

    def identity(self, context: Context, member: int) -> Identity:
        """Signing key of a member."""
        ...

    def roster(self, context: Context, offered: str) -> Roster:
        """Return the list of clients to believe.

        `offered` is the server's list as JSON, or the fingerprint of the one that it has pinned.
        """
        ...


@dataclass(frozen=True)
class FirstUse:
    """Keys made on first use, and the server's list believed on first use, for one run.

    For simulations and demonstrations: a server that lies in the very first check could invent
    clients. A name's key cannot change afterwards.
    """

    def name(self, context: Context, member: int) -> str:
        """Return the Flower node id and the member's number."""
        return f"{context.node_id}:{member}"

    def identity(self, context: Context, member: int) -> Identity:
        """Return the member's key, made on first use and kept in the run's state."""
        keys = context.state.get(_KEYS)
        keys = keys if isinstance(keys, ConfigRecord) else ConfigRecord()
        secret = keys.get(str(member))
        if isinstance(secret, bytes):
            return Identity(secret)
        identity = Identity.generate()
        keys[str(member)] = identity.to_bytes()
        context.state[_KEYS] = keys
        return identity

    def roster(self, context: Context, offered: str) -> Roster:
        """Return the server's list, provided that it changes no key seen before."""
        if not offered.startswith("{"):
            raise QueryRefused("the server pins its roster, and this client pins none")
        seen = Roster.from_json(offered)
        record = context.state.get(_ROSTER)
        if isinstance(record, ConfigRecord):
            Roster.from_json(str(record["json"])).extended(seen)
        context.state[_ROSTER] = ConfigRecord({"json": seen.to_json()})
        return seen


@dataclass(frozen=True)
class PinnedByNode:
    """A long-term key and a roster, in files that each node's operator names at the SuperNode.

    ``--node-config 'drift-identity="/var/lib/flwr-kld/node.key"
    drift-roster="/etc/flwr-kld/roster.json"'``. The files are read anew for every message. The
    node's name is the one under which the list has its public key.

    Every method raises `QueryRefused` if a file is missing or not named, if others may read the
    key, or if the key is not in the list: the node then takes part in no secure sum. Its minimums
    are those of the node's guard, under ``[secure_sum]``.
    """

    def name(self, context: Context, member: int) -> str:
        """Return the node's pinned name."""
        key, roster = self._files(context)
        return roster.names[roster.keys.index(key.public)]

    def identity(self, context: Context, member: int) -> Identity:
        """Return the node's long-term key."""
        return self._files(context)[0]

    def roster(self, context: Context, offered: str) -> Roster:
        """Return the pinned list."""
        _, pinned = self._files(context)
        if offered not in (pinned.fingerprint.hex(), pinned.to_json()):
            raise QueryRefused("the server's roster is not the one pinned here")
        return pinned

    def _files(self, context: Context) -> tuple[Identity, Roster]:
        key = read_named(context, IDENTITY, "this node's signing key", Identity, secret=True)
        roster = read_named(context, ROSTER, "this node's roster", read_roster, secret=False)
        if key.public not in roster.keys:
            raise QueryRefused(
                "this node's signing key is not in its own roster, which should have the "
                f"public key {key.public.hex()}"
            )
        return key, roster


def read_roster(content: bytes) -> Roster:
    """Read a file of pinned clients; the error is `Malformed`, or a ValueError."""
    return Roster.from_json(content.decode())
