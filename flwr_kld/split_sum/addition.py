"""An aggregator's part of a sum: open what was sealed to it, add up, add noise, mask the answer.

Only the other aggregator's answer about the same clients takes that mask off: the two agree on a
list, or nobody learns anything.
Proof note: ``docs/proofs/two-aggregators.md``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace
from hashlib import sha256
from typing import NamedTuple

from flwr_kld.errors import QueryRefused
from flwr_kld.kernel.channels import KEY
from flwr_kld.kernel.count import InvalidReply
from flwr_kld.kernel.law import BitSource
from flwr_kld.kernel.release import Release
from flwr_kld.kernel.vector import PartialSum, Private
from flwr_kld.messages.sealing import AggregatorKey, NotOpened, SealContext, open_sealed
from flwr_kld.messages.split_terms import SplitTerms
from flwr_kld.secure_aggregation.errors import BadSignature, NotInvited
from flwr_kld.secure_aggregation.identity import Roster
from flwr_kld.secure_aggregation.wire import text
from flwr_kld.split_sum.parcel import Portion, signed_text

_ANSWER = b"flwr-kld split sum 1 answer\0"


class _Signed(NamedTuple):
    """A box that a known client signed: under which key it came, and the digest of the text."""

    sender: str
    context: SealContext
    box: bytes
    digest: bytes


class Addition(Private):
    """One aggregator's part of one sum. Private: with the other's part it is the exact sum."""

    __slots__ = (
        "_context",
        "_key",
        "_part",
        "_roster",
        "_terms",
        "_transcript",
        "clients",
        "rejected",
    )  # fmt: skip

    def __init__(
        self, key: AggregatorKey, terms: SplitTerms, context: SealContext, roster: Roster
    ) -> None:
        if key.public.hex() not in (terms.seeds, terms.vectors):
            raise QueryRefused("WrongAggregator: the sum is for the keys of other aggregators")
        self._key, self._terms, self._context, self._roster = key, terms, context, roster
        self._part = PartialSum(terms.length, terms.bits)
        self._transcript = sha256(_ANSWER)
        self.clients = 0
        """Number of clients in the sum. Public."""
        self.rejected: dict[str, str] = {}
        """Why others are not, by the key that their box came under. Public."""

    def take(self, portions: Mapping[str, bytes]) -> None:
        """Check signatures, open boxes, and add up; a client with two boxes is in it with none."""
        known = sorted(self._known(portions), key=lambda signed: signed.context.sender)
        often = Counter(signed.context.sender for signed in known)
        opened = []
        # By name, so that both aggregators have one list whatever order the boxes came in.
        for sender, context, box, digest in known:
            if often[context.sender] > 1:
                self.rejected[sender] = "Duplicated: two boxes of one client"
                continue
            try:
                opened.append(self._opened(box, context))
            except InvalidReply as error:
                name = "NotOpened: " if isinstance(error, NotOpened) else ""
                self.rejected[sender] = f"{name}{error}"
                continue
            self._transcript.update(text(context.sender) + digest)
            self.clients += 1
        if self._adds_seeds:
            self._part.add_seeds(opened)
        else:
            self._part.add_vectors(opened)

    @property
    def transcript(self) -> bytes:
        """Digest of the names and boxes of the clients in the sum. Public."""
        return self._transcript.digest()

    def answer(self, event: Release, bits: BitSource) -> bytes:
        """Add noise to what is to be noised, and the mask to all; to be called once."""
        mask = [self._mask()]
        added, removed = (mask, []) if self._adds_seeds else ([], mask)
        return self._part.answer(event, self._terms.numbers, bits, added=added, removed=removed)

    @property
    def _adds_seeds(self) -> bool:
        return self._key.public.hex() == self._terms.seeds

    def _mask(self) -> bytes:
        """Return the key of a mask that one aggregator adds and the other takes off.

        Only the two can make it, for one check and one list of clients.
        """
        other = self._terms.vectors if self._adds_seeds else self._terms.seeds
        about = _ANSWER + sha256(self._of("").to_bytes()).digest() + self.transcript
        return self._key.shared(bytes.fromhex(other), about)

    def _of(self, sender: str) -> SealContext:
        return replace(self._context, sender=sender)

    def _known(self, portions: Mapping[str, bytes]) -> Iterator[_Signed]:
        """Yield what clients of the roster signed."""
        for sender, raw in portions.items():
            try:
                portion = Portion.from_bytes(raw)
                context = self._of(portion.name)
                digests = sha256(portion.box).digest(), portion.other
                signed = signed_text(context, *(digests if self._adds_seeds else digests[::-1]))
                place = self._roster.position(portion.name)
                self._roster.verify(place, portion.signature, signed)
            except InvalidReply as error:
                self.rejected[sender] = str(error)
            except NotInvited:
                self.rejected[sender] = "NotInvited: not in the aggregator's roster"
            except BadSignature:
                self.rejected[sender] = "BadSignature: not signed by this client for this sum"
            else:
                yield _Signed(sender, context, portion.box, sha256(signed).digest())

    def _opened(self, box: bytes, context: SealContext) -> bytes:
        """Return a seed, or a masked vector."""
        opened = open_sealed(self._key, box, context)
        terms = self._terms
        if len(opened) != (KEY if self._adds_seeds else terms.length * terms.bits // 8):
            raise InvalidReply("a part of a client's numbers has the wrong length")
        return opened
