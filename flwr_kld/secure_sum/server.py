"""The server's side of a sum: collects what clients send, passes on what they may see."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from flwr_kld.secure_sum.errors import (
    BothShares,
    EquivocatingSurvivors,
    Malformed,
    OutOfOrder,
    Replayed,
    RosterMismatch,
    Tampered,
    TooFewSurvivors,
    UnknownSender,
    WrongSession,
)
from flwr_kld.secure_sum.graph import neighbour_table
from flwr_kld.secure_sum.identity import Roster
from flwr_kld.secure_sum.keys import TAG
from flwr_kld.secure_sum.memory import Phase
from flwr_kld.secure_sum.messages import (
    ADVERT,
    BOX,
    Advert,
    Adverts,
    Agreement,
    ClientMessage,
    Deliveries,
    MaskedVector,
    Reveal,
    SealedShares,
    ServerMessage,
    Survivors,
    UnmaskRequest,
    signed_text,
)
from flwr_kld.secure_sum.ring import word
from flwr_kld.secure_sum.session import Session
from flwr_kld.secure_sum.shamir import SHARE
from flwr_kld.secure_sum.unmask import Opening, open_sum
from flwr_kld.secure_sum.wire import Slots, pack_bits

_EXPECTED: dict[Phase, type[ClientMessage]] = {
    Phase.ADVERTISE: Advert,
    Phase.SHARE: SealedShares,
    Phase.MASK: MaskedVector,
    Phase.AGREE: Agreement,
    Phase.UNMASK: Reveal,
}
_PHASE_OF = {kind: phase for phase, kind in _EXPECTED.items()}


@dataclass(frozen=True, eq=False)
class SumResult:
    """A sum over the survivors, and nobody else. Shows no value.

    Parameters
    ----------
    values : NDArray
        Shape [length], uint32 or uint64: the sum modulo 2^bits.
    survivors : tuple[str, ...]
        Names of the clients whose vectors are in it.
    dropped : tuple[str, ...]
        Names of the cohort's other clients.
    agreements : dict[str, bytes]
        Each signer's `Agreement`: evidence of the list of survivors.
    """

    values: NDArray[Any] = field(repr=False)
    survivors: tuple[str, ...]
    dropped: tuple[str, ...]
    agreements: dict[str, bytes] = field(repr=False)


class SumServer:
    """One session. `receive` what clients answer, then `advance`, five times; then `result`.

    A message that is refused leaves the session as it was: its sender counts as dropped out.

    Parameters
    ----------
    session : Session
        Sent to every client of the cohort as it is.
    roster : Roster
        The pinned public keys.
    """

    def __init__(self, session: Session, roster: Roster) -> None:
        if session.roster != roster.fingerprint:
            raise RosterMismatch("the session was opened over another list of clients")
        n, k = session.size, session.shape.neighbours
        self.session = session
        self._roster = roster
        self._phase = Phase.ADVERTISE
        self._table = neighbour_table(session.order, k)
        self._mirror = k - 1 - np.arange(k)
        self._present = np.ones(n, dtype=bool)  # may answer in this phase
        self._answered = np.zeros(n, dtype=bool)
        self._adverts = np.zeros((n, ADVERT), dtype=np.uint8)
        self._commitments = np.zeros((n, 32), dtype=np.uint8)
        self._boxes = np.zeros((n, k, BOX), dtype=np.uint8)
        self._boxed = np.zeros((n, k), dtype=bool)
        self._shared = self._alive = np.zeros(n, dtype=bool)
        self._total = np.zeros(session.length, dtype=word(session.bits))
        self._tags = np.zeros((n, k, TAG), dtype=np.uint8)
        self._tagged = np.zeros((n, k), dtype=bool)
        self._agreements: dict[int, bytes] = {}
        self._shares = np.zeros((n, k + 1, SHARE), dtype=np.uint8)
        self._held = np.zeros((n, k + 1), dtype=bool)
        self._wanted: dict[int, tuple[bytes, bytes]] = {}
        self._result: SumResult | None = None

    @property
    def phase(self) -> Phase:
        """The phase whose answers are awaited."""
        return self._phase

    @property
    def awaited(self) -> tuple[int, ...]:
        """Cohort indices that may still answer in this phase."""
        return tuple(np.flatnonzero(self._present & ~self._answered).tolist())

    def name(self, index: int) -> str:
        """Name of the client with this cohort index."""
        return self._roster.names[self.session.cohort[index]]

    def receive(self, message: ClientMessage, sender: str | None = None) -> None:
        """Take one client's answer.

        Parameters
        ----------
        sender : str, optional
            Who the transport says it is; refused if the message names another.

        Raises
        ------
        WrongSession, OutOfOrder, Replayed, UnknownSender, BadSignature, Tampered, Malformed,
        EquivocatingSurvivors
            Why the message is left out.
        """
        phase = _PHASE_OF.get(type(message))
        if phase is None:
            raise Malformed("not a client's message")
        if message.session != self.session.tag:
            raise WrongSession("the message belongs to another session")
        index = message.sender
        if not 0 <= index < self.session.size:
            raise UnknownSender("the sender is not in the cohort")
        if sender is not None and sender != self.name(index):
            raise UnknownSender("the message names another sender than its transport")
        if phase < self._phase or (phase == self._phase and self._answered[index]):
            raise Replayed(f"{phase.name} of client {index} is closed")
        if phase > self._phase:
            raise OutOfOrder(f"{phase.name} comes after {self._phase.name}")
        if not self._present[index]:
            raise UnknownSender(f"client {index} dropped out before")
        body = message.body()
        text = signed_text(self.session.digest, message.kind, index, body)
        self._roster.verify(self.session.cohort[index], message.signature, text)
        self._take(index, message)
        self._answered[index] = True

    def advance(self) -> dict[int, ServerMessage]:
        """Close the phase; return the next request for each client that is still there.

        After the last phase nothing is left to ask: the sum is opened and `result` holds it.

        Raises
        ------
        TooFewSurvivors
            If the sum cannot be opened any more; there is no value.
        Tampered
            If a client's shares open to something else than it committed to.
        """
        if self._phase >= Phase.DONE:
            raise OutOfOrder("this session is over")
        closed, answered = self._phase, self._answered
        try:
            if int(answered.sum()) < self._least(closed):
                raise TooFewSurvivors(
                    f"{int(answered.sum())} clients answered in {closed.name}; "
                    f"at least {self._least(closed)} must"
                )
            requests = self._close(closed, answered)
        except BaseException:
            self._phase = Phase.REFUSED
            raise
        self._phase = Phase(closed + 1)
        self._present, self._answered = answered, np.zeros_like(answered)
        return requests

    def result(self) -> SumResult:
        """Return the sum.

        Raises
        ------
        OutOfOrder
            If it was not opened, or given up.
        """
        if self._result is None:
            raise OutOfOrder("there is no sum: the session is not over, or was given up")
        return self._result

    def __repr__(self) -> str:
        return f"SumServer({self._phase.name}, {self.session.size} clients)"

    # -- what each answer holds -----------------------------------------------------------------

    def _take(self, index: int, message: ClientMessage) -> None:
        if isinstance(message, Advert):
            raw = message.body() + message.signature
            self._adverts[index] = np.frombuffer(raw, dtype=np.uint8)
        elif isinstance(message, SealedShares):
            mask = self._slots(index, message.boxes, self._answered_before(index))
            self._boxes[index, mask] = message.boxes.rows(BOX)
            self._boxed[index] = mask
            self._commitments[index] = np.frombuffer(message.commitment, dtype=np.uint8)
        elif isinstance(message, MaskedVector):
            vector = np.frombuffer(message.values, dtype=np.uint8)
            if len(vector) != self._total.nbytes:
                raise Tampered("the masked vector does not have the session's length")
            self._total += vector.view(self._total.dtype)
        elif isinstance(message, Agreement):
            if message.survivors != self.session.survivors_digest(pack_bits(self._alive)):
                raise EquivocatingSurvivors("the client signed another list of survivors")
            mask = self._slots(index, message.tags, self._alive[self._table[index]])
            self._tags[index, mask] = message.tags.rows(TAG)
            self._tagged[index] = mask
            self._agreements[index] = message.to_bytes()
        else:
            self._take_reveal(index, message)

    def _answered_before(self, index: int) -> NDArray[np.bool_]:
        """Which neighbours took part in the phase before."""
        beside: NDArray[np.bool_] = self._present[self._table[index]]
        return beside

    def _slots(self, index: int, slots: Slots, expected: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Mask of a client's slots; exactly those that it was told of."""
        if slots.count != self.session.shape.neighbours:
            raise Tampered("the message is not about the client's neighbours")
        mask = slots.mask()
        if (mask != expected).any():
            raise Tampered("the message leaves neighbours out, or adds some")
        return mask

    def _take_reveal(self, index: int, message: Reveal) -> None:
        seeds, mask_keys = message.seeds.mask(), message.mask_keys.mask()
        if (seeds & mask_keys).any():
            raise BothShares("a client sent both shares of a neighbour")
        if (message.seeds.present, message.mask_keys.present) != self._wanted[index]:
            raise Tampered("the client did not send the shares it was asked for")
        self._shares[index, 0] = np.frombuffer(message.own, dtype=np.uint8)
        self._held[index, 0] = True
        for mask, slots in ((seeds, message.seeds), (mask_keys, message.mask_keys)):
            owners, theirs = self._table[index, mask], self._mirror[mask] + 1
            self._shares[owners, theirs] = slots.rows(SHARE)
            self._held[owners, theirs] = True

    # -- what each phase leads to ---------------------------------------------------------------

    def _least(self, closed: Phase) -> int:
        """Fewest answers that can still lead to a sum."""
        if closed <= Phase.MASK:
            return self.session.min_survivors
        return self.session.shape.threshold

    def _close(self, closed: Phase, answered: NDArray[np.bool_]) -> dict[int, ServerMessage]:
        asked = np.flatnonzero(answered).tolist()
        tag, table = self.session.tag, self._table
        if closed is Phase.ADVERTISE:
            beside = answered[table]
            return {
                i: Adverts(tag, Slots.of(beside[i], self._adverts[table[i, beside[i]]]))
                for i in asked
            }
        if closed is Phase.SHARE:
            self._shared = answered
            sent = self._sent()
            return {
                i: Deliveries(
                    tag,
                    Slots.of(sent[i], self._boxes[table[i, sent[i]], self._mirror[sent[i]]]),
                )
                for i in asked
            }
        if closed is Phase.MASK:
            self._alive = answered
            self._require_holders(answered, "sent a vector")
            packed = pack_bits(answered)
            return {i: Survivors(tag, self.session.size, packed) for i in asked}
        if closed is Phase.AGREE:
            self._require_holders(answered, "agreed on the survivors")
            return {i: self._request(i, answered) for i in asked}
        self._open()
        return {}

    def _sent(self) -> NDArray[np.bool_]:
        """Which neighbours' boxes each client receives, shape [n, k]."""
        sent: NDArray[np.bool_] = self._shared[self._table] & self._boxed[self._table, self._mirror]
        return sent

    def _require_holders(self, holders: NDArray[np.bool_], what: str) -> None:
        """Give up when some secret has too few holders left to be opened."""
        beside = holders[self._table].sum(1) + (holders & self._alive)
        needed = self._alive | (self._shared & self._alive[self._table].any(1))
        if (beside[needed] < self.session.shape.threshold).any():
            raise TooFewSurvivors(
                f"too few of a client's holders {what}; the threshold is "
                f"{self.session.shape.threshold}"
            )

    def _request(self, index: int, agreed: NDArray[np.bool_]) -> UnmaskRequest:
        beside = self._table[index]
        sent = self._shared[beside]
        seeds, mask_keys = sent & self._alive[beside], sent & ~self._alive[beside]
        signed = agreed[beside]
        tags = self._tags[beside[signed], self._mirror[signed]]
        nothing: list[bytes] = []
        request = UnmaskRequest(
            self.session.tag,
            Slots.of(seeds, nothing),
            Slots.of(mask_keys, nothing),
            Slots.of(signed, tags),
        )
        self._wanted[index] = request.seeds.present, request.mask_keys.present
        return request

    def _open(self) -> None:
        opening = Opening(
            self.session,
            self._table,
            alive=self._alive,
            shared=self._shared,
            adverts=self._adverts,
            commitments=self._commitments,
            shares=self._shares,
            held=self._held,
        )
        open_sum(opening, self._total)
        members = range(self.session.size)
        self._result = SumResult(
            self._total,
            tuple(self.name(i) for i in members if self._alive[i]),
            tuple(self.name(i) for i in members if not self._alive[i]),
            {self.name(i): signed for i, signed in sorted(self._agreements.items())},
        )
