"""What an aggregator signs: the question of a check, and the numbers that it released of it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Annotated, Any

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from pydantic import Field, StrictBool

from flwr_kld.common.identity import Identity
from flwr_kld.common.strict_model import Model
from flwr_kld.kernel.count import ClientSizes, InvalidReply
from flwr_kld.trust.envelopes import PartMessage, Published
from flwr_kld.trust.terms import VERSION, Key, Number, Terms

SIGNED = "signed"
"""Beside an aggregator's answer: its public key and signature, if its node has a signing key."""
_PUBLIC, _SIGNATURE = "public", "signature"


def holds(public: str, signature: str, message: bytes) -> bool:
    """Whether the holder of an Ed25519 key signed a message; key and signature hexadecimal."""
    try:
        signer, signed = bytes.fromhex(public), bytes.fromhex(signature)
        Ed25519PublicKey.from_public_bytes(signer).verify(signed, message)
    except (InvalidSignature, ValueError):
        return False
    return (signer.hex(), signed.hex()) == (public, signature)  # in the one form of each


@dataclass(frozen=True)
class SignedNumbers(
    Model, what="the aggregator's signed numbers", version=VERSION, refused=InvalidReply
):
    """Public: one aggregator's answer, without the names of whom it left out."""

    terms: Key  # Fingerprint of the question
    clients: Number
    records: Annotated[float, Field(ge=0)]
    values: str  # As they travel, hexadecimal
    sizes: ClientSizes | None
    carried: Number
    private: StrictBool
    transcript: str  # Of one of two aggregators, hexadecimal; else empty
    public: str = ""  # Ed25519 key of the aggregator, and its signature, hexadecimal
    signature: str = ""

    @classmethod
    def of(cls, terms: Terms, answer: Published | PartMessage) -> SignedNumbers:
        """Take what an aggregator answers; nobody has signed it yet."""
        return cls(
            terms.fingerprint,
            answer.clients,
            float(answer.records),
            answer.values.hex(),
            answer.sizes,
            answer.carried,
            True if isinstance(answer, PartMessage) else answer.private,
            answer.transcript.hex() if isinstance(answer, PartMessage) else "",
        )

    @property
    def text(self) -> bytes:
        """What is signed: everything else."""
        return f"flwr-kld aggregated 1\n{replace(self, signature='').to_json()}".encode()

    @property
    def holds(self) -> bool:
        """Whether it is as its aggregator signed it."""
        return holds(self.public, self.signature, self.text)

    def signed(self, identity: Identity) -> dict[str, str]:
        """Return the record that goes with the answer."""
        public = identity.public.hex()
        text = replace(self, public=public).text
        return {_PUBLIC: public, _SIGNATURE: identity.sign(text).hex()}

    def with_signature(self, record: Any) -> SignedNumbers:
        """Return these numbers with the record that came with them; refuse another's signature."""
        found = replace(self, public=str(record[_PUBLIC]), signature=str(record[_SIGNATURE]))
        if not found.holds:
            raise InvalidReply("its signature is not of these numbers")
        return found
