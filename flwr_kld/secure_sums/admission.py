"""Decides whether a client joins a secure sum: by its minimums, its question, its roster."""

from __future__ import annotations

from flwr_kld.common.errors import (
    CohortTooSmall,
    RosterMismatch,
    ThresholdTooLow,
    TooFewNeighbours,
    WrongSession,
)
from flwr_kld.common.identity import Roster
from flwr_kld.guard.secure_sum_policy import ClientPolicy
from flwr_kld.secure_sums.graph import Tolerance, require_secure
from flwr_kld.secure_sums.session import Session


def check_policy(session: Session, policy: ClientPolicy) -> None:
    """Refuse a session that falls below a minimum of the client."""
    n, k, t = session.size, session.shape.neighbours, session.shape.threshold
    if n < policy.min_asked:
        raise CohortTooSmall(f"a cohort of {n}; this client's minimum is {policy.min_asked}")
    if session.min_clients < policy.min_clients:
        raise CohortTooSmall(
            f"a sum over {session.min_clients} would be enough for the server; "
            f"this client's minimum is {policy.min_clients}"
        )
    if t <= policy.min_threshold * (k + 1):
        raise ThresholdTooLow(
            f"{t} of {k + 1} holders; this client requires a fraction above "
            f"{policy.min_threshold:g}"
        )
    if k < min(policy.min_neighbours, n - 1):
        raise TooFewNeighbours(f"{k} neighbours; this client requires {policy.min_neighbours}")
    coalition = Tolerance(
        corrupted=policy.corrupted,
        collusion=policy.collusion,
        security_bits=policy.security_bits,
    )
    require_secure(n, session.shape, coalition)


def check_question(session: Session, roster: Roster, *, terms: str, length: int) -> None:
    """Refuse a session that is not about what the client was asked."""
    if session.terms != terms:
        raise WrongSession("the session has other terms than those beside it")
    if session.length != length:
        raise WrongSession("the sum's length is not that of its terms")
    check_roster(session, roster)


def check_roster(session: Session, roster: Roster) -> None:
    """Refuse a session over other clients than the roster lists."""
    if session.roster != roster.fingerprint or session.listed != len(roster):
        raise RosterMismatch("the server's roster is not the pinned one")
