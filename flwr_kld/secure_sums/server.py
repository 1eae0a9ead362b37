"""The server's state in a secure sum, in arrays over the cohort and its neighbour slots."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from flwr_kld.common.canonical_bytes import Slots, pack_bits
from flwr_kld.common.errors import (
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
from flwr_kld.common.identity import Roster
from flwr_kld.kernel.channels import WORD, apply_masks
from flwr_kld.kernel.vector import Private, RingSum
from flwr_kld.secure_sums import keys
from flwr_kld.secure_sums.graph import neighbour_table
from flwr_kld.secure_sums.keys import SEAL_OVERHEAD
from flwr_kld.secure_sums.locks import unlock
from flwr_kld.secure_sums.messages import (
    ADVERT,
    BOX,
    COMMITMENT,
    LOCK,
    Advert,
    Adverts,
    ClientMessage,
    Deliveries,
    MaskedVector,
    Message,
    Phase,
    Reveal,
    SealedShares,
    ServerMessage,
    Survivors,
    signed_text,
)
from flwr_kld.secure_sums.session import Session
from flwr_kld.secure_sums.shamir import SHARE, combine

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
        self.adverts = np.zeros(n, dtype=ADVERT)
        self.commitments = np.zeros(n, dtype=f"V{COMMITMENT}")
        self.boxes = np.zeros((n, k, BOX), dtype=np.uint8)
        self.total = np.zeros(session.length, dtype=WORD)
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
        return np.asarray(self.beside(who).sum(1) >= self.session.shape.confirmations)

    def take(self, message: ClientMessage) -> None:
        """Take a message whose sender, phase and signature are right."""
        index = message.sender
        if isinstance(message, Advert):
            self.adverts[index] = (message.mask_key, message.seal_key, message.signature)
        elif isinstance(message, SealedShares):
            slots = self._exactly(message.boxes, self.advertised[self.table[index]])
            self.boxes[index, slots] = message.boxes.rows(BOX)
            self.commitments[index] = message.commitment
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
            slots = self._exactly(message.locks, self.alive[self.table[index]])
            self.locks[index, slots] = np.frombuffer(message.locks.data, dtype=LOCK)
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
            self.session.shape.confirmations,
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

    def _exactly(self, slots: Slots, expected: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Return the mask of a client's slots: those that it was sent, no more and no fewer."""
        if slots.count != self.session.shape.neighbours:
            raise Tampered("the message is not about the client's neighbours")
        if slots.present != pack_bits(expected):
            raise Tampered("the message leaves neighbours out, or adds some")
        return expected

    def _who(self, phase: Phase) -> NDArray[np.bool_]:
        who: NDArray[np.bool_] = self.answered[phase]
        return who


class SumResult(Private):
    """A sum over the survivors, and nobody else. Private: shows no value."""

    __slots__ = ("survivors", "total")

    def __init__(self, total: RingSum, survivors: tuple[str, ...]) -> None:
        self.total, self.survivors = total, survivors


class SumServer(Private):
    """One session: `receive` what clients answer, then `advance`, four times; then `result`."""

    # A message that is refused leaves the session as it was: its sender counts as dropped out.

    __slots__ = ("_phase", "_result", "_roster", "_state", "session")

    def __init__(self, session: Session, roster: Roster) -> None:
        if session.roster != roster.fingerprint:
            raise RosterMismatch("the session was opened over a different roster")
        self.session = session
        self._roster = roster
        self._phase = Phase.ADVERTISE
        self._state = ServerState(session)
        self._result: SumResult | None = None

    @property
    def phase(self) -> Phase:
        """The phase whose answers are awaited."""
        return self._phase

    def name(self, index: int) -> str:
        """Name of the client with this cohort index."""
        return self._roster.names[self.session.cohort[index]]

    def receive(self, message: Message, sender: str | None = None) -> None:
        """Take one client's answer."""
        if not isinstance(message, ClientMessage):
            raise Malformed("not a client's message")
        if message.session != self.session.tag:
            raise WrongSession("the message belongs to another session")
        phase, index = message.phase, message.sender
        if not 0 <= index < self.session.size:
            raise UnknownSender("the sender is not in the cohort")
        if sender is not None and sender != self.name(index):
            raise UnknownSender("the message and its transport name different senders")
        answered = self._state.answered
        if phase < self._phase or (phase == self._phase and answered[phase, index]):
            raise Replayed(f"{phase.name} of client {index} is closed")
        if phase > self._phase:
            raise OutOfOrder(f"{phase.name} comes after {self._phase.name}")
        if not self._is_there(index):
            raise UnknownSender(f"client {index} has already dropped out")
        text = signed_text(self.session.digest, message.kind, index, message.body())
        self._roster.verify(self.session.cohort[index], message.signature, text)
        self._state.take(message)
        answered[phase, index] = True

    def advance(self) -> dict[int, ServerMessage]:
        """Close the phase; return the next request for each client that is still there."""
        if self._phase >= Phase.DONE:
            raise OutOfOrder("this session is over")
        closed = self._phase
        try:
            self._require_enough(closed)
            if closed is Phase.REVEAL:
                self._open()
                requests: dict[int, ServerMessage] = {}
            else:
                requests = _next_requests(self._state, closed)
        except BaseException:
            self._phase = Phase.REFUSED
            raise
        self._phase = Phase.DONE if closed is Phase.REVEAL else Phase(closed + 1)
        return requests

    def result(self) -> SumResult:
        """Return the sum."""
        if self._result is None:
            raise OutOfOrder("there is no sum: the session is not over, or was given up")
        return self._result

    def __repr__(self) -> str:
        return f"SumServer({self._phase.name}, {self.session.size} clients)"

    def _is_there(self, index: int) -> bool:
        """Whether a client answered in the phase before this one."""
        before = self._phase - 1
        return before < Phase.ADVERTISE or bool(self._state.answered[before, index])

    def _require_enough(self, closed: Phase) -> None:
        """Give up when too few answered to lead to a sum."""
        answered = int(self._state.answered[closed].sum())
        until_masked = closed <= Phase.MASK
        least = self.session.min_clients if until_masked else self.session.shape.threshold
        if answered < least:
            raise TooFewSurvivors(
                f"{answered} clients answered in {closed.name}; at least {least} must"
            )

    def _open(self) -> None:
        _open_sum(self._state)
        survivors = tuple(map(self.name, np.flatnonzero(self._state.alive).tolist()))
        self._result = SumResult(RingSum(self._state.total), survivors)


