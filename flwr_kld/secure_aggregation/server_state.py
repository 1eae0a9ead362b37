"""What the server takes from each answer, in arrays over the cohort and its neighbour slots."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from flwr_kld.kernel.channels import word
from flwr_kld.kernel.vector import Private
from flwr_kld.secure_aggregation.errors import EquivocatingSurvivors, Tampered
from flwr_kld.secure_aggregation.graph import neighbour_table
from flwr_kld.secure_aggregation.keys import PUBLIC, SEAL_OVERHEAD
from flwr_kld.secure_aggregation.locks import unlock
from flwr_kld.secure_aggregation.messages import (
    COMMITMENT,
    LOCK,
    Advert,
    ClientMessage,
    MaskedVector,
    Phase,
    Reveal,
    SealedShares,
    advert_layout,
    box_size,
)
from flwr_kld.secure_aggregation.session import Session
from flwr_kld.secure_aggregation.shamir import SHARE
from flwr_kld.secure_aggregation.wire import Slots, pack_bits

_PHASES = 4


class ServerState(Private):
    """Everything that the clients of one session have sent. Private: shows no value."""

    __slots__ = (
        "adverts",
        "answered",
        "boxes",
        "commitments",
        "held",
        "locks",
        "mirror",
        "reveals",
        "session",
        "shares",
        "table",
        "total",
    )
    _hidden = frozenset({"locks", "reveals", "shares", "total"})

    def __init__(self, session: Session) -> None:
        n, k = session.size, session.shape.neighbours
        self.session = session
        self.table = neighbour_table(session.order, k)
        self.mirror = k - 1 - np.arange(k)
        self.answered = np.zeros((_PHASES, n), dtype=bool)
        self.adverts = np.zeros(n, dtype=advert_layout(session.sums))
        self.commitments = np.zeros(n, dtype=f"V{COMMITMENT * session.sums}")
        self.boxes = np.zeros((n, k, box_size(session.sums)), dtype=np.uint8)
        self.total = np.zeros(session.length, dtype=word(session.bits))
        self.locks = np.zeros((n, k), dtype=LOCK)
        self.reveals: dict[int, Reveal] = {}
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

    def beside(self, who: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Which of these clients' neighbours are among them too, shape [n, k]."""
        among: NDArray[np.bool_] = who[self.table] & who[:, None]
        return among

    def confirmed(self, who: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Whose reveals open if these, and no others, confirm the list of survivors, shape [n]."""
        opens: NDArray[np.bool_] = self.beside(who).sum(1) >= self.session.confirmations
        return opens

    def take(self, message: ClientMessage) -> None:
        """Take a message whose sender, phase and signature are right."""
        index = message.sender
        if isinstance(message, Advert):
            self._require_sums(len(message.mask_keys) // PUBLIC)
            self.adverts[index] = (message.mask_keys, message.seal_key, message.signature)
        elif isinstance(message, SealedShares):
            told = self._exactly(message.boxes, self.advertised[self.table[index]])
            self._require_sums(len(message.commitments) // COMMITMENT)
            self.boxes[index, told] = message.boxes.rows(self.boxes.shape[-1])
            self.commitments[index] = message.commitments
        elif isinstance(message, MaskedVector):
            vector = np.frombuffer(message.values, dtype=np.uint8)
            if len(vector) != self.total.nbytes:
                raise Tampered("the masked vector does not have the session's length")
            self.total += vector.view(self.total.dtype)
        else:
            if message.survivors != self.survivors:
                raise EquivocatingSurvivors("the client signed a different list of survivors")
            dealt = int(self.shared[self.table[index]].sum())
            if len(message.sealed) != SHARE * (1 + dealt) + SEAL_OVERHEAD:
                raise Tampered("the client reveals shares of clients that are not its neighbours")
            told = self._exactly(message.locks, self.alive[self.table[index]])
            self.locks[index, told] = np.frombuffer(message.locks.data, dtype=LOCK)
            self.reveals[index] = message

    def open_reveals(self) -> tuple[int, ...]:
        """Take the shares out of every reveal that enough neighbours confirmed."""
        who = self._who(Phase.REVEAL)
        owners = np.flatnonzero(self.confirmed(who))
        theirs = self.locks["confirmation"][self.table[owners], self.mirror]
        names, opened = owners.tolist(), set[int]()
        for index, plain in unlock(
            [self.reveals[index].sealed for index in names],
            self.survivors,
            names,
            self.locks["lock"][owners] ^ theirs,
            self.beside(who)[owners],
            self.session.confirmations,
        ):
            own, *_ = rows = np.frombuffer(plain, dtype=np.uint8).reshape(-1, SHARE)
            dealt = self.shared[self.table[index]]
            places = self.table[index, dealt], self.mirror[dealt] + 1
            self.shares[index, 0], self.shares[places] = own, rows[1:]
            self.held[index, 0] = self.held[places] = True
            opened.add(index)
        return tuple(index for index in names if index not in opened)

    @property
    def survivors(self) -> bytes:
        """Digest of the list of survivors."""
        return self.session.survivors_digest(pack_bits(self.alive))

    def following(self, session: Session) -> ServerState:
        """Return what is known in the second sum's session: its keys, and who may take part."""
        state = ServerState(session)
        mask_keys, committed = self.adverts["mask_keys"].tolist(), self.commitments.tolist()
        state.adverts["mask_keys"] = np.array([key[PUBLIC:] for key in mask_keys], f"V{PUBLIC}")
        state.commitments[:] = np.array([one[COMMITMENT:] for one in committed], f"V{COMMITMENT}")
        state.answered[Phase.ADVERTISE] = state.answered[Phase.SHARE] = self.alive
        return state

    def _require_sums(self, sums: int) -> None:
        if sums != self.session.sums:
            raise Tampered("the message is for a different number of sums")

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
