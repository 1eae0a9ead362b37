"""The secret that keys a node's hashes of record ids: drawn once, and kept on the node.

Where it is kept comes from the node, never from a message, the run config, or the app.
"""

from __future__ import annotations

import hmac
import logging
from pathlib import Path

from flwr.app import Context

from flwr_kld.clients.admission import account, guard_of
from flwr_kld.errors import QueryRefused
from flwr_kld.guard.limits import GuardFileError
from flwr_kld.guard.receipts import node_secret

NODE_CONFIG = "drift-salt"
"""Key of the node config: the absolute path of a file, made on first use."""

logger = logging.getLogger("flwr_kld")


def record_secret(context: Context, member: int) -> bytes:
    """Return the salt of one member's record ids, from its guard's key or from ``drift-salt``."""
    kept = _kept(context)
    if kept is None:
        raise QueryRefused(
            "a rotation over buckets of records needs a secret that outlasts this run: name a "
            f"guard file (drift-guard) or a file for the secret ({NODE_CONFIG}) in the node config"
        )
    whose = f"flwr-kld record ids of {account(context, member)}"
    return hmac.digest(kept, whose.encode(), "sha256")


def _kept(context: Context) -> bytes | None:
    """Read the node's lasting secret, if it has one."""
    place = context.node_config.get(NODE_CONFIG)
    try:
        guard = guard_of(context)
        if guard is not None:
            return guard.record_secret()
        if place is None:
            return None
        # A relative path could lead into the app's own folder, which the server fills.
        if not isinstance(place, str) or not Path(place).is_absolute():
            raise GuardFileError("it must be named by its absolute path")
        return node_secret(Path(place))
    except (GuardFileError, OSError) as error:
        logger.error("the secret for record ids (%s) cannot be used: %s", NODE_CONFIG, error)
        raise QueryRefused(
            "the secret for record ids cannot be used: the operator's log says why"
        ) from None
