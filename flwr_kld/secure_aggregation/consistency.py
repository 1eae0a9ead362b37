"""A client's phases 3 and 4: one list of survivors for all, and only then shares for it."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from flwr_kld.secure_aggregation import keys
from flwr_kld.secure_aggregation.errors import (
    BothShares,
    CohortTooSmall,
    EquivocatingSurvivors,
    MissingMask,
    NotASurvivor,
    Tampered,
    UnknownSender,
)
from flwr_kld.secure_aggregation.memory import Memory
from flwr_kld.secure_aggregation.messages import Agreement, Reveal, Survivors, UnmaskRequest
from flwr_kld.secure_aggregation.seat import Seat
from flwr_kld.secure_aggregation.shamir import SHARE
from flwr_kld.secure_aggregation.wire import Slots, unpack_bits


def agree(seat: Seat, memory: Memory, survivors: Survivors) -> Agreement:
    """Sign the list, if every surviving neighbour's mask is in; confirm it to each of them.

    Raises
    ------
    Tampered, NotASurvivor, CohortTooSmall, MissingMask, TooFewSurvivors
        What is wrong with the list.
    """
    session = seat.session
    if survivors.size != session.size:
        raise Tampered("the list of survivors is not over this cohort")
    alive = unpack_bits(survivors.alive, session.size)
    if not alive[seat.index]:
        raise NotASurvivor("this client's vector was sent and is said to be missing")
    if (left := int(alive.sum())) < session.min_survivors:
        raise CohortTooSmall(f"{left} survivors; the session promised {session.min_survivors}")
    beside = alive[seat.neighbours]
    if (beside & ~seat.slots(memory.view)).any():
        raise MissingMask("a surviving neighbour's mask is not in this client's vector")
    seat.require_holders(beside)

    memory.alive = survivors.alive
    digest = session.survivors_digest(survivors.alive)
    tags = [
        keys.confirmation(key, digest, seat.index) for key in _shared_keys(seat, memory, beside)
    ]
    slots = Slots.of(beside, tags)
    signature = seat.sign(Agreement.kind, digest + slots.to_bytes())
    return Agreement(session.tag, seat.index, signature, digest, slots)


def reveal(seat: Seat, memory: Memory, request: UnmaskRequest) -> Reveal:
    """Give a share of survivors' seeds and of dropouts' mask keys, once t holders confirmed.

    Raises
    ------
    Tampered, BothShares, EquivocatingSurvivors, UnknownSender, TooFewSurvivors
        Why nothing is revealed.
    """
    seeds, mask_keys = seat.asked(request.seeds), seat.asked(request.mask_keys)
    signers = seat.asked(request.tags)
    if (seeds & mask_keys).any():
        raise BothShares("the server asks for seed and mask key of the same client")
    alive = unpack_bits(memory.alive, seat.session.size)[seat.neighbours]
    view = seat.slots(memory.view)
    if (seeds & ~alive).any() or (mask_keys & alive).any() or (signers & ~alive).any():
        raise EquivocatingSurvivors("the request contradicts the list that this client signed")
    if (mask_keys & ~view).any():
        raise UnknownSender("the server asks for a share that this client never had")
    _require_confirmed(seat, memory, signers, request.tags)
    seat.require_holders(signers)

    shares = np.frombuffer(memory.shares, dtype=np.uint8).reshape(-1, 2, SHARE)
    seed_rows = Slots.of(seeds, shares[seeds[view], 0])
    key_rows = Slots.of(mask_keys, shares[mask_keys[view], 1])
    body = memory.own + seed_rows.to_bytes() + key_rows.to_bytes()
    signature = seat.sign(Reveal.kind, body)
    return Reveal(seat.session.tag, seat.index, signature, memory.own, seed_rows, key_rows)


def _require_confirmed(seat: Seat, memory: Memory, signers: NDArray[np.bool_], tags: Slots) -> None:
    """Refuse unless each of these neighbours confirmed the list that this client signed."""
    digest = seat.session.survivors_digest(memory.alive)
    confirm = _shared_keys(seat, memory, signers)
    members = seat.neighbours[signers].tolist()
    for key, peer, tag in zip(confirm, members, tags.items(keys.TAG), strict=True):
        if not keys.same(keys.confirmation(key, digest, peer), tag):
            raise EquivocatingSurvivors(
                f"client {peer} of the cohort did not confirm this list of survivors"
            )


def _shared_keys(seat: Seat, memory: Memory, slots: NDArray[np.bool_]) -> list[bytes]:
    """Return the confirmation keys shared with some of the peers, in slot order."""
    places = np.flatnonzero(slots[seat.slots(memory.peers)])
    return [memory.channels[64 * p + 32 : 64 * p + 64] for p in places.tolist()]