def _next_requests(state: ServerState, closed: Phase) -> dict[int, ServerMessage]:
    """Return a request for each client that answered in the phase now closed, by cohort index."""
    if closed is Phase.MASK:
        _require_holders(state)
    write = _WRITERS[closed]
    members = np.flatnonzero(state.answered[closed]).tolist()
    return {index: write(state, index) for index in members}


def _adverts(state: ServerState, index: int) -> Adverts:
    beside = state.table[index]
    there = state.advertised[beside]
    adverts = Slots.of(there, state.adverts[beside[there]])
    return Adverts(state.session.tag, adverts)


def _deliveries(state: ServerState, index: int) -> Deliveries:
    beside = state.table[index]
    there = state.shared[beside]
    boxes = state.boxes[beside[there], state.mirror[there]]
    return Deliveries(state.session.tag, Slots.of(there, boxes))


def _survivors(state: ServerState, index: int) -> Survivors:
    session = state.session
    return Survivors(session.tag, session.size, pack_bits(state.alive))


_WRITERS: dict[Phase, Callable[[ServerState, int], ServerMessage]] = {
    Phase.ADVERTISE: _adverts,
    Phase.SHARE: _deliveries,
    Phase.MASK: _survivors,
}


def _require_holders(state: ServerState) -> None:
    """Give up when some secret that opens the sum has too few holders whose reveals can open."""
    alive, table = state.alive, state.table
    holders = state.confirmed(alive)
    left = holders[table].sum(1) + holders  # a dropout holds nothing of its own
    needed = alive | (state.shared & alive[table].any(1))
    threshold = state.session.shape.threshold
    if (left[needed] < threshold).any():
        raise TooFewSurvivors(
            f"too few of a client's holders sent a vector; the threshold is {threshold}"
        )


def _open_sum(state: ServerState) -> None:
    """Take all masks off the total, in place."""
    session, alive = state.session, state.alive
    shut = state.open_reveals()
    survivors = np.flatnonzero(alive)
    beside = alive[state.table]  # [n, k]
    missing = np.flatnonzero(state.shared & ~alive & beside.any(1))
    seeds, mask_secrets = (_secrets(state, whose, shut) for whose in (survivors, missing))
    public = state.adverts["mask_key"].tolist()

    added: list[bytes] = []
    removed: list[bytes] = []
    for index, seed in zip(survivors.tolist(), seeds, strict=True):
        committed = state.commitments[index].tobytes()
        if not seed or keys.commitment(seed, session.digest, index) != committed:
            raise Tampered(f"the shares of client {index} of the cohort open to a different seed")
        removed.append(keys.self_mask_key(seed, session.digest, index))
    for index, secret in zip(missing.tolist(), mask_secrets, strict=True):
        own = secret and keys.OneUseKey(secret)
        if not own or own.public != public[index]:
            raise Tampered(f"the shares of client {index} of the cohort open to a different key")
        for peer in state.table[index, beside[index]].tolist():
            key = keys.mask_key(own, public[peer], session.digest, index, peer)
            (removed if peer < index else added).append(key)
    apply_masks(state.total, added, removed)


def _secrets(
    state: ServerState, owners: NDArray[np.int64], shut: tuple[int, ...]
) -> list[bytes | None]:
    """Open the owners' secrets; nothing in place of one that was not shared so."""
    threshold = state.session.shape.threshold
    if (state.held[owners].sum(1) < threshold).any():
        why = f"; the answers of clients {shut} of the cohort do not open" if shut else ""
        raise TooFewSurvivors(f"a secret has fewer shares than the threshold {threshold}{why}")
    return combine(state.shares[owners], state.held[owners], threshold)
