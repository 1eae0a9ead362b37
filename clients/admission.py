"""Asks the operator's guard before any handler of a client answers.

Where the guard's file is comes from the node: its config (``drift-guard``) or its environment
(``FLWR_KLD_GUARD``), never from a message, the run config, or the app that the server ships.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from flwr.app import Context

from flwr_kld.clients.node_config import require_known
from flwr_kld.clients.records_of_node import require_no_sample
from flwr_kld.common.errors import DomainError, QueryRefused
from flwr_kld.guard.guard import Guard
from flwr_kld.guard.limits import GuardFileError
from flwr_kld.guard.secure_sum_policy import ClientPolicy
from flwr_kld.kernel.count import InvalidReply
from flwr_kld.trust.terms import Terms

NODE_CONFIG = "drift-guard"
"""Key of the node config."""
ENVIRONMENT = "FLWR_KLD_GUARD"
"""Variable for nodes without that key."""

logger = logging.getLogger("flwr_kld")

_T = TypeVar("_T")


class Gate:
    """The node's guard, if there is one, before whatever one message asks."""

    def __init__(self, context: Context, terms: Terms) -> None:
        require_no_sample(context)
        self._context, self._terms, self._guard = context, terms, guard_of(context)

    def admit(self, member: int) -> None:
        """Let the guard judge the terms and reserve what they spend; without a guard, allow it.

        To be called once for each member and check, after the terms were understood and before
        anything is counted or any key is made; on a night of a standing session, as soon as the
        member's memory has it.
        """
        self._ask(Guard.admit, member)

    def judge(self) -> None:
        """Refuse terms beyond the guard's limits, before much is computed; `admit` does, too."""
        self._ask(lambda guard, terms, _: guard.judge(terms), 0)

    def last_night(self, member: int) -> int:
        """Refuse what `admit` would refuse of any night; return the last one answered, or 0."""
        return self._ask(Guard.last_night, member) or 0

    def _ask(self, look: Callable[[Guard, Terms, str], _T], member: int) -> _T | None:
        if self._guard is None:
            return None
        try:
            return look(self._guard, self._terms, account(self._context, member))
        except QueryRefused as error:
            logger.warning("this node's guard refused a check: %s", error)
            raise


def policy_of(context: Context) -> ClientPolicy:
    """Return the minimums of a secure sum: its operator's, or the usual ones without a guard."""
    guard = guard_of(context)
    return ClientPolicy() if guard is None else guard.policy


def guard_of(context: Context) -> Guard | None:
    """Return the node's guard, or None if its operator configured none."""
    require_known(context.node_config)
    place = context.node_config.get(NODE_CONFIG, os.environ.get(ENVIRONMENT))
    if place is None:
        return None
    try:
        # A relative path could lead into the app's own folder, which the server fills.
        if not isinstance(place, str) or not Path(place).is_absolute():
            raise GuardFileError("the guard file must be named by its absolute path")
        return Guard.from_file(place)
    except GuardFileError as error:
        raise _unusable(error) from None


def account(context: Context, member: int) -> str:
    """Name whose budget is spent: a member of this node, whatever id Flower gives the node."""
    partition = context.node_config.get("partition-id")
    return str(member) if partition is None else f"{partition}:{member}"


def require_claim(terms: Terms, *trusts: str) -> None:
    """Refuse terms that are over, or claim what this way of answering does not deliver."""
    terms.require_in_time(time.time())
    if terms.trust not in trusts:
        raise QueryRefused(
            f"the server claims trust model {terms.trust!r}, but its terms fit only "
            f"{', '.join(trusts)}"
        )
    terms.share()  # refuses noise that no share serves, before anything is admitted


def reason_of(error: Exception) -> str:
    """Return why a member does not answer, in words that quote no data."""
    if isinstance(error, DomainError | InvalidReply | QueryRefused):
        return str(error)
    return unexpected(error)  # Flower would send its text, which may quote anything


def unexpected(error: Exception) -> str:
    """Return what a server may know of an error that nobody foresaw: its type."""
    logger.error("a message failed on this client: %s", type(error).__name__)
    return f"the client could not go on ({type(error).__name__})"


def _unusable(error: GuardFileError) -> QueryRefused:
    """Tell the operator why, and the server only that."""
    logger.error("this node's guard refuses everything: %s", error)
    return QueryRefused("this client's guard is not usable: the operator's log says why")
