"""The client's side of a sum: five answers, each given once."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from flwr_kld.secure_sum import keys
from flwr_kld.secure_sum.errors import (
    BothShares,
    CohortTooSmall,
    EquivocatingSurvivors,
    KeyReused,
    MissingMask,
    NotASurvivor,
    NotInvited,
    OutOfOrder,
    Replayed,
    Tampered,
    TooFewSurvivors,
    UnknownSender,
    WrongSession,
)
from flwr_kld.secure_sum.graph import neighbours_of
from flwr_kld.secure_sum.identity import Identity, Roster
from flwr_kld.secure_sum.masks import apply_masks
from flwr_kld.secure_sum.memory import Memory, Phase
from flwr_kld.secure_sum.messages import (
    ADVERT,
    BOX,
    Advert,
    Adverts,
    Agreement,
    Deliveries,
    MaskedVector,
    Reveal,
    SealedShares,
    Survivors,
    UnmaskRequest,
    signed_text,
)
from flwr_kld.secure_sum.policy import ClientPolicy, check_question
from flwr_kld.secure_sum.ring import checked
from flwr_kld.secure_sum.session import Session
from flwr_kld.secure_sum.shamir import SHARE, RandomBytes, split
from flwr_kld.secure_sum.wire import Slots, unpack_bits

_Answer = TypeVar("_Answer")


class SumClient:
    """One client in one session. A second session needs a second object, with fresh keys.

    Any refusal is final: the secrets are dropped and later messages are refused too. Messages of
    another session or phase, and repeated ones, are refused without ending the session.

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

    def __init__(
        self,
        identity: Identity,
        name: str,
        roster: Roster,
        policy: ClientPolicy | None = None,
        *,
        random: RandomBytes = os.urandom,
    ) -> None:
        self._identity = identity
        self._position = roster.position(name)
        self._roster = roster
        self._policy = policy or ClientPolicy()
        self._random = random
        self._memory = Memory()
        self._session: Session | None = None
        self._neighbours: NDArray[np.int64] = np.empty(0, dtype=np.int64)

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
        if self._memory.phase != Phase.ADVERTISE:
            raise KeyReused("this client's keys were made for one session and were used")
        return self._final(lambda: self._advertise(session, plan, length, bits))

    def share(self, adverts: Adverts) -> SealedShares:
        """Phase 1: check the neighbours' signatures; share both secrets among them.

        Raises
        ------
        BadSignature, KeyReused, Tampered, TooFewSurvivors
            What is wrong with the adverts.
        """
        self._enter(Phase.SHARE, adverts.session)
        return self._final(lambda: self._share(adverts))

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
        self._enter(Phase.MASK, deliveries.session)
        return self._final(lambda: self._mask(deliveries, values))

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
        self._enter(Phase.AGREE, survivors.session)
        return self._final(lambda: self._agree(survivors))

    def unmask(self, request: UnmaskRequest) -> Reveal:
        """Phase 4: once enough neighbours signed the same list, reveal one share for each.

        Raises
        ------
        BothShares, EquivocatingSurvivors, TooFewSurvivors
            Why nothing is revealed.
        """
        self._enter(Phase.UNMASK, request.session)
        return self._final(lambda: self._unmask(request))

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
        client._memory = Memory.from_dict(state)
        if client._memory.index >= 0:
            client._open(Session.from_bytes(client._memory.session))
        return client

    def __repr__(self) -> str:
        return f"SumClient({self.phase.name})"

    def __reduce__(self) -> str:
        raise TypeError("a client's secrets must not be pickled")

    # -- how -----------------------------------------------------------------------------------

    def _open(self, session: Session) -> None:
        self._session = session
        index = self._memory.index
        self._neighbours = neighbours_of(session.order, index, session.shape.neighbours)

    def _enter(self, phase: Phase, session: bytes) -> None:
        if self._session is None or self._memory.phase == Phase.REFUSED:
            raise OutOfOrder("this client takes part in no session")
        if session != self._session.tag:
            raise WrongSession("the message belongs to another session")
        if self._memory.phase > phase:
            raise Replayed(f"the phase {phase.name} was answered before")
        if self._memory.phase < phase:
            raise OutOfOrder(f"{phase.name} comes after {self.phase.name}")

    def _final(self, answer: Callable[[], _Answer]) -> _Answer:
        """Answer and move on to the next phase, or drop every secret."""
        try:
            result = answer()
        except BaseException:
            self._memory.forget(Phase.REFUSED)
            raise
        if self._memory.phase == Phase.UNMASK:
            self._memory.forget(Phase.DONE)
        else:
            self._memory.phase += 1
        return result

    @property
    def _now(self) -> Session:
        if self._session is None:
            raise OutOfOrder("this client takes part in no session")
        return self._session

    def _sign(self, kind: int, body: bytes) -> bytes:
        text = signed_text(self._now.digest, kind, self._memory.index, body)
        return self._identity.sign(text)

    def _slots(self, packed: bytes) -> NDArray[np.bool_]:
        return unpack_bits(packed, self._now.shape.neighbours)

    def _asked(self, slots: Slots) -> NDArray[np.bool_]:
        """Which slots a server's message is about."""
        if slots.count != self._now.shape.neighbours:
            raise Tampered("the message is not about this client's neighbours")
        return slots.mask()

    def _enough(self, left: NDArray[np.bool_]) -> None:
        """With itself a client needs t holders to go on, and some on either side of the circle.

        Otherwise a server could cut the circle with k/2 clients in a row that it calls dropped
        out, and open the sums of the two arcs.
        """
        session, holders = self._now, int(left.sum()) + 1
        if holders < session.shape.threshold:
            raise TooFewSurvivors(
                f"{holders} of this client's holders are left; "
                f"the threshold is {session.shape.threshold}"
            )
        half = session.shape.neighbours // 2
        if len(left) < session.size - 1 and not (left[:half].any() and left[half:].any()):
            raise TooFewSurvivors("nobody is left on one side of this client's circle")

    def _advertise(self, session: Session, plan: str, length: int, bits: int) -> Advert:
        check_question(session, self._roster, plan=plan, length=length, bits=bits)
        self._policy.check(session)
        if self._position not in session.cohort:
            raise NotInvited("this client is not in the cohort")
        if self._roster.keys[self._position] != self._identity.public:
            raise NotInvited("the roster pins another key for this client")
        memory = self._memory
        memory.session = session.to_bytes()
        memory.index = session.cohort.index(self._position)
        self._open(session)
        mask, seal = (keys.OneUseKey.generate(self._random) for _ in range(2))
        memory.mask_secret, memory.seal_secret = mask.secret, seal.secret
        memory.seed = self._random(32)
        signature = self._sign(Advert.kind, mask.public + seal.public)
        return Advert(session.tag, memory.index, signature, mask.public, seal.public)

    def _share(self, adverts: Adverts) -> SealedShares:
        session, memory = self._now, self._memory
        peers = self._asked(adverts.adverts)
        self._enough(peers)
        seal = keys.OneUseKey(memory.seal_secret)
        seen = {seal.public, keys.OneUseKey(memory.mask_secret).public}
        channels: list[keys.Channel] = []
        mask_keys: list[bytes] = []
        members = self._neighbours[peers].tolist()
        for peer, advert in zip(members, adverts.adverts.items(ADVERT), strict=True):
            body, signature = advert[:64], advert[64:]
            text = signed_text(session.digest, Advert.kind, peer, body)
            self._roster.verify(session.cohort[peer], signature, text)
            mask_key, seal_key = body[:32], body[32:]
            channels.append(
                keys.Channel.between(seal, seal_key, session.digest, memory.index, peer)
            )
            mask_keys.append(mask_key)
            seen.update((mask_key, seal_key))
        if len(seen) != 2 * len(members) + 2:
            raise KeyReused("a one-use key appears twice among this client's neighbours")
        holders = session.shape.neighbours + 1
        secrets = memory.seed + memory.mask_secret
        shares = split(secrets, holders, session.shape.threshold, self._random)
        memory.own = shares[0, 0].tobytes()
        plain = [row.tobytes() for row in shares[1:][peers].reshape(-1, 2 * SHARE)]
        boxes = [
            keys.seal(channel.outward, text, session.digest, memory.index, peer)
            for channel, text, peer in zip(channels, plain, members, strict=True)
        ]
        memory.peers = adverts.adverts.present
        memory.mask_keys = b"".join(mask_keys)
        memory.channels = b"".join(c.inward + c.confirm for c in channels)
        memory.seal_secret = b""
        committed = keys.commitment(memory.seed, session.digest, memory.index)
        slots = Slots.of(peers, boxes)
        signature = self._sign(SealedShares.kind, committed + slots.to_bytes())
        return SealedShares(session.tag, memory.index, signature, committed, slots)

    def _mask(self, deliveries: Deliveries, values: NDArray[Any]) -> MaskedVector:
        session, memory = self._now, self._memory
        vector = checked(values, session.length, session.bits)
        view, peers = self._asked(deliveries.boxes), self._slots(memory.peers)
        if (view & ~peers).any():
            raise UnknownSender("shares came from a client without keys")
        self._enough(view)
        me, own = memory.index, keys.OneUseKey(memory.mask_secret)
        places = np.flatnonzero(view[peers]).tolist()  # among the peers, as keys are kept
        added = [keys.self_mask_key(memory.seed, session.digest, me)]
        removed: list[bytes] = []
        shares: list[bytes] = []
        members = self._neighbours[view].tolist()
        for place, peer, box in zip(places, members, deliveries.boxes.items(BOX), strict=True):
            inward = memory.channels[64 * place : 64 * place + 32]
            shares.append(keys.unseal(inward, box, session.digest, peer, me))
            public = memory.mask_keys[32 * place : 32 * place + 32]
            key = keys.mask_key(own, public, session.digest, me, peer)
            (added if me < peer else removed).append(key)
        apply_masks(vector, added, removed)
        memory.view, memory.shares = deliveries.boxes.present, b"".join(shares)
        memory.mask_secret = memory.seed = memory.mask_keys = b""  # shared; no longer needed here
        raw = vector.tobytes()
        signature = self._sign(MaskedVector.kind, len(raw).to_bytes(4, "little") + raw)
        return MaskedVector(session.tag, me, signature, raw)

    def _agree(self, survivors: Survivors) -> Agreement:
        session, memory = self._now, self._memory
        if survivors.size != session.size:
            raise Tampered("the list of survivors is not over this cohort")
        alive = unpack_bits(survivors.alive, session.size)
        if not alive[memory.index]:
            raise NotASurvivor("this client's vector was sent and is said to be missing")
        if int(alive.sum()) < session.min_survivors:
            raise CohortTooSmall(
                f"{int(alive.sum())} survivors; the session promised {session.min_survivors}"
            )
        beside, view = alive[self._neighbours], self._slots(memory.view)
        if (beside & ~view).any():
            raise MissingMask("a surviving neighbour's mask is not in this client's vector")
        self._enough(beside)
        memory.alive = survivors.alive
        digest = session.survivors_digest(survivors.alive)
        confirm = self._confirm_keys(beside)
        slots = Slots.of(beside, [keys.confirmation(c, digest, memory.index) for c in confirm])
        signature = self._sign(Agreement.kind, digest + slots.to_bytes())
        return Agreement(session.tag, memory.index, signature, digest, slots)

    def _confirm_keys(self, slots: NDArray[np.bool_]) -> list[bytes]:
        """Return the confirmation keys of some of the peers, in slot order."""
        places = np.flatnonzero(slots[self._slots(self._memory.peers)])
        return [self._memory.channels[64 * p + 32 : 64 * p + 64] for p in places.tolist()]

    def _unmask(self, request: UnmaskRequest) -> Reveal:
        session, memory = self._now, self._memory
        seeds, mask_keys = self._asked(request.seeds), self._asked(request.mask_keys)
        signers = self._asked(request.tags)
        if (seeds & mask_keys).any():
            raise BothShares("the server asks for seed and mask key of the same client")
        alive = unpack_bits(memory.alive, session.size)[self._neighbours]
        view = self._slots(memory.view)
        if (seeds & ~alive).any() or (mask_keys & alive).any() or (signers & ~alive).any():
            raise EquivocatingSurvivors("the request contradicts the list that this client signed")
        if (mask_keys & ~view).any():
            raise UnknownSender("the server asks for a share that this client never had")
        digest = session.survivors_digest(memory.alive)
        for key, peer, tag in zip(
            self._confirm_keys(signers),
            self._neighbours[signers].tolist(),
            request.tags.items(keys.TAG),
            strict=True,
        ):
            if not keys.same(keys.confirmation(key, digest, peer), tag):
                raise EquivocatingSurvivors(
                    f"client {peer} of the cohort did not confirm this list of survivors"
                )
        self._enough(signers)
        shares = np.frombuffer(memory.shares, dtype=np.uint8).reshape(-1, 2, SHARE)
        seed_rows = Slots.of(seeds, shares[seeds[view], 0])
        key_rows = Slots.of(mask_keys, shares[mask_keys[view], 1])
        body = memory.own + seed_rows.to_bytes() + key_rows.to_bytes()
        signature = self._sign(Reveal.kind, body)
        return Reveal(session.tag, memory.index, signature, memory.own, seed_rows, key_rows)
