"""Messages beside the terms of a check: who is asked, what comes back, and under which names."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Annotated, Any, Self

import numpy as np
from pydantic import Field, Json, Strict, StrictBool

from flwr_kld.common.errors import QueryRefused
from flwr_kld.common.strict_model import Model, must
from flwr_kld.kernel.count import ClientSizes, InvalidReply
from flwr_kld.kernel.release import Release
from flwr_kld.kernel.selection import LONGEST
from flwr_kld.kernel.vector import LARGEST_CLIENT, Released
from flwr_kld.trust.terms import LONGEST_ID, VERSION, Key, Number, Terms

CLAIMED_NOISE = "flwr-kld-noise-multiplier"
"""In the config of a round of training: the noise that the server says it adds."""
DRIFT_ACTION = "drift"
"""Asks a node's clients for their numbers. Flower routes it by message type ``query.drift``."""
REPORT_ACTION = "drift_report"
"""Returns the published report to the nodes that it counted; the reply is empty."""
HOSTED_ACTION = "drift_hosted"
"""Asks a simulation's node which virtual clients it hosts."""
IDENTITY_ACTION = "drift_identity"
"""Asks under which names and keys a node's clients sign."""
SUM_ACTION = "drift_sum"
"""One phase of a secure sum: requests to a node's clients, and their answers."""
ROLE_ACTION = "drift_role"
"""Asks an aggregator for its public key, and for proof that it holds the key."""
AGGREGATE_ACTION = "drift_aggregate"
"""Hands an aggregator its boxes; it answers with noised numbers, or its part of them."""
PREDICT_ACTION = "drift_predict"
"""Asks a node's clients for one privatised label each."""
TERMS = "terms"
MEMBERS = "members"
MODEL = "model"
"""The arrays that clients compute predictions with, beside the terms."""
ROSTER = "roster"
"""Beside the terms of a secure sum: the server's list of clients, or its fingerprint."""
CHALLENGE, PROOF = "challenge", "proof"
"""To an aggregator, a new public key, and what only its holder and that of the aggregator's key can
make. To clients that sign, so many random bytes."""
CHALLENGED = 32
ORDER = "order"
QUERY = "query"
"""Queries of a predictor: ``query.7`` is number 7; ``query`` says which member gets which."""
ANSWER = "answer"
NUMBERS = "numbers"
"""What clients answer with, a list of rows or boxes; or boxes by sender, as an aggregator gets
them."""
REPORT = "<II"
"""What a client answers a predictor with: the number of its query, and a privatised symbol."""
VERIFIERS = "verifiers"
"""Beside the order to one of two aggregators: what the other sealed for it, by portion."""
PHASE = "phase"
PUBLISHED = "published"
PUBLISHED_REPORT = "published_report"
"""JSON text of the report that is returned to a node, less what is of another client alone."""
LOSS_WEIGHTS, LOSS_WEIGHTS_DOMAIN = "drift-loss-weights", "drift-loss-weights-domain"
"""Keys of a train config."""
_LONGEST_REASON = 10_000
_MOST_MEMBERS = 2**24
_MOST_HOSTED = 2**20

_Id = Annotated[str, Field(max_length=LONGEST_ID)]
_Member = Annotated[str, Field(pattern="^(0|[1-9][0-9]{0,9})$")]
_Reason = Annotated[str, Field(max_length=_LONGEST_REASON)]
_Name = Annotated[str, Field(max_length=255)]
_Label = Annotated[str, Field(min_length=1, max_length=LONGEST)]
_Signature = Annotated[str, Field(pattern="^[0-9a-f]{128}$")]
_EACH_ONCE = must("name nobody twice", lambda members: len(members) == len(set(members)))


def member_of(key: str) -> int:
    """Read a member's number where it is the key of a record: ``str(member)`` and nothing else."""
    if len(key) <= LONGEST_ID and key.isascii() and key.isdecimal() and key == str(int(key)):
        return int(key)
    raise QueryRefused("the key of a request is not the number of a client")


@dataclass(frozen=True)
class Members(Model, what="the list of members", refused=QueryRefused, kept=True):
    """Which of a node's clients are asked: ``[0]`` unless the node hosts many."""

    members: Annotated[list[Number], Field(max_length=_MOST_MEMBERS), _EACH_ONCE]


def asked(content: Mapping[str, Any]) -> tuple[Terms, list[int]]:
    """Read the terms, and which members of a node are asked."""
    return Terms.from_config(content.get(TERMS)), Members.from_config(content.get(MEMBERS)).members


@dataclass(frozen=True)
class Hosted(Model, what="the list of hosted clients", version=VERSION, refused=InvalidReply):
    """Which clients a node hosts."""

    # Number of each, at most 2**20 of them
    members: Json[Annotated[tuple[Number, ...], Field(max_length=_MOST_HOSTED), _EACH_ONCE]]


@dataclass(frozen=True)
class Signers(Model, what="the list of signers", version=VERSION, refused=InvalidReply):
    """Under which names and keys a node's clients sign in a secure sum."""

    # Name, public key, and the signature of `claim_text` (hexadecimal), by number of the member
    signers: Json[dict[_Member, tuple[_Name, Key, _Signature]]]
    refused: Json[tuple[_Reason, ...]]  # Why others do not; free of data values


