"""What each phase leads to: the server's next request for each client that is still there."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from flwr_kld.secure_aggregation.collected import Collected
from flwr_kld.secure_aggregation.errors import TooFewSurvivors
from flwr_kld.secure_aggregation.memory import Phase
from flwr_kld.secure_aggregation.messages import (
    Adverts,
    Deliveries,
    ServerMessage,
    Survivors,
    UnmaskRequest,
)
from flwr_kld.secure_aggregation.wire import Slots, pack_bits

_NOTHING: list[bytes] = []


def next_requests(collected: Collected, closed: Phase) -> dict[int, ServerMessage]:
    """Return a request for each client that answered in the phase now closed, by cohort index.

    Raises
    ------
    TooFewSurvivors
        If some secret cannot be opened any more.
    """
    if closed in _REQUIRED:
        _require_holders(collected, collected.answered[closed], _REQUIRED[closed])
    write = _WRITERS[closed]
    members = np.flatnonzero(collected.answered[closed]).tolist()
    return {index: write(collected, index) for index in members}


def _adverts(collected: Collected, index: int) -> Adverts:
    beside = collected.table[index]
    there = collected.advertised[beside]
    return Adverts(collected.session.tag, Slots.of(there, collected.adverts[beside[there]]))


def _deliveries(collected: Collected, index: int) -> Deliveries:
    beside = collected.table[index]
    there = collected.shared[beside]
    boxes = collected.boxes[beside[there], collected.mirror[there]]
    return Deliveries(collected.session.tag, Slots.of(there, boxes))


def _survivors(collected: Collected, index: int) -> Survivors:
    session = collected.session
    return Survivors(session.tag, session.size, pack_bits(collected.alive))


def _unmask(collected: Collected, index: int) -> UnmaskRequest:
    beside = collected.table[index]
    signed = collected.agreed[beside]
    tags = collected.tags[beside[signed], collected.mirror[signed]]
    seeds, mask_keys = (Slots.of(wanted, _NOTHING) for wanted in collected.wanted(index))
    return UnmaskRequest(collected.session.tag, seeds, mask_keys, Slots.of(signed, tags))


_WRITERS: dict[Phase, Callable[[Collected, int], ServerMessage]] = {
    Phase.ADVERTISE: _adverts,
    Phase.SHARE: _deliveries,
    Phase.MASK: _survivors,
    Phase.AGREE: _unmask,
}
_REQUIRED = {Phase.MASK: "sent a vector", Phase.AGREE: "agreed on the survivors"}


def _require_holders(collected: Collected, holders: NDArray[np.bool_], what: str) -> None:
    """Give up when some secret that opens the sum has too few holders left."""
    alive, table = collected.alive, collected.table
    left = holders[table].sum(1) + holders  # a dropout holds nothing of its own
    needed = alive | (collected.shared & alive[table].any(1))
    threshold = collected.session.shape.threshold
    if (left[needed] < threshold).any():
        raise TooFewSurvivors(f"too few of a client's holders {what}; the threshold is {threshold}")
