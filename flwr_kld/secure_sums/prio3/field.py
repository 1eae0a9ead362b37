"""Arithmetic of the field, element by element over arrays.

Circuits and proofs are handed it: a study of soundness hands them a smaller field instead.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from flwr_kld.kernel.channels import MODULUS
from flwr_kld.kernel.count import InvalidReply

Elements = NDArray[Any]
"""Elements of a field, each below its modulus."""


class Field64:
    """Integers modulo 2**64 - 2**32 + 1, as uint64 (Section 6.1.4)."""

    modulus = MODULUS
    size = 8
    """Bytes of an encoded element."""
    _order = 2**32
    """Of the group that `_generator` generates."""
    _generator = pow(7, 2**32 - 1, modulus)

    def root(self, order: int) -> int:
        """Return an element whose `order`-th power, and no lower one, is 1."""
        return pow(self._generator, self._order // order, self.modulus)

    def elements(self, numbers: Any) -> NDArray[np.uint64]:
        """Return integers modulo the modulus."""
        return np.asarray(numbers, dtype=np.int64).astype(np.uint64)

    def add(self, a: Elements, b: Elements) -> Elements:
        """Add."""
        sums = a + b
        sums += (sums < a) * _WRAPPED
        _reduce(sums)
        return sums

    def subtract(self, a: Elements, b: Elements) -> Elements:
        """Subtract."""
        return (a - b) - (a < b) * _WRAPPED

    def multiply(self, a: Elements, b: Elements) -> Elements:
        """Multiply, in blocks that stay in the second-level cache."""
        flags = ["buffered", "external_loop", "zerosize_ok"]
        with np.nditer([a, b, None], flags, buffersize=_BLOCK) as blocks:  # type: ignore[arg-type]
            for left, right, product in blocks:
                _multiply(left, right, product)
            return blocks.operands[2]

    def total(
        self, a: Elements, axis: int = -1, worth: NDArray[np.int64] | None = None
    ) -> Elements:
        """Add up along an axis, each element times its worth; all together are worth < 2**31."""
        low, high = a & _LOW, a >> _HALF
        if worth is not None:
            each = worth.astype(np.uint64)
            low, high = low * each, high * each
        low, high = low.sum(axis, dtype=np.uint64), high.sum(axis, dtype=np.uint64)
        return self.add(self.add(low, high << _HALF), (high >> _HALF) * _WRAPPED)

    def encode(self, a: Elements) -> bytes:
        """Write elements, eight bytes each, little-endian (``encode_vec``)."""
        return a.astype("<u8", copy=False).tobytes()

    def decode(self, encoded: bytes) -> Elements:
        """Read what `encode` wrote (``decode_vec``); `InvalidReply` for anything else."""
        if len(encoded) % self.size:
            raise InvalidReply("elements of the field have the wrong length")
        found = np.frombuffer(encoded, "<u8").astype(np.uint64)
        if (found >= _MODULUS).any():
            raise InvalidReply("an element of the field is not below its modulus")
        return found

    def below(self, stream: bytes) -> Elements:
        """Return the elements among random words, all but one in 2**32 (``next_vec``)."""
        found = np.frombuffer(stream, "<u8").astype(np.uint64)
        return found[found < _MODULUS]


_MODULUS = np.uint64(Field64.modulus)
_LOW, _HALF = np.uint64(2**32 - 1), np.uint64(32)
_WRAPPED = np.uint64(2**32 - 1)
"""2**64 in the field: what a word that wrapped has lost."""
_BLOCK = 2**13


def _multiply(a: Elements, b: Elements, product: Elements) -> None:
    """Compute both words of a product; in the field 2**64 is 2**32 - 1, and 2**96 is -1."""
    a_low, a_high, b_low, b_high = a & _LOW, a >> _HALF, b & _LOW, b >> _HALF
    middle = a_low * b_low
    middle >>= _HALF
    middle += a_high * b_low
    other = a_low * b_high
    other += middle & _LOW
    middle >>= _HALF
    other >>= _HALF
    high = a_high * b_high
    high += middle
    high += other
    low, top = a * b, high >> _HALF
    rare = low < top
    low -= top
    np.subtract(low, _WRAPPED, out=low, where=rare)
    high &= _LOW
    high *= _WRAPPED
    np.add(low, high, out=product)
    product += (product < low) * _WRAPPED
    _reduce(product)


def _reduce(words: Elements) -> None:
    """Take words below 2**64 modulo the modulus."""
    np.subtract(words, _MODULUS, out=words, where=words >= _MODULUS)
