"""The client's side of secure aggregation: `SumClient`, four answers, each given once."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import numpy as np

from flwr_kld.kernel.vector import OneProcess, SumVector
from flwr_kld.secure_aggregation import errors, keys
from flwr_kld.secure_aggregation.client_state import ClientState, by_sum, each
from flwr_kld.secure_aggregation.identity import Identity, Roster
from flwr_kld.secure_aggregation.locks import lock
from flwr_kld.secure_aggregation.messages import (
    LOCK,
    SESSION_TAG,
    UNSIGNED,
    Advert,
    Adverts,
    Deliveries,
    MaskedVector,
    Phase,
    Reveal,
    SealedShares,
    Survivors,
    box_size,
)
from flwr_kld.secure_aggregation.policy import ClientPolicy, check_question
from flwr_kld.secure_aggregation.seat import Seat, confirmations
from flwr_kld.secure_aggregation.session import Session
from flwr_kld.secure_aggregation.shamir import SECRET, SHARE, RandomBytes, split
from flwr_kld.secure_aggregation.wire import Slots


class SumClient(OneProcess):
    """One client in one session. A second session needs a second object, with fresh keys.

    Any refusal is final: the secrets are dropped and later messages are refused too. Messages of
    another session or phase, and repeated ones, are refused without ending the session. In a fork
    of its process the object raises ``RuntimeError``.
    """

    __slots__ = ("_identity", "_policy", "_position", "_random", "_roster", "_seat", "_state")

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
        self._state = ClientState()
        self._seat: Seat | None = None

    # -- the four answers ---------------------------------------------------------------------

    def advertise(self, session: Session, *, terms: str, length: int, bits: int = 32) -> Advert:
        """Phase 0: check the session against the question and the policy; sign one-use keys."""
        self._stay_here()
        if self._state.phase != Phase.ADVERTISE:
            raise errors.KeyReused("this client's keys are for one session, and have been used")
        with self._final_refusal():
            check_question(session, self._roster, terms=terms, length=length, bits=bits)
            self._policy.check(session)
            if self._position not in session.cohort:
                raise errors.NotInvited("this client is not in the cohort")
            if self._roster.keys[self._position] != self._identity.public:
                raise errors.NotInvited("the roster pins a different key for this client")
            index = session.cohort.index(self._position)
            self._seat = seat = Seat.of(session, index, self._identity)

            seal, *mask = (keys.OneUseKey.generate(self._random) for _ in range(session.sums + 1))
            public = b"".join([key.public for key in mask])
            answer = seat.signed(Advert(session.tag, index, UNSIGNED, public, seal.public))
            self._state = self._state.next(
                session=session.to_bytes(),
                index=index,
                mask_secret=b"".join([key.secret for key in mask]),
                seal_secret=seal.secret,
                public=public + seal.public,
                seed=self._random(SECRET * session.sums),
            )
            return answer

    def share(self, adverts: Adverts) -> SealedShares:
        """Phase 1: check the neighbours' signatures; share both secrets among them."""
        with self._answering(Phase.SHARE, adverts.session) as seat:
            state, session, me = self._state, seat.session, seat.index
            peers = seat.asked(adverts.adverts, adverts.sums)
            seat.require_neighbours(peers)
            theirs = seat.verified(adverts, self._roster)
            state.require_distinct(theirs)

            m, t = session.shape.neighbours + 1, session.shape.threshold
            seeds, secrets = (each(raw, SECRET) for raw in (state.seed, state.mask_secret))
            both = b"".join(map(bytes.__add__, seeds, secrets))
            shares = split(both, m, t, self._random)
            plain = shares[1:][peers].reshape(-1, shares[0].size)
            seal_key = keys.OneUseKey(state.seal_secret)
            boxes: list[bytes] = []
            channels: list[bytes] = []
            for advert, row in zip(theirs, plain, strict=True):
                peer = advert.sender
                outward, inward, confirm = keys.channel_keys(
                    seal_key, advert.seal_key, session.digest, me, peer
                )
                boxes.append(keys.seal(outward, row.tobytes(), session.digest, me, peer))
                channels += (inward, confirm)

            committed = b"".join([keys.commitment(seed, session.digest, me) for seed in seeds])
            sealed = Slots.of(peers, boxes)
            answer = seat.signed(SealedShares(session.tag, me, UNSIGNED, committed, sealed))
            self._state = state.next(
                own=shares[0, ::2].tobytes(),
                peers=adverts.adverts.present,
                mask_keys=by_sum([advert.mask_keys for advert in theirs], session.sums),
                channels=b"".join(channels),
                seal_secret=b"",
            )
            return answer

    def mask(self, deliveries: Deliveries, vector: SumVector) -> MaskedVector:
        """Phase 2: keep the neighbours' shares; send the vector under all masks."""
        with self._answering(Phase.MASK, deliveries.session) as seat:
            state, session, me = self._state, seat.session, seat.index
            view = seat.asked(deliveries.boxes, deliveries.sums)
            if (view & ~seat.slots(state.peers)).any():
                raise errors.UnknownSender("shares came from a client that has sent no keys")
            seat.require_neighbours(view)

            members = seat.neighbours[view].tolist()
            boxes = deliveries.boxes.items(box_size(session.sums))
            shares = [
                keys.unseal(seal_key, box, session.digest, peer, me)
                for peer, seal_key, box in zip(members, state.inward_keys(view), boxes, strict=True)
            ]
            answer = seat.signed(state.masked(seat, view, vector))
            peers = len(state.mask_keys) // session.sums
            self._state = state.next(
                view=deliveries.boxes.present,
                shares=by_sum(shares, session.sums),
                mask_secret=state.mask_secret[SECRET:],  # shared; no longer needed here
                seed=state.seed[SECRET:],
                mask_keys=state.mask_keys[peers:],
            )
            return answer

    def mask_again(
        self,
        session: Session,
        vector: SumVector,
        *,
        terms: str,
        length: int,
        bits: int = 32,
    ) -> MaskedVector:
        """Send the vector of a second sum over the first's survivors, under masks of its own."""
        with self._answering(Phase.AGAIN, session.follows[:SESSION_TAG]):
            check_question(session, self._roster, terms=terms, length=length, bits=bits)
            self.require_next(session)
            state = self._state
            self._seat = seat = Seat.of(session, state.index, self._identity)
            answer = seat.signed(state.masked(seat, seat.slots(state.view), vector))
            self._state = state.next(
                phase=Phase.REVEAL,
                session=session.to_bytes(),
                mask_secret=b"",
                seed=b"",
                mask_keys=b"",
            )
            return answer

    def require_next(self, session: Session) -> None:
        """Refuse a session that does not go on where this client's first sum ended."""
        self._state.require_next(session)

    def confirm(self, survivors: Survivors) -> Reveal:
        """Phase 3: confirm the list of survivors, and lock what opens the sum over it.

        Only if every surviving neighbour's mask is in the client's vector; and it opens only with
        enough neighbours' confirmations of the same list.
        """
        if self._state.phase > Phase.REVEAL and self._state.alive not in (b"", survivors.alive):
            raise errors.BothShares("this client has answered a different list of survivors")
        with self._answering(Phase.REVEAL, survivors.session) as seat:
            state, session, me = self._state, seat.session, seat.index
            view = seat.slots(state.view)
            beside = seat.surviving(survivors, view)
            kept, later = state.shares_of(view)
            shown = np.where(beside[view], kept["seed"], kept["mask_key"])  # never both
            digest = session.survivors_digest(survivors.alive)
            confirm = state.confirm_keys(beside)
            locks = np.empty(len(confirm), dtype=LOCK)
            locks["confirmation"] = confirmations(confirm, digest, [me] * len(confirm))
            sealed, locks["lock"] = lock(
                state.own[:SHARE] + shown.tobytes(),
                digest,
                me,
                beside,
                confirmations(confirm, digest, seat.neighbours[beside].tolist()),
                session.confirmations,
                self._random,
            )
            opening = Slots.of(beside, locks)
            answer = seat.signed(Reveal(session.tag, me, UNSIGNED, digest, opening, sealed))
            told = state.next(alive=survivors.alive)
            if session.sums == 1:
                self._state = told.ended(Phase.DONE)
            else:  # what was for the first sum is of no more use, to anybody
                self._state = told.for_second(beside, later[beside[view]])
            return answer

    # -- between phases -----------------------------------------------------------------------

    @property
    def phase(self) -> Phase:
        """The next phase that this client answers."""
        return Phase(self._state.phase)

    def state(self) -> dict[str, int | bytes]:
        """Return what `resume` needs. Secret, and to be overwritten after each phase."""
        return self._state.to_dict()

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
        client._state = kept = ClientState.from_dict(state)
        if kept.index >= 0:
            client._seat = Seat.of(Session.from_bytes(kept.session), kept.index, identity)
        return client

    def __repr__(self) -> str:
        return f"SumClient({self.phase.name})"

    @contextmanager
    def _answering(self, phase: Phase, session: bytes) -> Iterator[Seat]:
        """Refuse a message of another session or phase, without ending this one."""
        self._stay_here()
        if self._seat is None or self._state.phase == Phase.REFUSED:
            raise errors.OutOfOrder("this client is not in a session")
        if session != self._seat.session.tag:
            raise errors.WrongSession("the message belongs to another session")
        if self._state.phase > phase:
            raise errors.Replayed(f"the phase {phase.name} has already been answered")
        if self._state.phase < phase:
            raise errors.OutOfOrder(f"{phase.name} comes after {self.phase.name}")
        with self._final_refusal():
            yield self._seat

    @contextmanager
    def _final_refusal(self) -> Iterator[None]:
        """Drop every secret where a phase is not answered."""
        try:
            yield
        except BaseException:
            self._state = self._state.ended(Phase.REFUSED)
            raise
