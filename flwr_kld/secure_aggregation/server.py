"""The server's side of a sum: takes an answer only in its phase, and from whom it is."""

from __future__ import annotations

from typing import Any

from numpy.typing import NDArray

from flwr_kld.privacy.private import Private
from flwr_kld.secure_aggregation.collected import Collected
from flwr_kld.secure_aggregation.errors import (
    Malformed,
    OutOfOrder,
    Replayed,
    RosterMismatch,
    TooFewSurvivors,
    UnknownSender,
    WrongSession,
)
from flwr_kld.secure_aggregation.identity import Roster
from flwr_kld.secure_aggregation.memory import Phase
from flwr_kld.secure_aggregation.messages import (
    Advert,
    Agreement,
    ClientMessage,
    MaskedVector,
    Reveal,
    SealedShares,
    ServerMessage,
    signed_text,
)
from flwr_kld.secure_aggregation.server_requests import next_requests
from flwr_kld.secure_aggregation.session import Session
from flwr_kld.secure_aggregation.unmask import open_sum

_PHASE_OF: dict[type[ClientMessage], Phase] = {
    Advert: Phase.ADVERTISE,
    SealedShares: Phase.SHARE,
    MaskedVector: Phase.MASK,
    Agreement: Phase.AGREE,
    Reveal: Phase.UNMASK,
}


class SumResult(Private):
    """A sum over the survivors, and nobody else. Private: shows no value.

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

    __slots__ = ("_values", "agreements", "dropped", "survivors")

    def __init__(
        self,
        values: NDArray[Any],
        survivors: tuple[str, ...],
        dropped: tuple[str, ...],
        agreements: dict[str, bytes],
    ) -> None:
        self._values = values
        self.survivors, self.dropped, self.agreements = survivors, dropped, agreements

    def reveal(self) -> NDArray[Any]:
        """Return the exact sum; shape [length]."""
        return self._values


class SumServer(Private):
    """One session. `receive` what clients answer, then `advance`, five times; then `result`.

    A message that is refused leaves the session as it was: its sender counts as dropped out.

    Parameters
    ----------
    session : Session
        Sent to every client of the cohort as it is.
    roster : Roster
        The pinned public keys.
    """

    __slots__ = ("_collected", "_phase", "_result", "_roster", "session")

    def __init__(self, session: Session, roster: Roster) -> None:
        if session.roster != roster.fingerprint:
            raise RosterMismatch("the session was opened over another list of clients")
        self.session = session
        self._roster = roster
        self._phase = Phase.ADVERTISE
        self._collected = Collected(session)
        self._result: SumResult | None = None

    @property
    def phase(self) -> Phase:
        """The phase whose answers are awaited."""
        return self._phase

    @property
    def awaited(self) -> tuple[int, ...]:
        """Cohort indices that may still answer in this phase; nobody when the session is over."""
        if self._phase >= Phase.DONE:
            return ()
        members = range(self.session.size)
        answered = self._collected.answered[self._phase]
        return tuple(i for i in members if self._is_there(i) and not answered[i])

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
        EquivocatingSurvivors, BothShares
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
        answered = self._collected.answered
        if phase < self._phase or (phase == self._phase and answered[phase, index]):
            raise Replayed(f"{phase.name} of client {index} is closed")
        if phase > self._phase:
            raise OutOfOrder(f"{phase.name} comes after {self._phase.name}")
        if not self._is_there(index):
            raise UnknownSender(f"client {index} dropped out before")
        body = message.body()
        text = signed_text(self.session.digest, message.kind, index, body)
        self._roster.verify(self.session.cohort[index], message.signature, text)
        self._collected.take(message)
        answered[phase, index] = True

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
        closed = self._phase
        try:
            self._require_enough(closed)
            if closed is Phase.UNMASK:
                self._open()
                requests: dict[int, ServerMessage] = {}
            else:
                requests = next_requests(self._collected, closed)
        except BaseException:
            self._phase = Phase.REFUSED
            raise
        self._phase = Phase(closed + 1)
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

    def _is_there(self, index: int) -> bool:
        """Whether a client answered in the phase before this one."""
        before = self._phase - 1
        return before < Phase.ADVERTISE or bool(self._collected.answered[before, index])

    def _require_enough(self, closed: Phase) -> None:
        """Give up when too few answered to lead to a sum."""
        answered = int(self._collected.answered[closed].sum())
        until_masked = closed <= Phase.MASK
        least = self.session.min_survivors if until_masked else self.session.shape.threshold
        if answered < least:
            raise TooFewSurvivors(
                f"{answered} clients answered in {closed.name}; at least {least} must"
            )

    def _open(self) -> None:
        open_sum(self._collected)
        alive, members = self._collected.alive, range(self.session.size)
        self._result = SumResult(
            self._collected.total,
            tuple(self.name(i) for i in members if alive[i]),
            tuple(self.name(i) for i in members if not alive[i]),
            {self.name(i): signed for i, signed in sorted(self._collected.agreements.items())},
        )
