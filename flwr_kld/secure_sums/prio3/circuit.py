"""The statement that is proved: counts are strings of bits, and those of a column add up.

One circuit covers `Prio3Histogram` (largest 1, one column, total 1), `Prio3SumVec` (no columns) and
the L1BoundSum of draft-ietf-ppm-l1-bound-sum (one column, a total that is hidden); Sections 7.4.3,
7.4.4 and 7.4.5. A table has one sum for each of its columns.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from flwr_kld.kernel.count import InvalidReply
from flwr_kld.secure_sums.prio3.field import Elements, Field64
from flwr_kld.secure_sums.prio3.transform import powers


@dataclass(frozen=True)
class Counts:
    """A vector of counts, each of them in [0, `largest`].

    Parameters
    ----------
    field : Field64
        Its arithmetic.
    length : int
        Number of counts.
    largest : int
        Largest count, >= 1.
    columns : tuple[slice, ...]
        Each of these parts of the counts adds up to the same total.
    total : int or None
        The total, if it is public; else one in [0, `largest`] that follows the counts.
    chunk : int
        Bits that one call of the gadget takes; 0 for that of the shortest proof (Section 7.4.3.1).
    """

    field: Field64
    length: int
    largest: int
    columns: tuple[slice, ...] = ()
    total: int | None = None
    chunk: int = 0

    @cached_property
    def bits(self) -> int:
        """Bits of a count."""
        return self.largest.bit_length()

    @cached_property
    def measurement(self) -> int:
        """Elements of an encoded vector (``MEAS_LEN``)."""
        return self.bits * (self.length + self._hides_total)

    @cached_property
    def pairs(self) -> int:
        """Products that one call of the gadget adds up (``chunk_length``): half of its arity."""
        lengths = (2**i for i in range(1, self.measurement.bit_length() + 1))
        fewest = (-(-self.measurement // (length - 1)) for length in lengths)
        return self.chunk or min(fewest, key=self._proof_of)

    @property
    def calls(self) -> int:
        """Calls of the gadget (``GADGET_CALLS``)."""
        return -(-self.measurement // self.pairs)

    @property
    def joint(self) -> int:
        """Joint random elements: one for each call (``JOINT_RAND_LEN``)."""
        return self.calls

    @property
    def outputs(self) -> int:
        """Elements that are all 0 of valid counts (``EVAL_OUTPUT_LEN``)."""
        return 1 + len(self.columns)

    def encode(self, counts: NDArray[np.int64]) -> Elements:
        """Return bits (``encode_range_checked_int``); `InvalidReply` for counts out of range."""
        if self._hides_total:
            counts = np.append(counts, counts[self.columns[0]].sum())
        if counts.min() < 0 or counts.max() > self.largest:
            raise InvalidReply("counts that are proved are at least 0 and at most the largest")
        high = counts > self.largest - self._worth[-1]
        low = counts - high * self._worth[-1]
        found = (low[:, None] >> np.arange(self.bits)) & 1
        found[:, -1] = high
        return self.field.elements(found.ravel())

    def wires(
        self, measurement: Elements, joint: Elements, scale: Elements, shares: int
    ) -> tuple[Elements, Elements]:
        """Return both inputs of each product, shape [proofs, calls, pairs] (``eval``).

        Of a bit b and its power r of the joint randomness: r b, and b - 1; each times the call's
        scale, shape [proofs, calls].
        """
        field = self.field
        padded = np.zeros(self.calls * self.pairs, measurement.dtype)
        padded[: self.measurement] = measurement
        bits = padded.reshape(self.calls, self.pairs)
        each = powers(field, field.multiply(joint, scale), joint, self.pairs)
        right = field.subtract(bits, self._of_each_share(1, shares))
        return field.multiply(each, bits), field.multiply(right, scale[..., None])

    def check(self, counts: Elements, called: Elements, shares: int) -> Elements:
        """Return what has to be 0, shape [proofs, outputs], of the outputs of the gadget's calls.

        The sum of all b (b - 1), each times a power of the joint randomness, and each column's sum
        less the total.

        Parameters
        ----------
        counts : Elements
            What `decode` returned.
        called : Elements
            Shape [proofs, calls].
        """
        field = self.field
        bits = field.total(called)[:, None]
        if not self.columns:
            return bits
        public = self.total is not None
        total = self._of_each_share(self.total or 0, shares) if public else counts[-1:]
        sums = np.concatenate([field.total(counts[None, part]) for part in self.columns])
        differ = field.subtract(sums, total)
        return np.concatenate([bits, np.broadcast_to(differ, (len(bits), len(sums)))], axis=-1)

    def decode(self, measurement: Elements) -> Elements:
        """Return counts, and a total that is hidden, or shares (``decode_range_checked_int``)."""
        return self.field.total(measurement.reshape(-1, self.bits), worth=self._worth)

    def truncate(self, counts: Elements) -> Elements:
        """Return the counts of what `decode` returned (``truncate``)."""
        return counts[: self.length]

    @property
    def _worth(self) -> NDArray[np.int64]:
        """What each bit is worth: together, the largest count."""
        worth = 2 ** np.arange(self.bits)
        worth[-1] = self.largest - (2 ** (self.bits - 1) - 1)
        return worth

    @property
    def _hides_total(self) -> bool:
        return bool(self.columns) and self.total is None

    def _of_each_share(self, number: int, shares: int) -> Elements:
        """Return what each share of so many subtracts, that all subtract a number."""
        part = number * pow(shares, -1, self.field.modulus) % self.field.modulus
        return self.field.decode(part.to_bytes(self.field.size, "little"))

    def _proof_of(self, pairs: int) -> int:
        """Elements of a proof whose calls take so many bits."""
        return 2 * pairs + 2 * wire_length(-(-self.measurement // pairs))


def wire_length(calls: int) -> int:
    """Values of a wire: its seed, and one for each call, to a power of two (``wire_poly_len``)."""
    return 1 << calls.bit_length()
