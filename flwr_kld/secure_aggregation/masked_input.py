"""A client's phase 2: it keeps its neighbours' shares, and sends its vector under all masks."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from flwr_kld.secure_aggregation import keys
from flwr_kld.secure_aggregation.errors import UnknownSender
from flwr_kld.secure_aggregation.masks import apply_masks
from flwr_kld.secure_aggregation.memory import Memory
from flwr_kld.secure_aggregation.messages import BOX, Deliveries, MaskedVector
from flwr_kld.secure_aggregation.ring import checked
from flwr_kld.secure_aggregation.seat import Seat
from flwr_kld.secure_aggregation.wire import number


def mask(seat: Seat, memory: Memory, deliveries: Deliveries, values: NDArray[Any]) -> MaskedVector:
    """Add the self mask, and the masks of the neighbours whose shares came.

    Raises
    ------
    Tampered, UnknownSender, TooFewSurvivors
        What is wrong with the shares.
    ValueError
        If the vector does not fit the session.
    """
    session, me = seat.session, seat.index
    vector = checked(values, session.length, session.bits)
    view, peers = seat.asked(deliveries.boxes), seat.slots(memory.peers)
    if (view & ~peers).any():
        raise UnknownSender("shares came from a client without keys")
    seat.require_holders(view)

    own = keys.OneUseKey(memory.mask_secret)
    added = [keys.self_mask_key(memory.seed, session.digest, me)]
    removed: list[bytes] = []
    shares: list[bytes] = []
    members = seat.neighbours[view].tolist()
    places = np.flatnonzero(view[peers]).tolist()  # among the peers, as their keys are kept
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
    signature = seat.sign(MaskedVector.kind, number(len(raw)) + raw)
    return MaskedVector(session.tag, me, signature, raw)
