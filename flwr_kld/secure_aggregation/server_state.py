"""What the server takes from each answer, in arrays over the cohort and its neighbour slots."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from flwr_kld.privacy.private import Private
from flwr_kld.secure_aggregation.errors import BothShares, EquivocatingSurvivors, Tampered
from flwr_kld.secure_aggregation.graph import neighbour_table
from flwr_kld.secure_aggregation.keys import TAG
from flwr_kld.secure_aggregation.messages import (
    ADVERT,
    BOX,
    Advert,
    Agreement,
    ClientMessage,
    MaskedVector,
    Phase,
    Reveal,
    SealedShares,
)
from flwr_kld.secure_aggregation.ring import word
from flwr_kld.secure_aggregation.session import Session
from flwr_kld.secure_aggregation.shamir import SHARE
from flwr_kld.secure_aggregation.wire import Slots, pack_bits

_PHASES = 5


class ServerState(Private):
    """Everything that the clients of one session have sent. Private: shows no value.

    Parameters
    ----------
    session : Session
        Session that the sum belongs to.

    Attributes
    ----------
    table : NDArray[np.int64]
        Shape [n, k]: neighbours by slot.
    mirror : NDArray[np.int64]
        Shape [k]: the slot in which a neighbour has the client.
    answered : NDArray[np.bool_]
        Shape [5, n]: whose answer came, by phase.
    adverts : NDArray
        Shape [n]: one-use public keys and signature, as `ADVERT`.
    commitments : NDArray
        Shape [n], 32 bytes each: commitments to the seeds.
    boxes : NDArray[np.uint8]
        Shape [n, k, 84]: shares sealed by a client for its neighbour.
    total : NDArray
        Shape [length]: sum of the masked vectors.
    tags : NDArray[np.uint8]
        Shape [n, k, 16]: confirmations by a client for its neighbour.
    agreements : dict[int, bytes]
        Signed agreements, by cohort index.
    shares : NDArray[np.uint8]
        Shape [n, k + 1, 34]: shares of a survivor's seed or a dropout's mask key, by holder (the
        owner first).
    held : NDArray[np.bool_]
        Shape [n, k + 1]: which of them came.
    """

    __slots__ = (
        "adverts",
        "agreements",
        "answered",
        "boxes",
        "commitments",
        "held",
        "mirror",
        "session",
        "shares",
        "table",
        "tags",
        "total",
    )
    _hidden = frozenset({"shares", "total"})

    def __init__(self, session: Session) -> None:
        n, k = session.size, session.shape.neighbours
        self.session = session
        self.table = neighbour_table(session.order, k)
        self.mirror = k - 1 - np.arange(k)
        self.answered = np.zeros((_PHASES, n), dtype=bool)
        self.adverts = np.zeros(n, dtype=ADVERT)
        self.commitments = np.zeros(n, dtype="V32")
        self.boxes = np.zeros((n, k, BOX), dtype=np.uint8)
        self.total = np.zeros(session.length, dtype=word(session.bits))
        self.tags = np.zeros((n, k, TAG), dtype=np.uint8)
        self.agreements: dict[int, bytes] = {}
        self.shares = np.zeros((n, k + 1, SHARE), dtype=np.uint8)
        self.held = np.zeros((n, k + 1), dtype=bool)

    @property
    def advertised(self) -> NDArray[np.bool_]:
        """Who sent keys, shape [n]."""
        return self._who(Phase.ADVERTISE)

    @property
    def shared(self) -> NDArray[np.bool_]:
        """Who dealt shares, shape [n]: pairwise masks exist between these."""
        return self._who(Phase.SHARE)

    @property
    def alive(self) -> NDArray[np.bool_]:
        """Whose vectors are in the total, shape [n]."""
        return self._who(Phase.MASK)

    @property
    def agreed(self) -> NDArray[np.bool_]:
        """Who signed the list of survivors, shape [n]."""
        return self._who(Phase.AGREE)

    def take(self, message: ClientMessage) -> None:
        """Take a message whose sender, phase and signature are right.

        Raises
        ------
        Tampered, EquivocatingSurvivors, BothShares
            What is wrong with its content; nothing of it is kept.
        """
        index = message.sender
        if isinstance(message, Advert):
            self.adverts[index] = (message.mask_key, message.seal_key, message.signature)
        elif isinstance(message, SealedShares):
            told = self._exactly(message.boxes, self.advertised[self.table[index]])
            self.boxes[index, told] = message.boxes.rows(BOX)
            self.commitments[index] = message.commitment
        elif isinstance(message, MaskedVector):
            vector = np.frombuffer(message.values, dtype=np.uint8)
            if len(vector) != self.total.nbytes:
                raise Tampered("the masked vector does not have the session's length")
            self.total += vector.view(self.total.dtype)
        elif isinstance(message, Agreement):
            if message.survivors != self.session.survivors_digest(pack_bits(self.alive)):
                raise EquivocatingSurvivors("the client signed another list of survivors")
            told = self._exactly(message.tags, self.alive[self.table[index]])
            self.tags[index, told] = message.tags.rows(TAG)
            self.agreements[index] = message.to_bytes()
        else:
            self._take_reveal(index, message)

    def wanted(self, index: int) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        """Whose seeds and whose mask keys a client has shares of that open the sum, shape [k]."""
        beside = self.table[index]
        dealt, alive = self.shared[beside], self.alive[beside]
        return dealt & alive, dealt & ~alive

    def _take_reveal(self, index: int, message: Reveal) -> None:
        given, wanted = (message.seeds, message.mask_keys), self.wanted(index)
        one, other = (int.from_bytes(slots.present, "little") for slots in given)
        if one & other:
            raise BothShares("a client sent both shares of a neighbour")
        for slots, expected in zip(given, wanted, strict=True):
            self._exactly(slots, expected)
        self.shares[index, 0] = np.frombuffer(message.own, dtype=np.uint8)
        self.held[index, 0] = True
        for slots, mask in zip(given, wanted, strict=True):
            owners, holders = self.table[index, mask], self.mirror[mask] + 1
            self.shares[owners, holders] = slots.rows(SHARE)
            self.held[owners, holders] = True

    def _exactly(self, slots: Slots, expected: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Return the mask of a client's slots: those that it was told of, no more and no fewer."""
        if slots.count != self.session.shape.neighbours:
            raise Tampered("the message is not about the client's neighbours")
        if slots.present != pack_bits(expected):
            raise Tampered("the message leaves neighbours out, or adds some")
        return expected

    def _who(self, phase: Phase) -> NDArray[np.bool_]:
        who: NDArray[np.bool_] = self.answered[phase]
        return who