@dataclass(frozen=True)
class Answer(Model, what="the answer", version=VERSION, refused=InvalidReply):
    """Which members answered, and why others did not."""

    terms: _Id  # Fingerprint of the terms that are answered; empty if they were refused
    # Members that answered, in the order of their numbers
    answered: Annotated[list[Number], Field(max_length=_MOST_MEMBERS), _EACH_ONCE]
    # One for each asked member that did not answer, or the one reason why the terms were refused;
    # free of data values
    reasons: Annotated[list[_Reason], Field(max_length=_MOST_MEMBERS)]
    # Last night of the session that somebody here remembers and that does not lead to the one that
    # is asked for: the session is over. 0 if there is none
    other_night: Number = 0

    def to_config(self) -> dict[str, Any]:
        """Return the values of a Flower ConfigRecord: one JSON text (lists may be empty)."""
        alone = self.answered == [0] and not (self.reasons or self.other_night)
        return {ANSWER: _of_one(self.terms) if alone else self.to_json()}

    @classmethod
    def from_config(cls, config: object) -> Answer:
        """Read a ConfigRecord."""
        text = config.get(ANSWER) if isinstance(config, Mapping) else None
        return _last_answer(text) if isinstance(text, str) else cls.from_json(text)


@lru_cache(maxsize=1)
def _of_one(terms: str) -> str:
    """Write that the only client of a node answers; those of many nodes in a process are alike."""
    return Answer(terms, [0], []).to_json()


@lru_cache(maxsize=1)
def _last_answer(text: str) -> Answer:
    """Read one; those of nodes with a single client are alike."""
    return Answer.from_json(text)


@dataclass(frozen=True)
class Order(Model, what="the order to an aggregator", version=VERSION, refused=QueryRefused):
    """What a server asks of an aggregator beside the terms."""

    least: Number  # Fewest clients in the sum; the aggregator may have a higher minimum of its own
    more: StrictBool = False  # Whether more portions of boxes follow, to the second of two


@dataclass(frozen=True)
class Published(Model, what="the published numbers", version=VERSION, refused=InvalidReply):
    """Public: an aggregator's numbers as they travel."""

    check: str  # Repeated from the terms
    clients: Number  # Number of clients in the sum
    # As in `Released`; 0 for labels
    records: Annotated[float, Field(ge=0)]
    values: bytes  # Noised counts or sums, little-endian int64
    # Why the sealed numbers of each client that is not in the sum are not, by the name that they
    # were sealed under
    rejected: Json[dict[str, str]]
    private: bool  # False if the noise came from a seed
    sizes: Json[ClientSizes | None]  # How records are shared out, where that is public
    # Clients of a session that are silent and count as they did before; among `clients`
    carried: Number = 0
    labels: Json[tuple[_Label, ...]] = ()  # That are shown, one for each of the values

    @classmethod
    def of(
        cls,
        check: str,
        released: Released,
        rejected: Mapping[str, str],
        sizes: ClientSizes | None,
        carried: int,
    ) -> Self:
        """Take what was released."""
        return cls(
            check, released.clients, float(released.records or 0.0),
            released.values.astype("<i8").tobytes(), dict(rejected), released.private, sizes,
            carried, released.labels,
        )  # fmt: skip

    def released(self, release: Release, terms: Terms) -> Released:
        """Return what the aggregator released of what the terms ask for."""
        labels = terms.unlisted_labels is not None
        numbers = len(set(self.labels)) if labels else terms.numbers
        fits = labels or not self.labels
        if not labels:
            fits = fits and 1 <= self.records <= self.clients * LARGEST_CLIENT
        fits = fits and len(self.values) == 8 * numbers
        values = np.frombuffer(self.values if fits else b"", dtype="<i8").astype(np.int64)
        if labels:  # no honest one shows others
            shown = values - release.table.reach
            fits = fits and bool(((shown > 0) & (shown <= self.clients * LARGEST_CLIENT)).all())
        if not fits:
            raise InvalidReply("the aggregator published other numbers than the terms ask for")
        records = None if labels else self.records
        return Released(values, records, self.clients, release, self.private, self.labels)


@dataclass(frozen=True)
class Verifiers(Model, what="the verifier shares", version=VERSION, refused=InvalidReply):
    """What one of two aggregators says of the proofs of a portion."""

    check: str  # Repeated from the terms
    box: bytes  # Sealed for the other: the first's verifier shares, or which proofs hold


@dataclass(frozen=True)
class PartMessage(Model, what="the part of a sum", version=VERSION, refused=InvalidReply):
    """One of two aggregators' answer: uniformly random to whoever does not have the other's."""

    check: str  # Repeated from the terms
    clients: Number  # Number of clients in the sum
    # Digest of their names and boxes; the two answers fit together if both have the same
    transcript: bytes
    values: bytes  # Little-endian elements of the field, masked
    # Why each client that is not in the sum is not, by the key that its box came under
    rejected: Json[dict[str, str]]
    # How records are shared out, where that is public, and how many there are; 0 where it is not
    sizes: Json[ClientSizes | None]
    records: Annotated[int, Strict(), Field(ge=0)]
    verifiers: bytes  # As in `Verifiers`, of the last portion; empty from the first
    carried: Number = 0  # As in `Published`
