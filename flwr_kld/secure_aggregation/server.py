"""The server's side of secure aggregation: what it asks after each phase.

`SumServer` takes an answer only in its phase, and only from whom it is.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from flwr_kld.kernel.channels import apply_masks
from flwr_kld.kernel.vector import Private, RingSum
from flwr_kld.secure_aggregation import keys
from flwr_kld.secure_aggregation.errors import (
    Malformed,
    OutOfOrder,
    Replayed,
    RosterMismatch,
    Tampered,
    TooFewSurvivors,
    UnknownSender,
    WrongSession,
)
from flwr_kld.secure_aggregation.identity import Roster
from flwr_kld.secure_aggregation.messages import (
    COMMITMENT,
    Adverts,
    ClientMessage,
    Deliveries,
    Message,
    Phase,
    ServerMessage,
    Survivors,
    signed_text,
)
from flwr_kld.secure_aggregation.server_state import ServerState
from flwr_kld.secure_aggregation.session import Session
from flwr_kld.secure_aggregation.shamir import combine
from flwr_kld.secure_aggregation.wire import Slots, pack_bits


class SumResult(Private):
    """A sum over the survivors, and nobody else. Private: shows no value."""

    __slots__ = ("dropped", "reveals", "survivors", "total")
    _hidden = frozenset({"reveals"})

    def __init__(
        self,
        total: RingSum,
        survivors: tuple[str, ...],
        dropped: tuple[str, ...],
        reveals: dict[str, bytes],
    ) -> None:
        self.total = total
        self.survivors, self.dropped, self.reveals = survivors, dropped, reveals


class SumServer(Private):
    """One session. `receive` what clients answer, then `advance`, four times; then `result`.

    A message that is refused leaves the session as it was: its sender counts as dropped out.
    """

    __slots__ = ("_phase", "_result", "_roster", "_state", "asked_first", "session")

    def __init__(self, session: Session, roster: Roster) -> None:
        if session.roster != roster.fingerprint:
            raise RosterMismatch("the session was opened over a different roster")
        self.session = session
        self._roster = roster
        self._phase = Phase.ADVERTISE
        self._state = ServerState(session)
        self._result: SumResult | None = None
        self.asked_first: tuple[int, ...] = tuple(range(session.size))
        """Cohort indices of the clients that the session is sent to."""

    def following(self, *, check: str, terms: str, length: int) -> SumServer:
        """Return the server of a second sum over the survivors of this one, with the same keys.

        Its `session` goes to those in `asked_first`, who answer with their vectors.
        """
        if self._result is None or self.session.sums == 1:
            raise OutOfOrder("no second sum may follow this one")
        alive = pack_bits(self._state.alive)
        session = self.session.following(alive, check=check, terms=terms, length=length)
        server = SumServer(session, self._roster)
        server._phase, server._state = Phase.MASK, self._state.following(session)
        confirmed = np.flatnonzero(self._state.answered[Phase.REVEAL])
        server.asked_first = tuple(confirmed.tolist())
        return server

    @property
    def phase(self) -> Phase:
        """The phase whose answers are awaited."""
        return self._phase

    @property
    def awaited(self) -> tuple[int, ...]:
        """Cohort indices that may still answer in this phase; nobody when the session is over."""
        if self._phase >= Phase.AGAIN:
            return ()
        members = range(self.session.size)
        answered = self._state.answered[self._phase]
        return tuple(i for i in members if self._is_there(i) and not answered[i])

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
        """Close the phase; return the next request for each client that is still there.

        After the last phase nothing is left to ask: the sum is opened and `result` holds it.
        """
        if self._phase >= Phase.AGAIN:
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
        least = self.session.min_survivors if until_masked else self.session.shape.threshold
        if answered < least:
            raise TooFewSurvivors(
                f"{answered} clients answered in {closed.name}; at least {least} must"
            )

    def _open(self) -> None:
        _open_sum(self._state)
        alive, members = self._state.alive, range(self.session.size)
        self._result = SumResult(
            RingSum(self._state.total),
            tuple(self.name(i) for i in members if alive[i]),
            tuple(self.name(i) for i in members if not alive[i]),
            {self.name(i): told.to_bytes() for i, told in sorted(self._state.reveals.items())},
        )


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
    return Adverts(state.session.tag, state.session.sums, adverts)


def _deliveries(state: ServerState, index: int) -> Deliveries:
    beside = state.table[index]
    there = state.shared[beside]
    boxes = state.boxes[beside[there], state.mirror[there]]
    return Deliveries(state.session.tag, state.session.sums, Slots.of(there, boxes))


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
    public = [mask_keys[: keys.PUBLIC] for mask_keys in state.adverts["mask_keys"].tolist()]

    added: list[bytes] = []
    removed: list[bytes] = []
    for index, seed in zip(survivors.tolist(), seeds, strict=True):
        committed = state.commitments[index].tobytes()[:COMMITMENT]
        if not seed or keys.commitment(seed, session.origin, index) != committed:
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
