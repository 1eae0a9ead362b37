"""Where a client stands: its neighbours, and what it checks of what it is told about them."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from flwr_kld.secure_aggregation import errors, keys
from flwr_kld.secure_aggregation.graph import neighbours_of
from flwr_kld.secure_aggregation.identity import Identity, Roster
from flwr_kld.secure_aggregation.messages import (
    Advert,
    Adverts,
    ClientMessage,
    Survivors,
    advert_layout,
    signed_text,
)
from flwr_kld.secure_aggregation.session import Session
from flwr_kld.secure_aggregation.wire import Slots, unpack_bits

_Signed = TypeVar("_Signed", bound=ClientMessage)


@dataclass(frozen=True, eq=False)
class Seat:
    """Where a client stands on the circle."""

    session: Session  # Whose circle it is
    index: int  # The client's place in the cohort
    neighbours: NDArray[np.int64]  # Shape [k]: the neighbours' cohort indices, by slot
    identity: Identity = field(repr=False)  # Signs for the client

    @classmethod
    def of(cls, session: Session, index: int, identity: Identity) -> Seat:
        """Find the neighbours of one client of the cohort."""
        neighbours = neighbours_of(session.order, index, session.shape.neighbours)
        return cls(session, index, neighbours, identity)

    def signed(self, message: _Signed) -> _Signed:
        """Return this client's message with its signature."""
        text = signed_text(self.session.digest, message.kind, self.index, message.body())
        return replace(message, signature=self.identity.sign(text))

    def verified(self, adverts: Adverts, roster: Roster) -> list[Advert]:
        """Return the adverts of those neighbours that sent one, which their identities signed."""
        session = self.session
        members = self.neighbours[self.asked(adverts.adverts, adverts.sums)].tolist()
        fields = np.frombuffer(adverts.adverts.data, advert_layout(session.sums)).tolist()
        theirs = [
            Advert(session.tag, peer, signature, mask_keys, seal_key)
            for peer, (mask_keys, seal_key, signature) in zip(members, fields, strict=True)
        ]
        for advert in theirs:
            text = signed_text(session.digest, advert.kind, advert.sender, advert.body())
            roster.verify(session.cohort[advert.sender], advert.signature, text)
        return theirs

    def slots(self, packed: bytes) -> NDArray[np.bool_]:
        """Read a bitmap over the neighbours, shape [k]."""
        return unpack_bits(packed, self.session.shape.neighbours)

    def asked(self, slots: Slots, sums: int) -> NDArray[np.bool_]:
        """Which neighbours a server's message is about, shape [k]."""
        if slots.count != self.session.shape.neighbours or sums != self.session.sums:
            raise errors.Tampered("the message is not about this client's neighbours and sums")
        return slots.mask()

    def require_neighbours(self, left: NDArray[np.bool_]) -> None:
        """Go on only with neighbours enough to confirm a list (`Shape.confirmations`)."""
        there, needed = int(left.sum()), self.session.confirmations
        if there < needed:
            raise errors.TooFewSurvivors(
                f"{there} of this client's neighbours are left; {needed} are needed"
            )

    def surviving(self, survivors: Survivors, view: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Which neighbours a list of survivors holds, shape [k], if it is one to confirm."""
        session = self.session
        if survivors.size != session.size:
            raise errors.Tampered("the list of survivors is not of this cohort")
        alive = unpack_bits(survivors.alive, session.size)
        if not alive[self.index]:
            raise errors.NotASurvivor("this client sent its vector, but the list leaves it out")
        if (left := int(alive.sum())) < session.min_survivors:
            raise errors.CohortTooSmall(
                f"{left} survivors; the session promised {session.min_survivors}"
            )
        beside: NDArray[np.bool_] = alive[self.neighbours]
        if (beside & ~view).any():
            raise errors.MissingMask("a surviving neighbour's mask is not in this client's vector")
        self.require_neighbours(beside)
        return beside


def confirmations(keys_of: list[bytes], survivors: bytes, by: list[int]) -> NDArray[np.uint8]:
    """Return the confirmations of a list under keys that pairs share, shape [senders, 17]."""
    found = [keys.confirmation(key, survivors, i) for key, i in zip(keys_of, by, strict=True)]
    return np.frombuffer(b"".join(found), dtype=np.uint8).reshape(-1, keys.CONFIRMATION)
