"""One-use X25519 keys and what two clients derive from them, bound to the session."""

from __future__ import annotations

import hmac
import struct

import numpy as np
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from flwr_kld.common.errors import Tampered
from flwr_kld.kernel.vector import Private
from flwr_kld.secure_sums.shamir import RandomBytes

PUBLIC = 32
KEY = 32
"""Bytes of every symmetric key."""
CONFIRMATION = 17
"""Bytes of a neighbour's confirmation of the list of survivors: a lock's."""
SEAL_OVERHEAD = 16
_NONCE = bytes(12)  # a sealing key seals one message
_HASH = hashes.SHA256()
_ONE = struct.Struct("<I").pack
_TWO = struct.Struct("<II").pack


class OneUseKey(Private):
    """An X25519 key pair for one session."""

    __slots__ = ("_private", "public", "secret")
    _hidden = frozenset({"secret"})

    def __init__(self, secret: bytes) -> None:
        self._private = X25519PrivateKey.from_private_bytes(secret)
        self.secret = secret
        self.public = self._private.public_key().public_bytes_raw()

    @classmethod
    def generate(cls, random: RandomBytes) -> OneUseKey:
        """Make a pair from 32 random bytes."""
        return cls(random(32))

    def agree(self, peer: bytes) -> bytes:
        """Return the Diffie-Hellman secret with a peer's public key."""
        try:
            return self._private.exchange(X25519PublicKey.from_public_bytes(peer))
        except ValueError:
            raise Tampered("a client's one-use key is not a valid public key") from None


def derive(
    secret: bytes, session: bytes, purpose: bytes, parties: bytes, length: int = KEY
) -> bytes:
    """HKDF-SHA256, salted with the session's digest, for one purpose and the named parties."""
    info = b"flwr-kld secure-sum 2 " + purpose + b"\0" + parties
    return HKDF(_HASH, length, session, info).derive(secret)


def pair(one: int, other: int) -> bytes:
    """Name two clients by cohort index, the lower first."""
    return _TWO(one, other) if one < other else _TWO(other, one)


def mask_key(own: OneUseKey, peer: bytes, session: bytes, me: int, them: int) -> bytes:
    """Key of the mask that two clients add and subtract."""
    return derive(own.agree(peer), session, b"pair mask", pair(me, them))


def self_mask_key(seed: bytes, session: bytes, me: int) -> bytes:
    """Key of a client's own mask."""
    return derive(seed, session, b"self mask", _ONE(me))


def commitment(seed: bytes, session: bytes, me: int) -> bytes:
    """Digest that distinguishes the right seed from one that bad shares opened."""
    return derive(seed, session, b"seed commitment", _ONE(me))


def channel_keys(
    own: OneUseKey, peer: bytes, session: bytes, me: int, them: int
) -> tuple[bytes, bytes, bytes]:
    """Keys that two neighbours share for sealing shares and confirming survivors."""
    derived = derive(own.agree(peer), session, b"channel", pair(me, them), 3 * KEY)
    up, down, confirm = np.frombuffer(derived, f"V{KEY}").tolist()
    return (up, down, confirm) if me < them else (down, up, confirm)


def seal(key: bytes, plain: bytes, session: bytes, sender: int, receiver: int) -> bytes:
    """Seal shares for one neighbour; 16 bytes longer."""
    return ChaCha20Poly1305(key).encrypt(_NONCE, plain, session + _TWO(sender, receiver))


def unseal(key: bytes, box: bytes, session: bytes, sender: int, receiver: int) -> bytes:
    """Open a neighbour's shares."""
    try:
        return ChaCha20Poly1305(key).decrypt(_NONCE, box, session + _TWO(sender, receiver))
    except InvalidTag:
        raise Tampered(f"the shares of client {sender} of the cohort do not open") from None


def reveal_key(secret: bytes, survivors: bytes, owner: int) -> bytes:
    """Key under which a client seals what it reveals for one list of survivors."""
    return derive(secret, survivors, b"reveal", _ONE(owner))


def confirmation(key: bytes, survivors: bytes, sender: int) -> bytes:
    """Return what only a client and its neighbour, the sender, know until the sender shows it."""
    # By showing it the sender says which list of survivors it was told: for any other list it is
    # another. The client hides the sender's share of its reveal key under it, once.
    text = b"flwr-kld secure-sum 2 survivors\0" + _ONE(sender) + survivors
    return hmac.digest(key, text, "sha256")[:CONFIRMATION]
