"""A client's seat in one session: who its neighbours are, and what holds in every phase."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from flwr_kld.secure_aggregation.errors import Tampered, TooFewSurvivors
from flwr_kld.secure_aggregation.graph import neighbours_of
from flwr_kld.secure_aggregation.identity import Identity
from flwr_kld.secure_aggregation.messages import signed_text
from flwr_kld.secure_aggregation.session import Session
from flwr_kld.secure_aggregation.wire import Slots, unpack_bits


@dataclass(frozen=True, eq=False)
class Seat:
    """Where a client stands on the circle.

    Parameters
    ----------
    session : Session
        Whose circle it is.
    index : int
        The client's place in the cohort.
    neighbours : NDArray[np.int64]
        Shape [k]: the neighbours' cohort indices, by slot.
    identity : Identity
        Signs for the client.
    """

    session: Session
    index: int
    neighbours: NDArray[np.int64]
    identity: Identity = field(repr=False)

    @classmethod
    def of(cls, session: Session, index: int, identity: Identity) -> Seat:
        """Find the neighbours of one client of the cohort."""
        neighbours = neighbours_of(session.order, index, session.shape.neighbours)
        return cls(session, index, neighbours, identity)

    def sign(self, kind: int, body: bytes) -> bytes:
        """Sign the content of this client's message."""
        return self.identity.sign(signed_text(self.session.digest, kind, self.index, body))

    def slots(self, packed: bytes) -> NDArray[np.bool_]:
        """Read a bitmap over the neighbours, shape [k]."""
        return unpack_bits(packed, self.session.shape.neighbours)

    def asked(self, slots: Slots) -> NDArray[np.bool_]:
        """Which neighbours a server's message is about, shape [k].

        Raises
        ------
        Tampered
            If it is about another number of neighbours.
        """
        if slots.count != self.session.shape.neighbours:
            raise Tampered("the message is not about this client's neighbours")
        return slots.mask()

    def require_holders(self, left: NDArray[np.bool_]) -> None:
        """With itself a client needs t holders to go on, and some on either side of the circle.

        Otherwise a server could cut the circle with k/2 clients in a row that it calls dropped
        out, and open the sums of the two arcs.

        Parameters
        ----------
        left : NDArray[np.bool_]
            Shape [k]: the neighbours that are still there.

        Raises
        ------
        TooFewSurvivors
            If this client would go on with too few.
        """
        session, holders = self.session, int(left.sum()) + 1
        if holders < session.shape.threshold:
            raise TooFewSurvivors(
                f"{holders} of this client's holders are left; "
                f"the threshold is {session.shape.threshold}"
            )
        half = session.shape.neighbours // 2
        if len(left) < session.size - 1 and not (left[:half].any() and left[half:].any()):
            raise TooFewSurvivors("nobody is left on one side of this client's circle")
