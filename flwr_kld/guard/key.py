"""A node's secret in a file that only its operator reads: its signing key."""

from __future__ import annotations

import os
import secrets
import stat
from pathlib import Path

from flwr_kld.codec.durable import make
from flwr_kld.guard.limits import GuardFileError
from flwr_kld.sums import Identity

_LENGTH = 32


def node_identity(path: Path) -> Identity:
    """Read the signing key, or make it on first use; raises what `node_secret` does."""
    return Identity(node_secret(path))


def node_secret(path: Path) -> bytes:
    """Read 32 secret bytes, or draw them on first use."""
    try:
        return _read(path)
    except FileNotFoundError:
        make(path, secrets.token_bytes(_LENGTH))
        return _read(path)


def _read(path: Path) -> bytes:
    with path.open("rb") as file:
        if os.name == "posix" and stat.S_IMODE(os.fstat(file.fileno()).st_mode) & 0o077:
            raise GuardFileError("others may read the node's key file: set its mode to 0600")
        secret = file.read(_LENGTH + 1)
    if len(secret) != _LENGTH:
        raise GuardFileError("the node's key file does not hold 32 bytes")
    return secret
