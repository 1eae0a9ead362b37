"""A client's state between the phases of a secure sum: its secrets."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Annotated, Any, Final

import numpy as np
from numpy.typing import NDArray
from pydantic import AfterValidator, Field

from flwr_kld.common import errors
from flwr_kld.common.canonical_bytes import Slots, unpack_bits
from flwr_kld.common.errors import KeyReused, Malformed
from flwr_kld.common.identity import Identity, Roster
from flwr_kld.common.strict_model import DecodingError, Model, must
from flwr_kld.guard.secure_sum_policy import ClientPolicy
from flwr_kld.kernel.vector import OneProcess, Private, SumVector
from flwr_kld.secure_sums import keys
from flwr_kld.secure_sums.admission import check_policy, check_question, check_roster
from flwr_kld.secure_sums.keys import KEY, PUBLIC
from flwr_kld.secure_sums.locks import lock
from flwr_kld.secure_sums.messages import (
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
from flwr_kld.secure_sums.session import Seat, Session, confirmations
from flwr_kld.secure_sums.shamir import SECRET, SHARE, RandomBytes, split

PUBLIC_KEY = np.dtype(f"V{PUBLIC}")
CHANNEL = np.dtype([("inward", f"V{KEY}"), ("confirm", f"V{KEY}")])
"""Keys shared with a neighbour: they open what it sealed, and its confirmation."""
SHARES = np.dtype([("seed", f"V{SHARE}"), ("mask_key", f"V{SHARE}")])
"""A neighbour's two shares."""


def _items(size: int) -> AfterValidator:
    return must(f"be items of {size} bytes", lambda raw: len(raw) % size == 0)


def _item(size: int) -> AfterValidator:
    return must(f"be {size} bytes, or none", lambda raw: len(raw) in (0, size))


@dataclass(frozen=True, repr=False)
class _Memory(Model, what="the client's memory"):
    """Numbers and bytes only, as a Flower context keeps them."""

    phase: Annotated[int, Field(ge=Phase.ADVERTISE, le=Phase.REFUSED)] = Phase.ADVERTISE.value
    session: bytes = b""
    mask_secret: Annotated[bytes, _item(KEY)] = b""
    seal_secret: Annotated[bytes, _item(KEY)] = b""
    seed: Annotated[bytes, _item(KEY)] = b""
    peers: bytes = b""
    mask_keys: Annotated[bytes, _items(PUBLIC_KEY.itemsize)] = b""
    channels: Annotated[bytes, _items(CHANNEL.itemsize)] = b""
    own: Annotated[bytes, _item(SHARE)] = b""
    view: bytes = b""
    shares: Annotated[bytes, _items(SHARES.itemsize)] = b""
    alive: bytes = b""


