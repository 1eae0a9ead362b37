"""Canonical bytes: one encoding for each message, and a reader that accepts no other."""

from __future__ import annotations

import zlib
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from flwr_kld.common.errors import Malformed

MAGIC = b"kss1"
"""Name and version of the protocol; another version is refused."""


class Reader:
    """Takes bytes from the front and refuses what is too short, too long or not canonical."""

    __slots__ = ("_at", "_data")

    def __init__(self, data: bytes) -> None:
        self._data = bytes(data)
        self._at = 0

    def take(self, count: int) -> bytes:
        """Take the next `count` bytes."""
        end = self._at + count
        if end > len(self._data):
            raise Malformed("the message is cut short")
        part = self._data[self._at : end]
        self._at = end
        return part

    def number(self, size: int = 4) -> int:
        """Take a little-endian number."""
        return int.from_bytes(self.take(size), "little")

    def text(self) -> str:
        """Take a short UTF-8 text with its length."""
        try:
            return self.take(self.number(2)).decode()
        except UnicodeDecodeError:
            raise Malformed("a text is not UTF-8") from None

    def bits(self, count: int) -> bytes:
        """Take a bitmap of `count` bits, lowest first; spare bits are 0."""
        packed = self.take((count + 7) // 8)
        if count % 8 and packed[-1] >> (count % 8):
            raise Malformed("a bitmap is longer than its list")
        return packed

    def rest(self) -> bytes:
        """Take all that is left."""
        return self.take(len(self._data) - self._at)

    @property
    def done(self) -> bool:
        """Whether nothing is left."""
        return self._at == len(self._data)

    def end(self) -> None:
        """Refuse what is left."""
        if not self.done:
            raise Malformed("the message goes on after its end")


def number(value: int, size: int = 4) -> bytes:
    """Write a little-endian number."""
    return value.to_bytes(size, "little")


def text(value: str) -> bytes:
    """Write a short UTF-8 text with its length."""
    raw = value.encode()
    return number(len(raw), 2) + raw


def pack_bits(mask: NDArray[np.bool_]) -> bytes:
    """Write a bitmap, lowest bit first."""
    return np.packbits(mask, bitorder="little").tobytes()


def unpack_bits(packed: bytes, count: int) -> NDArray[np.bool_]:
    """Read a bitmap."""
    raw = np.frombuffer(packed, dtype=np.uint8)
    return np.unpackbits(raw, count=count, bitorder="little").astype(bool)


@dataclass(frozen=True)
class Slots:
    """Equally long items for some of a client's neighbours, in the order of its slots."""

    count: int  # k, number of slots
    present: bytes  # Bitmap of the slots that have an item
    data: bytes = field(repr=False)  # The items of those slots, one after the other

    @classmethod
    def of(cls, mask: NDArray[np.bool_], rows: NDArray[Any] | list[bytes]) -> Slots:
        """Write the items of the slots in `mask`: an array or a list, one for each of them."""
        data = b"".join(rows) if isinstance(rows, list) else rows.tobytes()
        return cls(len(mask), pack_bits(mask), data)

    def mask(self) -> NDArray[np.bool_]:
        """Which slots have an item, shape [k]."""
        return unpack_bits(self.present, self.count)

    def rows(self, width: int) -> NDArray[np.uint8]:
        """Return the items, shape [present, width]."""
        return np.frombuffer(self.data, dtype=np.uint8).reshape(-1, width)

    def items(self, width: int) -> list[bytes]:
        """Return the items as a list."""
        items: list[bytes] = np.frombuffer(self.data, f"V{width}").tolist()
        return items

    def to_bytes(self) -> bytes:
        """Write count, bitmap and items."""
        return number(self.count) + self.present + self.data

    @classmethod
    def read(cls, reader: Reader, width: int) -> Slots:
        """Read what `to_bytes` wrote for items of `width` bytes."""
        count = reader.number()
        present = reader.bits(count)
        held = int.from_bytes(present, "little").bit_count()
        return cls(count, present, reader.take(width * held))


def inflated(packed: bytes, size: int, error: str) -> bytes:
    """Inflate what holds exactly so many bytes, at least 1, and no byte more of anything else."""
    inflater = zlib.decompressobj()
    try:
        raw = inflater.decompress(packed, size)
    except zlib.error:
        raise ValueError(error) from None
    if len(raw) != size or not inflater.eof or inflater.unused_data:
        raise ValueError(error)
    return raw
