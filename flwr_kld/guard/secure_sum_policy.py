"""A client's minimums in a secure sum, whatever the server asks."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from flwr_kld.kernel.arguments import choice, finite, integer, set_fields

FEWEST_NEIGHBOURS = 24
"""Floor for large cohorts: below it the tails rest on a handful of clients."""


MOST_BITS = 256
"""Of security or of aborting, that can be asked for: more than any key has."""


class Collusion(StrEnum):
    """What corrupted clients may do together with the server."""

    # A server that lies *without* corrupted clients is withstood either way, with certainty.

    CURIOUS = "curious"
    """They pass on all they know to a server that follows the protocol, as they do."""
    LYING = "lying"
    """They and the server lie: about dropouts, and by confirming two lists of survivors."""


@dataclass(frozen=True, kw_only=True)
class ClientPolicy:
    """A client's own minimums, from a file that its operator owns."""

    min_asked: int = 3  # Fewest clients asked
    min_clients: int = 3  # Fewest clients in a sum. Two would show each the other's data.
    # Fewest neighbours, where the cohort is large enough to have that many
    min_neighbours: int = FEWEST_NEIGHBOURS
    # Fraction of its holders that opening a secret must take *more* of; at least 1/2
    min_threshold: float = 0.5
    corrupted: float = 0.04  # The coalition that the graph must withstand
    collusion: Collusion = Collusion.CURIOUS
    security_bits: int = 40

    def __post_init__(self) -> None:
        set_fields(
            self,
            # A sum over fewer than two clients hides nothing.
            min_asked=integer("min_asked", self.min_asked, least=2, unit="clients"),
            min_clients=integer("min_clients", self.min_clients, least=2, unit="clients"),
            min_neighbours=integer("min_neighbours", self.min_neighbours, least=1),
            min_threshold=finite("min_threshold", self.min_threshold, least=0.5, below=1),
            corrupted=finite("corrupted", self.corrupted, least=0, below=1),
            collusion=choice("collusion", self.collusion, Collusion),
            security_bits=integer("security_bits", self.security_bits, least=1, most=MOST_BITS),
        )