class ClientState(Private):
    """A client's secrets in one session. Private: shows nothing."""

    __slots__ = ("kept",)
    _hidden = frozenset(__slots__)

    def __init__(self, kept: _Memory) -> None:
        self.kept: Final = kept

    def require_distinct(self, theirs: list[Advert]) -> None:
        """Refuse a key that appears twice, as mask or sealing key, the client's own among them."""
        own = [keys.OneUseKey(k).public for k in (self.kept.mask_secret, self.kept.seal_secret)]
        advertised = b"".join([advert.mask_key + advert.seal_key for advert in theirs])
        shown = own + np.frombuffer(advertised, PUBLIC_KEY).tolist()
        if len(set(shown)) != len(shown):
            raise KeyReused("a one-use key appears twice among this client's neighbours")

    def channel_keys(self, some: NDArray[np.bool_], purpose: str) -> list[bytes]:
        """Return keys shared with some of the peers, in slot order.

        Those of purpose "inward" open what the peers sealed, those of "confirm" confirmations.
        """
        return self._of(some, np.frombuffer(self.kept.channels, CHANNEL)[purpose])

    def peers_mask_keys(self, some: NDArray[np.bool_]) -> list[bytes]:
        """Return some peers' public mask keys, in slot order."""
        return self._of(some, np.frombuffer(self.kept.mask_keys, PUBLIC_KEY))

    def _of(self, some: NDArray[np.bool_], kept: NDArray[np.void]) -> list[bytes]:
        chosen = some[unpack_bits(self.kept.peers, len(some))]
        found: list[bytes] = kept[chosen].tolist()
        return found

    def masked(self, seat: Seat, beside: NDArray[np.bool_], vector: SumVector) -> MaskedVector:
        """Return the vector under its own mask and those of some neighbours."""
        session, me = seat.session, seat.index
        own = keys.OneUseKey(self.kept.mask_secret)
        added = [keys.self_mask_key(self.kept.seed, session.digest, me)]
        removed: list[bytes] = []
        members, public = seat.neighbours[beside].tolist(), self.peers_mask_keys(beside)
        for peer, theirs in zip(members, public, strict=True):
            key = keys.mask_key(own, theirs, session.digest, me, peer)
            (added if me < peer else removed).append(key)
        words = vector.masked(added, removed, length=session.length)
        return MaskedVector(session.tag, me, UNSIGNED, words)

    def next(self, **changes: Any) -> ClientState:
        """Return the state after this phase was answered."""
        return ClientState(replace(self.kept, phase=self.kept.phase + 1, **changes))

    def ended(self, phase: Phase) -> ClientState:
        """Return what is left at the end: no secret, only the session and how it ended."""
        kept = self.kept
        return ClientState(_Memory(phase.value, session=kept.session, alive=kept.alive))

    def to_dict(self) -> dict[str, Any]:
        """Return all of it. Contains secrets: keep it on the client."""
        return self.kept.to_config()

    @classmethod
    def from_dict(cls, state: Mapping[str, object]) -> ClientState:
        """Read `to_dict`."""
        try:
            return cls(_Memory.from_config(state))
        except DecodingError as error:
            fault = str(error)
        raise Malformed(fault)  # out here, it keeps nothing of the secrets


