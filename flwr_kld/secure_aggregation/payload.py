"""What the messages of one sum weigh for a client, from messages of zeros."""

from __future__ import annotations

import numpy as np

from flwr_kld.secure_aggregation import messages as sums
from flwr_kld.secure_aggregation.identity import SIGNATURE, Roster
from flwr_kld.secure_aggregation.keys import TAG
from flwr_kld.secure_aggregation.session import Session
from flwr_kld.secure_aggregation.shamir import SHARE
from flwr_kld.secure_aggregation.tolerance import Tolerance, choose_shape
from flwr_kld.secure_aggregation.wire import Slots


def payload_of_sum(
    roster: Roster, *, check: str, plan: str, clients: int, length: int, word: int
) -> tuple[list[int], list[int]]:
    """Return the bytes of each message that a client of a sum without dropouts is sent and sends.

    Parameters
    ----------
    roster : Roster
        Everybody who might be asked.
    check, plan : str
        What the sum is for.
    clients : int
        That take part: the roster's first.
    length : int
        Numbers in a client's vector.
    word : int
        Bytes of each.
    """
    shape = choose_shape(clients, Tolerance())
    participants = list(roster.names[:clients])
    session = Session.open(roster, participants, check=check, plan=plan, length=length, shape=shape)
    k, tag = shape.neighbours, session.tag
    key, digest, signature = bytes(32), bytes(32), bytes(SIGNATURE)

    def slots(width: int, held: int = k) -> Slots:
        return Slots.of(np.arange(k) < held, np.zeros((held, width), dtype=np.uint8))

    everybody = bytes((clients + 7) // 8)
    down = [
        session.to_bytes(),
        sums.Adverts(tag, slots(sums.ADVERT.itemsize)).to_bytes(),
        sums.Deliveries(tag, slots(sums.BOX)).to_bytes(),
        sums.Survivors(tag, clients, everybody).to_bytes(),
        sums.UnmaskRequest(tag, slots(0), slots(0, 0), slots(TAG)).to_bytes(),
    ]
    up = [
        sums.Advert(tag, 0, signature, key, key).to_bytes(),
        sums.SealedShares(tag, 0, signature, digest, slots(sums.BOX)).to_bytes(),
        sums.MaskedVector(tag, 0, signature, bytes(word * length)).to_bytes(),
        sums.Agreement(tag, 0, signature, digest, slots(TAG)).to_bytes(),
        sums.Reveal(tag, 0, signature, bytes(SHARE), slots(SHARE), slots(SHARE, 0)).to_bytes(),
    ]
    return list(map(len, down)), list(map(len, up))
