"""Random elements and seeds from a seed: XofTurboShake128 (Section 6.2.1)."""

from __future__ import annotations

import numpy as np
from Crypto.Hash import TurboSHAKE128

from flwr_kld.secure_sums.prio3.field import Elements, Field64

SEED = 32
"""Bytes of a seed (``SEED_SIZE``)."""


class Expander:
    """A stream of bytes that a seed, a domain separation tag and a binder make."""

    def __init__(self, seed: bytes, tag: bytes, binder: bytes) -> None:
        head = len(tag).to_bytes(2, "little") + tag + len(seed).to_bytes(1, "little")
        self._hash = TurboSHAKE128.new(domain=1, data=head + seed + binder)

    def seed(self) -> bytes:
        """Return a new seed (``derive_seed``)."""
        return self._hash.read(SEED)

    def elements(self, field: Field64, count: int) -> Elements:
        """Return uniform elements (``next_vec``)."""
        found = field.below(self._hash.read(field.size * count))
        while len(found) < count:
            more = field.below(self._hash.read(field.size * (count - len(found))))
            found = np.append(found, more)
        return found
