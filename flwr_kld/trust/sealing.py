"""Counts sealed for an aggregator by HPKE (RFC 9180): X25519, HKDF-SHA256, ChaCha20-Poly1305.

A box opens only with the aggregator's key, and only in the context that it was sealed for. It is
as long as its content plus `OVERHEAD`, whatever the content is.
Proof note: ``docs/proofs/trusted-aggregator.md``.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from flwr_kld.kernel.channels import HPKE
from flwr_kld.kernel.count import InvalidReply
from flwr_kld.kernel.vector import Private

PUBLIC = 32
OVERHEAD = PUBLIC + 16
"""Bytes of a box beside its content: the one-use public key and the tag."""
_MAGIC = b"flwr-kld sealed counts 1\0"
_SHARED = b"flwr-kld two aggregators 1\0"


class NotOpened(InvalidReply):
    """A box was changed, or sealed for another key, other terms, or another sender."""


@dataclass(frozen=True)
class SealContext:
    """What a box is for. Both sides state it; it does not travel in the box."""

    run: int  # Number of the Flower run
    terms: str  # ``Terms.fingerprint``: what is counted, and what becomes of the sum
    sender: str  # Whose numbers they are

    def to_bytes(self) -> bytes:
        """Return HPKE's ``info``: every part with its length, so that no two are alike."""
        texts = [part.encode() for part in (str(self.run), self.terms, self.sender)]
        return _MAGIC + b"".join(len(text).to_bytes(4, "little") + text for text in texts)


class AggregatorKey(Private):
    """The aggregator's long-term X25519 key. Shows nothing of itself.

    Parameters
    ----------
    secret : bytes
        32 bytes, as `to_bytes` wrote them.
    """

    __slots__ = ("_private", "public")

    def __init__(self, secret: bytes) -> None:
        self._private = X25519PrivateKey.from_private_bytes(secret)
        self.public = self._private.public_key().public_bytes_raw()
        """32 bytes, for clients to pin."""

    @classmethod
    def generate(cls) -> AggregatorKey:
        """Make a new key from the operating system's randomness."""
        return cls(X25519PrivateKey.generate().private_bytes_raw())

    @classmethod
    def load(cls, path: str | Path) -> AggregatorKey:
        """Read a file written by `save`."""
        return cls(Path(path).read_bytes())

    def save(self, path: str | Path) -> None:
        """Write the secret to a new file that only its owner reads."""
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(handle, "wb") as file:
            file.write(self.to_bytes())

    def to_bytes(self) -> bytes:
        """Return the secret, for a file that only the operator reads."""
        return self._private.private_bytes_raw()

    def shared(self, other: bytes, about: bytes) -> bytes:
        """Return 32 bytes, for one purpose, that only the two holders of these keys can make."""
        secret = self._private.exchange(X25519PublicKey.from_public_bytes(other))
        return HKDF(hashes.SHA256(), PUBLIC, salt=None, info=_SHARED + about).derive(secret)

    def proof(self, other: bytes) -> bytes:
        """Return what shows the holder of another key that this one is held here, too."""
        return self.shared(other, b"role")

    def _opened(self, box: bytes, info: bytes) -> bytes:
        return HPKE.decrypt(box, self._private, info)


def check_public(public: object) -> bytes:
    """Return a public key that counts can be sealed to."""
    if not isinstance(public, bytes) or len(public) != PUBLIC:
        raise ValueError("an aggregator's public key is 32 bytes: AggregatorKey.public")
    try:
        X25519PrivateKey.generate().exchange(X25519PublicKey.from_public_bytes(public))
    except ValueError:
        raise ValueError("that public key is a low-order point and protects nothing") from None
    return public


def check_pair(aggregators: tuple[bytes, bytes]) -> tuple[bytes, bytes]:
    """Return two public keys that counts can be split between."""
    if not isinstance(aggregators, tuple | list) or len(aggregators) != 2:
        raise ValueError("aggregators must be two public keys: (first.public, second.public)")
    first, second = map(check_public, aggregators)
    if first == second:
        raise ValueError("the aggregators need two different keys: one key opens every count")
    return first, second


def open_sealed(key: AggregatorKey, box: bytes, context: SealContext) -> bytes:
    """Open a box in the context that it is said to be for."""
    if len(box) < OVERHEAD:
        raise NotOpened("the sealed counts are cut short")
    try:
        return key._opened(box, context.to_bytes())
    except InvalidTag:
        raise NotOpened(
            "the sealed counts were changed, or sealed for another check, sender or key"
        ) from None