class SumClient(OneProcess):
    """One client in one session. A second session needs a second object, with fresh keys."""

    # Any refusal is final: the secrets are dropped and later messages are refused too. Messages of
    # another session or phase, and repeated ones, are refused without ending the session. In a fork
    # of its process the object raises ``RuntimeError``.

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
        self._state = ClientState(_Memory())
        self._seat: Seat | None = None

    # -- the four answers ---------------------------------------------------------------------

    def advertise(self, session: Session, *, terms: str, length: int) -> Advert:
        """Phase 0: check the session against the question and the policy; sign one-use keys."""
        self._stay_here()
        if self._state.kept.phase != Phase.ADVERTISE:
            raise errors.KeyReused("this client's keys are for one session, and have been used")
        with self._final_refusal():
            check_question(session, self._roster, terms=terms, length=length)
            check_policy(session, self._policy)
            self._seat = seat = self._seat_in(session)

            seal, mask = (keys.OneUseKey.generate(self._random) for _ in range(2))
            answer = seat.signed(
                Advert(session.tag, seat.index, UNSIGNED, mask.public, seal.public)
            )
            self._state = self._state.next(
                session=session.to_bytes(),
                mask_secret=mask.secret,
                seal_secret=seal.secret,
                seed=self._random(SECRET),
            )
            return answer

    def share(self, adverts: Adverts) -> SealedShares:
        """Phase 1: check the neighbours' signatures; share both secrets among them."""
        with self._answering(Phase.SHARE, adverts.session) as seat:
            state, session, me = self._state, seat.session, seat.index
            peers = seat.asked(adverts.adverts)
            seat.require_neighbours(peers)
            theirs = seat.verified(adverts, self._roster)
            state.require_distinct(theirs)

            m, t = session.shape.neighbours + 1, session.shape.threshold
            shares = split(state.kept.seed + state.kept.mask_secret, m, t, self._random)
            plain = shares[1:][peers].reshape(-1, shares[0].size)
            seal_key = keys.OneUseKey(state.kept.seal_secret)
            boxes: list[bytes] = []
            channels: list[bytes] = []
            for advert, row in zip(theirs, plain, strict=True):
                peer = advert.sender
                outward, inward, confirm = keys.channel_keys(
                    seal_key, advert.seal_key, session.digest, me, peer
                )
                boxes.append(keys.seal(outward, row.tobytes(), session.digest, me, peer))
                channels += (inward, confirm)

            committed = keys.commitment(state.kept.seed, session.digest, me)
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

    def mask(self, deliveries: Deliveries, vector: SumVector) -> MaskedVector:
        """Phase 2: keep the neighbours' shares; send the vector under all masks."""
        with self._answering(Phase.MASK, deliveries.session) as seat:
            state, session, me = self._state, seat.session, seat.index
            view = seat.asked(deliveries.boxes)
            if (view & ~seat.slots(state.kept.peers)).any():
                raise errors.UnknownSender("shares came from a client that has sent no keys")
            seat.require_neighbours(view)

            members = seat.neighbours[view].tolist()
            boxes, inward = deliveries.boxes.items(BOX), state.channel_keys(view, "inward")
            shares = [
                keys.unseal(seal_key, box, session.digest, peer, me)
                for peer, seal_key, box in zip(members, inward, boxes, strict=True)
            ]
            answer = seat.signed(state.masked(seat, view, vector))
            self._state = state.next(
                view=deliveries.boxes.present,
                shares=b"".join(shares),
                mask_secret=b"",  # shared; no longer needed here
                seed=b"",
                mask_keys=b"",
            )
            return answer

    def confirm(self, survivors: Survivors) -> Reveal:
        """Phase 3: confirm the list of survivors, and lock what opens the sum over it."""
        # Only if every surviving neighbour's mask is in the client's vector; and it opens only with
        # enough neighbours' confirmations of the same list.
        last = self._state.kept
        if last.phase > Phase.REVEAL and last.alive not in (b"", survivors.alive):
            raise errors.BothShares("this client has answered a different list of survivors")
        with self._answering(Phase.REVEAL, survivors.session) as seat:
            state, session, me = self._state, seat.session, seat.index
            view = seat.slots(state.kept.view)
            beside = seat.surviving(survivors, view)
            kept = np.frombuffer(state.kept.shares, SHARES)
            shown = np.where(beside[view], kept["seed"], kept["mask_key"])  # never both
            digest = session.survivors_digest(survivors.alive)
            confirm = state.channel_keys(beside, "confirm")
            locks = np.empty(len(confirm), dtype=LOCK)
            locks["confirmation"] = confirmations(confirm, digest, [me] * len(confirm))
            sealed, locks["lock"] = lock(
                state.kept.own + shown.tobytes(),
                digest,
                me,
                beside,
                confirmations(confirm, digest, seat.neighbours[beside].tolist()),
                session.shape.confirmations,
                self._random,
            )
            opening = Slots.of(beside, locks)
            answer = seat.signed(Reveal(session.tag, me, UNSIGNED, digest, opening, sealed))
            self._state = state.next(alive=survivors.alive).ended(Phase.DONE)
            return answer

    # -- between phases -----------------------------------------------------------------------

    @property
    def phase(self) -> Phase:
        """The next phase that this client answers."""
        return Phase(self._state.kept.phase)

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
        """Continue in another process from `state`; at most once from each state.

        Its session's clients must be those of the roster: signatures are checked with its keys.
        """
        client = cls(identity, name, roster, policy, random=random)
        client._state = ClientState.from_dict(state)
        kept = client._state.kept
        if Phase.ADVERTISE < kept.phase < Phase.DONE:
            session = Session.from_bytes(kept.session)
            check_roster(session, roster)
            client._seat = client._seat_in(session)
        return client

    def _seat_in(self, session: Session) -> Seat:
        """Return this client's seat; refuse a session that it is not in."""
        if self._position not in session.cohort:
            raise errors.NotInvited("this client is not in the cohort")
        if self._roster.keys[self._position] != self._identity.public:
            raise errors.NotInvited("the roster pins a different key for this client")
        return Seat.of(session, session.cohort.index(self._position), self._identity)

    def __repr__(self) -> str:
        return f"SumClient({self.phase.name})"

    @contextmanager
    def _answering(self, phase: Phase, session: bytes) -> Iterator[Seat]:
        """Refuse a message of another session or phase, without ending this one."""
        self._stay_here()
        if self._seat is None or self._state.kept.phase == Phase.REFUSED:
            raise errors.OutOfOrder("this client is not in a session")
        if session != self._seat.session.tag:
            raise errors.WrongSession("the message belongs to another session")
        if self._state.kept.phase > phase:
            raise errors.Replayed(f"the phase {phase.name} has already been answered")
        if self._state.kept.phase < phase:
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
