"""Long-term Ed25519 identities, and the pinned list of their public keys."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from functools import cached_property
from typing import Annotated

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from pydantic import Field, TypeAdapter

from flwr_kld.common.errors import BadSignature, Malformed, NotInvited, RosterMismatch
from flwr_kld.kernel.vector import Private

SIGNATURE = 64
_KEY = 32
_KEYS = TypeAdapter(dict[str, Annotated[str, Field(pattern="^[0-9a-f]{64}$")]])
"""Of a roster as JSON."""


def claim_text(challenge: bytes, sender: str, name: str) -> bytes:
    """Return what a client, at a node, signs to show that it holds the key of a name."""
    return b"flwr-kld signer 1\0" + challenge + f"{sender}\0{name}".encode()


class Identity(Private):
    """A client's signing key. Shows nothing of itself.

    Parameters
    ----------
    secret : bytes
        32 bytes, as `to_bytes` wrote them.
    """

    __slots__ = ("_private", "public")

    def __init__(self, secret: bytes) -> None:
        self._private = Ed25519PrivateKey.from_private_bytes(secret)
        self.public = self._private.public_key().public_bytes_raw()

    @classmethod
    def generate(cls) -> Identity:
        """Make a new identity from the operating system's randomness."""
        return cls(Ed25519PrivateKey.generate().private_bytes_raw())

    def to_bytes(self) -> bytes:
        """Return the secret, for a file that only the operator reads."""
        return self._private.private_bytes_raw()

    def sign(self, message: bytes) -> bytes:
        """Sign; 64 bytes."""
        return self._private.sign(message)


class Roster:
    """The pinned public keys of a deployment's clients, in the order of their names.

    Parameters
    ----------
    keys : Mapping[str, bytes]
        32-byte Ed25519 public key of each client, by name (a node id, a hospital). No key twice.
    """

    def __init__(self, keys: Mapping[str, bytes]) -> None:
        self.names: tuple[str, ...] = tuple(sorted(keys))
        self.keys: tuple[bytes, ...] = tuple(bytes(keys[name]) for name in self.names)
        if any(len(key) != _KEY for key in self.keys):
            raise ValueError("a roster's keys must be 32-byte Ed25519 public keys")
        if len(set(self.keys)) != len(self.keys):
            raise ValueError("two clients of a roster share a key")
        self._positions = {name: i for i, name in enumerate(self.names)}
        self._loaded: dict[int, Ed25519PublicKey] = {}

    @cached_property
    def fingerprint(self) -> bytes:
        """SHA-256 of names and keys."""
        digest = hashlib.sha256(b"flwr-kld roster 1\n")
        for name, key in zip(self.names, self.keys, strict=True):
            text = name.encode()
            digest.update(len(text).to_bytes(4, "little") + text + key)
        return digest.digest()

    def __len__(self) -> int:
        return len(self.names)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Roster) and self.fingerprint == other.fingerprint

    def __hash__(self) -> int:
        return hash(self.fingerprint)

    def position(self, name: str) -> int:
        """Return a client's place in the list."""
        try:
            return self._positions[name]
        except KeyError:
            raise NotInvited(f"the roster does not list {name!r}") from None

    def verify(self, position: int, signature: bytes, message: bytes) -> None:
        """Raise `BadSignature` unless the client at `position` signed `message`."""
        key = self._loaded.get(position)
        if key is None:
            key = Ed25519PublicKey.from_public_bytes(self.keys[position])
            self._loaded[position] = key
        try:
            key.verify(signature, message)
        except InvalidSignature:
            raise BadSignature(f"the signature is not {self.names[position]!r}'s") from None

    def extended(self, other: Roster) -> Roster:
        """Return this list with another's new clients, for trust on first use.

        Raises `RosterMismatch` if the other list changes the key of a client that is pinned here.
        """
        mine = dict(zip(self.names, self.keys, strict=True))
        theirs = dict(zip(other.names, other.keys, strict=True))
        for name in mine.keys() & theirs.keys():
            if mine[name] != theirs[name]:
                raise RosterMismatch(f"the key of {name!r} is not the pinned one")
        if not set(other.keys).isdisjoint(key for name, key in mine.items() if name not in theirs):
            raise RosterMismatch("a pinned key appears under another name")
        return Roster(mine | theirs)

    def to_json(self) -> str:
        """Write names and keys (hex) as JSON."""
        return json.dumps(
            {name: key.hex() for name, key in zip(self.names, self.keys, strict=True)}, indent=1
        )

    @classmethod
    def from_json(cls, text: str) -> Roster:
        """Read `to_json`.

        Raises `Malformed` if it is not a list of names and keys.
        """
        try:
            raw = _KEYS.validate_json(text, strict=True)
            return cls({name: bytes.fromhex(key) for name, key in raw.items()})
        except ValueError:
            raise Malformed(
                "the roster is not readable: each name needs a key of its own, 64 hexadecimal "
                "digits"
            ) from None

    def __repr__(self) -> str:
        return f"Roster({len(self)} clients, {self.fingerprint.hex()[:16]})"
