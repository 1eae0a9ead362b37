"""The client's side of a sum: five answers, each given once."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from numpy.typing import NDArray

from flwr_kld.privacy.private import OneProcess
from flwr_kld.secure_aggregation import consistency, dealing, masked_input
from flwr_kld.secure_aggregation.errors import (
    BothShares,
    KeyReused,
    NotInvited,
    OutOfOrder,
    Replayed,
    WrongSession,
)
from flwr_kld.secure_aggregation.identity import Identity, Roster
from flwr_kld.secure_aggregation.memory import Memory, Phase
from flwr_kld.secure_aggregation.messages import (
    Advert,
    Adverts,
    Agreement,
    Deliveries,
    MaskedVector,
    Reveal,
    SealedShares,
    Survivors,
    UnmaskRequest,
)
from flwr_kld.secure_aggregation.policy import ClientPolicy, check_question
from flwr_kld.secure_aggregation.seat import Seat
from flwr_kld.secure_aggregation.session import Session
from flwr_kld.secure_aggregation.shamir import RandomBytes


class SumClient(OneProcess):
    """One client in one session. A second session needs a second object, with fresh keys.

    Any refusal is final: the secrets are dropped and later messages are refused too. Messages of
    another session or phase, and repeated ones, are refused without ending the session. In a fork
    of its process the object raises ``RuntimeError``.

    Parameters
    ----------
    identity : Identity
        The client's long-term key.
    name : str
        Its name in the roster.
    roster : Roster
        The pinned public keys.
    policy : ClientPolicy
        The client's own minimums.
    random : Callable[[int], bytes]
        Source of secrets; anything but the default is for tests.
    """

    __slots__ = ("_identity", "_memory", "_policy", "_position", "_random", "_roster", "_seat")

    def __init__(
        self,
        identity: Identity,
        name: str,
        roster: Roster,
        policy: ClientPolicy | None = None,
        *,
        random: RandomBytes = os.urandom,
    ) -> None:
        super().__init__()
        self._identity = identity
        self._position = roster.position(name)
        self._roster = roster
        self._policy = policy or ClientPolicy()
        self._random = random
        self._memory = Memory()
        self._seat: Seat | None = None

    # -- the five answers ---------------------------------------------------------------------

    def advertise(self, session: Session, *, plan: str, length: int, bits: int = 32) -> Advert:
        """Phase 0: check the session against the question and the policy; sign one-use keys.

        Parameters
        ----------
        session : Session
            As received.
        plan, length, bits
            What the client itself was asked and is ready to answer.

        Raises
        ------
        WrongSession, RosterMismatch, NotInvited, CohortTooSmall, ThresholdTooLow, TooFewNeighbours
            Why the client does not take part.
        KeyReused
            If this object took part in a session already.
        """
        self._stay_here()
        if self._memory.phase != Phase.ADVERTISE:
            raise KeyReused("this client's keys were made for one session and were used")
        with self._answering():
            check_question(session, self._roster, plan=plan, length=length, bits=bits)
            self._policy.check(session)
            if self._position not in session.cohort:
                raise NotInvited("this client is not in the cohort")
            if self._roster.keys[self._position] != self._identity.public:
                raise NotInvited("the roster pins another key for this client")
            seat = Seat.of(session, session.cohort.index(self._position), self._identity)
            self._seat = seat
            return dealing.advertise(seat, self._memory, self._random)

    def share(self, adverts: Adverts) -> SealedShares:
        """Phase 1: check the neighbours' signatures; share both secrets among them.

        Raises
        ------
        BadSignature, KeyReused, Tampered, TooFewSurvivors
            What is wrong with the adverts.
        """
        seat = self._enter(Phase.SHARE, adverts.session)
        with self._answering():
            return dealing.deal(seat, self._memory, adverts, self._roster, self._random)

    def mask(self, deliveries: Deliveries, values: NDArray[Any]) -> MaskedVector:
        """Phase 2: keep the neighbours' shares; send the vector under all masks.

        Parameters
        ----------
        deliveries : Deliveries
            The neighbours' sealed shares.
        values : NDArray
            Shape [length], integers in [0, 2^bits); not changed.

        Raises
        ------
        Tampered, UnknownSender, TooFewSurvivors
            What is wrong with the shares.
        ValueError
            If the vector does not fit the session.
        """
        seat = self._enter(Phase.MASK, deliveries.session)
        with self._answering():
            return masked_input.mask(seat, self._memory, deliveries, values)

    def agree(self, survivors: Survivors) -> Agreement:
        """Phase 3: sign the list of survivors, if every surviving neighbour's mask is in.

        Raises
        ------
        NotASurvivor, MissingMask, CohortTooSmall, TooFewSurvivors
            What is wrong with the list.
        BothShares
            If another list was signed before: two lists would open both secrets of a client.
        """
        if self._memory.phase > Phase.AGREE and self._memory.alive not in (b"", survivors.alive):
            raise BothShares("this client signed another list of survivors")
        seat = self._enter(Phase.AGREE, survivors.session)
        with self._answering():
            return consistency.agree(seat, self._memory, survivors)

    def unmask(self, request: UnmaskRequest) -> Reveal:
        """Phase 4: once enough neighbours signed the same list, reveal one share for each.

        Raises
        ------
        BothShares, EquivocatingSurvivors, TooFewSurvivors
            Why nothing is revealed.
        """
        seat = self._enter(Phase.UNMASK, request.session)
        with self._answering():
            return consistency.reveal(seat, self._memory, request)

    # -- between phases -----------------------------------------------------------------------

    @property
    def phase(self) -> Phase:
        """The next phase that this client answers."""
        return Phase(self._memory.phase)

    def state(self) -> dict[str, int | bytes]:
        """Return what `resume` needs. Secret, and to be overwritten after each phase."""
        return self._memory.to_dict()

    @classmethod
    def resume(
        cls,
        state: Mapping[str, object],
        identity: Identity,
        name: str,
        roster: Roster,
        policy: ClientPolicy | None = None,
        *,
        random: RandomBytes = os.urandom,
    ) -> SumClient:
        """Continue in another process from `state`; at most once from each state."""
        client = cls(identity, name, roster, policy, random=random)
        client._memory = memory = Memory.from_dict(state)
        if memory.index >= 0:
            client._seat = Seat.of(Session.from_bytes(memory.session), memory.index, identity)
        return client

    def __repr__(self) -> str:
        return f"SumClient({self.phase.name})"

    # -- how -----------------------------------------------------------------------------------

    def _enter(self, phase: Phase, session: bytes) -> Seat:
        """Refuse a message of another session or phase, without ending this one."""
        self._stay_here()
        if self._seat is None or self._memory.phase == Phase.REFUSED:
            raise OutOfOrder("this client takes part in no session")
        if session != self._seat.session.tag:
            raise WrongSession("the message belongs to another session")
        if self._memory.phase > phase:
            raise Replayed(f"the phase {phase.name} was answered before")
        if self._memory.phase < phase:
            raise OutOfOrder(f"{phase.name} comes after {self.phase.name}")
        return self._seat

    @contextmanager
    def _answering(self) -> Iterator[None]:
        """Move on to the next phase after the answer, or drop every secret."""
        try:
            yield
        except BaseException:
            self._memory.forget(Phase.REFUSED)
            raise
        if self._memory.phase == Phase.UNMASK:
            self._memory.forget(Phase.DONE)
        else:
            self._memory.phase += 1
