"""Reads the node config: the node's role, and the files that its operator names."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TypeVar

from flwr.app import Context

from flwr_kld.common.errors import QueryRefused, SecureSumError

ROLE = "drift-role"
"""Key of the node config; ``"aggregator"`` makes a node the aggregator."""


def is_aggregator(context: Context) -> bool:
    """Whether the node's operator made it an aggregator: it holds no records and trains nothing."""
    return context.node_config.get(ROLE) == "aggregator"


logger = logging.getLogger("flwr_kld")

_OURS = "drift-"
_KEYS = {
    "records", "query", "delimiter", "encoding", "decimal", "dates", "missing", "role", "guard",
    "identity", "roster", "key", "memory", "reports", "min-clients", "most-epsilon",
}  # fmt: skip

_T = TypeVar("_T")


def unknown(keys: Iterable[str]) -> list[str]:
    """Return the keys of ours that say nothing: each may be a misspelt limit."""
    return [
        key
        for key in keys
        if key.replace("_", "-").startswith(_OURS) and key.removeprefix(_OURS) not in _KEYS
    ]


def require_known(config: Mapping[str, object]) -> None:
    """Refuse a node config with a key of ours that says nothing."""
    for key in unknown(config):
        logger.error("the node config has %r: flwr-kld has no such key; correct it", key)
        raise QueryRefused("the node config has an unknown key: the operator's log says which")


def read_named(
    context: Context, key: str, what: str, read: Callable[[bytes], _T], *, secret: bool
) -> _T:
    """Read a file that the node config names."""
    place = context.node_config.get(key)
    # A relative path could lead into the app's own folder, which the server fills.
    if not isinstance(place, str) or not Path(place).is_absolute():
        raise QueryRefused(
            f"{what} must be named in the node config by its absolute path, under {key}"
        )
    try:
        with open(place, "rb") as file:
            if secret and os.name == "posix" and os.fstat(file.fileno()).st_mode & 0o077:
                raise PermissionError("others may read it: set its mode to 0600")
            return read(file.read())
    except (OSError, ValueError, SecureSumError) as error:
        logger.error("%s (%s) cannot be read from %s: %s", what, key, place, error)
        raise QueryRefused(f"{what} cannot be read: the operator's log says why") from None
