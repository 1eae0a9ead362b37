"""Reading messages: `decode` is the inverse of `to_bytes`, and accepts no other bytes."""

from __future__ import annotations

from collections.abc import Callable

from flwr_kld.secure_aggregation.errors import Malformed
from flwr_kld.secure_aggregation.identity import SIGNATURE
from flwr_kld.secure_aggregation.keys import PUBLIC, TAG
from flwr_kld.secure_aggregation.messages import (
    ADVERT,
    BOX,
    SESSION_TAG,
    Advert,
    Adverts,
    Agreement,
    Deliveries,
    MaskedVector,
    Message,
    Reveal,
    SealedShares,
    Survivors,
    UnmaskRequest,
)
from flwr_kld.secure_aggregation.shamir import SHARE
from flwr_kld.secure_aggregation.wire import MAGIC, Reader, Slots


def decode(data: bytes) -> Message:
    """Read a message.

    Raises
    ------
    Malformed
        If the bytes are not exactly what `to_bytes` writes.
    """
    reader = Reader(data)
    if reader.take(4) != MAGIC:
        raise Malformed("not a message of a secure sum, or of another version")
    read = _READERS.get(reader.number(1))
    if read is None:
        raise Malformed("no such kind of message")
    message = read(reader, reader.take(SESSION_TAG))
    reader.end()
    return message


def _advert(r: Reader, session: bytes) -> Message:
    sender, mask_key, seal_key = r.number(), r.take(PUBLIC), r.take(PUBLIC)
    return Advert(session, sender, r.take(SIGNATURE), mask_key, seal_key)


def _sealed(r: Reader, session: bytes) -> Message:
    sender, commitment, boxes = r.number(), r.take(32), Slots.read(r, BOX)
    return SealedShares(session, sender, r.take(SIGNATURE), commitment, boxes)


def _masked(r: Reader, session: bytes) -> Message:
    sender, values = r.number(), r.take(r.number())
    return MaskedVector(session, sender, r.take(SIGNATURE), values)


def _survivors(r: Reader, session: bytes) -> Message:
    size = r.number()
    return Survivors(session, size, r.bits(size))


def _agreement(r: Reader, session: bytes) -> Message:
    sender, survivors, tags = r.number(), r.take(32), Slots.read(r, TAG)
    return Agreement(session, sender, r.take(SIGNATURE), survivors, tags)


def _request(r: Reader, session: bytes) -> Message:
    return UnmaskRequest(session, Slots.read(r, 0), Slots.read(r, 0), Slots.read(r, TAG))


def _reveal(r: Reader, session: bytes) -> Message:
    sender, own = r.number(), r.take(SHARE)
    seeds, mask_keys = Slots.read(r, SHARE), Slots.read(r, SHARE)
    return Reveal(session, sender, r.take(SIGNATURE), own, seeds, mask_keys)


_READERS: dict[int, Callable[[Reader, bytes], Message]] = {
    Advert.kind: _advert,
    Adverts.kind: lambda r, session: Adverts(session, Slots.read(r, ADVERT)),
    SealedShares.kind: _sealed,
    Deliveries.kind: lambda r, session: Deliveries(session, Slots.read(r, BOX)),
    MaskedVector.kind: _masked,
    Survivors.kind: _survivors,
    Agreement.kind: _agreement,
    UnmaskRequest.kind: _request,
    Reveal.kind: _reveal,
}
