"""What a client insists on, whatever the server asks."""

from __future__ import annotations

from dataclasses import dataclass

from flwr_kld.common.errors import (
    CohortTooSmall,
    RosterMismatch,
    ThresholdTooLow,
    TooFewNeighbours,
    WrongSession,
)
from flwr_kld.common.identity import Roster
from flwr_kld.kernel.arguments import keep, real, whole
from flwr_kld.secure_sums.graph import FEWEST_NEIGHBOURS, Collusion, Tolerance, require_secure
from flwr_kld.secure_sums.session import Session


@dataclass(frozen=True, kw_only=True)
class ClientPolicy:
    """A client's own minimums, from a file that its operator owns."""

    min_asked: int = 3  # Fewest clients asked
    min_clients: int = 3  # Fewest clients in a sum. Two would show each the other's data.
    # Fewest neighbours, where the cohort is large enough to have that many
    min_neighbours: int = FEWEST_NEIGHBOURS
    # Fraction of its holders that opening a secret must take *more* of; at least 1/2
    min_threshold: float = 0.5
    corrupted: float = 0.04  # The coalition that the graph must withstand, as in `Tolerance`
    collusion: Collusion = Collusion.CURIOUS
    security_bits: int = 40

    def __post_init__(self) -> None:
        keep(
            self,
            # A sum over fewer than two clients hides nothing.
            min_asked=whole("min_asked", self.min_asked, least=2, unit="clients"),
            min_clients=whole("min_clients", self.min_clients, least=2, unit="clients"),
            min_neighbours=whole("min_neighbours", self.min_neighbours, least=1),
            min_threshold=real("min_threshold", self.min_threshold, least=0.5, below=1),
            corrupted=self.tolerance.corrupted,
            collusion=self.tolerance.collusion,
            security_bits=self.tolerance.security_bits,
        )

    @property
    def tolerance(self) -> Tolerance:
        """The coalition; dropouts do not concern the client."""
        return Tolerance(
            corrupted=self.corrupted, collusion=self.collusion, security_bits=self.security_bits
        )

    def check(self, session: Session) -> None:
        """Refuse a session that falls below a minimum."""
        n, k, t = session.size, session.shape.neighbours, session.shape.threshold
        if n < self.min_asked:
            raise CohortTooSmall(f"a cohort of {n}; this client's minimum is {self.min_asked}")
        if session.min_clients < self.min_clients:
            raise CohortTooSmall(
                f"a sum over {session.min_clients} would be enough for the server; "
                f"this client's minimum is {self.min_clients}"
            )
        if t <= self.min_threshold * (k + 1):
            raise ThresholdTooLow(
                f"{t} of {k + 1} holders; this client requires a fraction above "
                f"{self.min_threshold:g}"
            )
        if k < min(self.min_neighbours, n - 1):
            raise TooFewNeighbours(f"{k} neighbours; this client requires {self.min_neighbours}")
        require_secure(n, session.shape, self.tolerance)


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
