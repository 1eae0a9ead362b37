"""The client's side of secure aggregation: `SumClient`, four answers, each given once."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from flwr_kld.privacy.private import Held, OneProcess
from flwr_kld.secure_aggregation import errors, keys
from flwr_kld.secure_aggregation.client_state import SHARES, ClientState, Seat
from flwr_kld.secure_aggregation.identity import Identity, Roster
from flwr_kld.secure_aggregation.locks import lock
from flwr_kld.secure_aggregation.masks import apply_masks
from flwr_kld.secure_aggregation.messages import (
    BOX,
    LOCK,
    UNSIGNED,
    Advert,
    Adverts,
    Deliveries,
    MaskedVector,
    Phase,
    Reveal,
    SealedShares,
    Survivors,
)
from flwr_kld.secure_aggregation.policy import ClientPolicy, check_question
from flwr_kld.secure_aggregation.ring import checked
from flwr_kld.secure_aggregation.session import Session
from flwr_kld.secure_aggregation.shamir import SHARE, RandomBytes, split
from flwr_kld.secure_aggregation.wire import Slots, unpack_bits


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

    def advertise(self, session: Session, *, plan: str, length: int, bits: int = 32) -> Advert:
        """Phase 0: check the session against the question and the policy; sign one-use keys.

        Parameters
        ----------
        session : Session
            Session, as the server sent it.
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
        if self._state.phase != Phase.ADVERTISE:
            raise errors.KeyReused("this client's keys were made for one session and were used")
        with self._final_refusal():
            check_question(session, self._roster, plan=plan, length=length, bits=bits)
            self._policy.check(session)
            if self._position not in session.cohort:
                raise errors.NotInvited("this client is not in the cohort")
            if self._roster.keys[self._position] != self._identity.public:
                raise errors.NotInvited("the roster pins another key for this client")
            index = session.cohort.index(self._position)
            self._seat = seat = Seat.of(session, index, self._identity)

            mask, seal = (keys.OneUseKey.generate(self._random) for _ in range(2))
            answer = seat.signed(Advert(session.tag, index, UNSIGNED, mask.public, seal.public))
            self._state = self._state.next(
                session=session.to_bytes(),
                index=index,
                mask_secret=mask.secret,
                seal_secret=seal.secret,
                public=mask.public + seal.public,
                seed=self._random(32),
            )
            return answer

    def share(self, adverts: Adverts) -> SealedShares:
        """Phase 1: check the neighbours' signatures; share both secrets among them.

        Raises
        ------
        BadSignature, KeyReused, Tampered, TooFewSurvivors
            What is wrong with the adverts.
        """
        with self._answering(Phase.SHARE, adverts.session) as seat:
            state, session, me = self._state, seat.session, seat.index
            peers = seat.asked(adverts.adverts)
            seat.require_neighbours(peers)
            theirs = seat.verified(adverts, self._roster)
            state.require_distinct(theirs)

            m, t = session.shape.neighbours + 1, session.shape.threshold
            shares = split(state.seed + state.mask_secret, m, t, self._random)
            plain = shares[1:][peers].reshape(-1, 2 * SHARE)
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

            committed = keys.commitment(state.seed, session.digest, me)
            sealed = Slots.of(peers, boxes)
            answer = seat.signed(SealedShares(session.tag, me, UNSIGNED, committed, sealed))
            self._state = state.next(
                own=shares[0, 0].tobytes(),
                peers=adverts.adverts.present,
                mask_keys=b"".join([advert.mask_key for advert in theirs]),
                channels=b"".join(channels),
                seal_secret=b"",
            )
            return answer

    def mask(self, deliveries: Deliveries, values: Held[NDArray[Any]]) -> MaskedVector:
        """Phase 2: keep the neighbours' shares; send the vector under all masks.

        Parameters
        ----------
        deliveries : Deliveries
            The neighbours' sealed shares.
        values : Held[NDArray]
            Shape [length], integers in [0, 2^bits); not changed.

        Raises
        ------
        Tampered, UnknownSender, TooFewSurvivors
            What is wrong with the shares.
        ValueError
            If the vector does not fit the session.
        """
        with self._answering(Phase.MASK, deliveries.session) as seat:
            state, session, me = self._state, seat.session, seat.index
            vector = Held(values.into(partial(checked, length=session.length, bits=session.bits)))
            view = seat.asked(deliveries.boxes)
            if (view & ~seat.slots(state.peers)).any():
                raise errors.UnknownSender("shares came from a client without keys")
            seat.require_neighbours(view)

            own = keys.OneUseKey(state.mask_secret)
            added = [keys.self_mask_key(state.seed, session.digest, me)]
            removed, shares = list[bytes](), list[bytes]()
            members = seat.neighbours[view].tolist()
            inward = state.inward_keys(view)
            public = state.peers_mask_keys(view)
            boxes = deliveries.boxes.items(BOX)
            for peer, seal_key, theirs, box in zip(members, inward, public, boxes, strict=True):
                shares.append(keys.unseal(seal_key, box, session.digest, peer, me))
                key = keys.mask_key(own, theirs, session.digest, me, peer)
                (added if me < peer else removed).append(key)
            vector.into(partial(apply_masks, added=added, removed=removed))
            masked = vector.into(np.ndarray.tobytes)
            answer = seat.signed(MaskedVector(session.tag, me, UNSIGNED, masked))
            self._state = state.next(
                view=deliveries.boxes.present,
                shares=b"".join(shares),
                mask_secret=b"",  # shared; no longer needed here, and nor are these
                seed=b"",
                mask_keys=b"",
            )
            return answer

    def confirm(self, survivors: Survivors) -> Reveal:
        """Phase 3: confirm the list of survivors, and lock what opens the sum over it.

        Only if every surviving neighbour's mask is in the client's vector; and it opens only with
        enough neighbours' confirmations of the same list.

        Raises
        ------
        Tampered, NotASurvivor, MissingMask, CohortTooSmall, TooFewSurvivors
            What is wrong with the list.
        BothShares
            If another list was answered before: two would open both secrets of a client.
        """
        if self._state.phase > Phase.REVEAL and self._state.alive not in (b"", survivors.alive):
            raise errors.BothShares("this client answered another list of survivors")
        with self._answering(Phase.REVEAL, survivors.session) as seat:
            state, session, me = self._state, seat.session, seat.index
            if survivors.size != session.size:
                raise errors.Tampered("the list of survivors is not over this cohort")
            alive = unpack_bits(survivors.alive, session.size)
            if not alive[me]:
                raise errors.NotASurvivor("this client's vector was sent and is said to be missing")
            if (left := int(alive.sum())) < session.min_survivors:
                raise errors.CohortTooSmall(
                    f"{left} survivors; the session promised {session.min_survivors}"
                )
            beside, view = alive[seat.neighbours], seat.slots(state.view)
            if (beside & ~view).any():
                raise errors.MissingMask(
                    "a surviving neighbour's mask is not in this client's vector"
                )
            seat.require_neighbours(beside)

            kept = np.frombuffer(state.shares, SHARES)
            shown = np.where(beside[view], kept["seed"], kept["mask_key"])  # never both
            digest = session.survivors_digest(survivors.alive)
            confirm = state.confirm_keys(beside)
            locks = np.empty(len(confirm), dtype=LOCK)
            locks["confirmation"] = _confirmations(confirm, digest, [me] * len(confirm))
            sealed, locks["lock"] = lock(
                state.own + shown.tobytes(),
                digest,
                me,
                beside,
                _confirmations(confirm, digest, seat.neighbours[beside].tolist()),
                session.confirmations,
                self._random,
            )
            told = Slots.of(beside, locks)
            answer = seat.signed(Reveal(session.tag, me, UNSIGNED, digest, told, sealed))
            self._state = state.next(alive=survivors.alive).ended(Phase.DONE)
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
            raise errors.OutOfOrder("this client takes part in no session")
        if session != self._seat.session.tag:
            raise errors.WrongSession("the message belongs to another session")
        if self._state.phase > phase:
            raise errors.Replayed(f"the phase {phase.name} was answered before")
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


def _confirmations(keys_of: list[bytes], survivors: bytes, by: list[int]) -> NDArray[np.uint8]:
    """Return the confirmations of a list under keys that pairs share, shape [senders, 17]."""
    found = [keys.confirmation(key, survivors, i) for key, i in zip(keys_of, by, strict=True)]
    return np.frombuffer(b"".join(found), dtype=np.uint8).reshape(-1, keys.CONFIRMATION)
