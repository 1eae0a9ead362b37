"""Stores which checks were answered, so that no copy of a message or state is answered twice.

A claim is written down *before* anything is computed, in up to three places. The process remembers
claims, so two messages that are handled at the same time do not both get through; the run's
``Context.state`` remembers checks, also in another process; a file, where the node has one, in any
process and any run, and after a power cut.
"""

from __future__ import annotations

import hashlib
import logging
import sqlite3
import threading
from pathlib import Path

from flwr.app import ConfigRecord, Context

from flwr_kld.clients.admission import guard_of
from flwr_kld.common.durable_files import Schema, writing
from flwr_kld.common.errors import QueryRefused

logger = logging.getLogger("flwr_kld")

MEMORY = "drift-memory"
"""Key of the node config: the node's own file of claims."""
_MOST = 2**17
"""Claims that a process remembers, some 100 bytes each; the oldest are forgotten first."""
_SCHEMA = Schema(
    1,
    ["CREATE TABLE claims (answer TEXT PRIMARY KEY) WITHOUT ROWID"],
    rows="SELECT answer FROM claims ORDER BY answer",
)

_claimed: dict[bytes, None] = {}
_claiming = threading.Lock()


def use_once(context: Context, use: str, check: str, file: Path | None) -> None:
    """Claim a node's one answer to a check; of nodes that share a file, each has its own."""
    used = context.state.get(use)
    used = used if isinstance(used, ConfigRecord) else ConfigRecord()
    if check in used:
        raise QueryRefused(_TWICE)
    claim(context, f"{use} {check} {context.node_config.get('partition-id', '')}", file)
    used[check] = True
    context.state[use] = used


def claim(context: Context, answer: str, file: Path | None) -> None:
    """Claim one answer: whoever comes second, at whatever time, is refused."""
    text = f"{context.run_id} {context.node_id} {answer}"
    key = hashlib.blake2b(text.encode(), digest_size=16).digest()
    with _claiming:
        if key in _claimed:
            raise QueryRefused(_TWICE)
        _claimed[key] = None
        if len(_claimed) > _MOST:
            del _claimed[next(iter(_claimed))]
    if file is not None:
        _write_down(file, answer)


def claims_file(context: Context) -> Path | None:
    """Return the node's file of claims: the one that its config names, or one by its receipts."""
    place = context.node_config.get(MEMORY)
    if place is None:
        guard = guard_of(context)
        if guard is None:
            return None
        receipts = guard.limits.receipts
        return receipts.with_name(f"{receipts.name}.claims")
    if not isinstance(place, str) or not Path(place).is_absolute():
        raise QueryRefused(
            f"the memory of checks must be named by its absolute path, under {MEMORY}"
        )
    return Path(place)


def standing_file(context: Context) -> Path:
    """Return the node's file of standing sessions, beside that of claims, or in Flower's folder."""
    claims = claims_file(context)
    if claims is None:
        return flower_folder() / "standing.db"
    return claims.with_name(f"{claims.name.removesuffix('.claims')}.standing")


def flower_folder() -> Path:
    """Return this machine's folder of memories, in Flower's own."""
    # Imported here: most clients do without.
    from flwr.supercore.utils import get_flwr_home

    folder = get_flwr_home() / "flwr-kld"
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise unusable(folder, error) from None
    return folder


def unusable(place: Path, error: Exception) -> QueryRefused:
    """Tell the operator why, and the server only that."""
    logger.error("the memory of checks in %s cannot be used: %s", place, error)
    return QueryRefused("the memory of checks cannot be used: the operator's log says why")


def _write_down(file: Path, answer: str) -> None:
    try:
        with writing(file, _SCHEMA) as db:
            db.execute("INSERT INTO claims VALUES (?)", (answer,))
    except sqlite3.IntegrityError:
        raise QueryRefused(_TWICE) from None
    except (sqlite3.Error, OSError) as error:
        raise unusable(file, error) from None


_TWICE = "AnsweredAlready: a check or round is answered once; ask again with a new one"
