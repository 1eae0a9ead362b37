"""What two aggregators are to do with a sum, and what each of them answers with."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, Json

from flwr_kld.codec.model import Flat, Model
from flwr_kld.errors import QueryRefused
from flwr_kld.kernel.arguments import Unfit
from flwr_kld.kernel.channels import word
from flwr_kld.kernel.count import InvalidReply
from flwr_kld.kernel.promise import Guarantee, Unit
from flwr_kld.messages.question import MOST_COLUMNS, VERSION, Question

TRUST = "two-aggregators"
"""Name of the trust model."""

_LONGEST = 10_000
_LONGEST_ID = 64
_MOST_NUMBERS = 2**31 - 1
_Id = Annotated[str, Field(min_length=1, max_length=_LONGEST_ID)]
_Key = Annotated[str, Field(pattern="^[0-9a-f]{64}$")]
_Whole = Annotated[int, Field(ge=0, le=_MOST_NUMBERS)]


@dataclass(frozen=True)
class SplitTerms(Model, what="the terms of the split sum", version=VERSION, refused=QueryRefused):
    """Who adds up what, and how much noise each of the two adds.

    Both boxes of a client are sealed for one text of these terms: whatever decides the noise is in
    it, so that an aggregator that is told anything else opens no box.
    """

    # Public keys, hexadecimal: of the aggregator that receives seeds, and of the one that receives
    # masked vectors
    seeds: _Key
    vectors: _Key
    guarantee: Flat[Guarantee]  # What the noise of either of them keeps by itself
    noise: Literal["least", "laplace", "gaussian"]  # Law of that noise
    clip: Annotated[int, Field(ge=1)] | None  # Most records of a client, for client-level privacy
    # Symbols that a record has, as in `Question`
    columns: Annotated[int, Field(ge=1, le=MOST_COLUMNS)]
    # That are noised: cells, or sums of scores
    numbers: Annotated[int, Field(ge=1, le=_MOST_NUMBERS)]
    scored: bool  # Whether they are sums of scores, whose noise is another

    def __post_init__(self) -> None:
        if self.seeds == self.vectors:
            raise Unfit("vectors", "the key of another aggregator than that of seeds", self.vectors)
        if (self.clip is None) is not (self.guarantee.unit is Unit.RECORD):
            raise Unfit("clip", "a number where whole clients are hidden, and else null", self.clip)

    @property
    def bits(self) -> int:
        """The sum is modulo 2**bits: squares of scores are few, and need more than 32."""
        return 64 if self.scored else 32

    @property
    def counted(self) -> bool:
        """Whether the exact number of records, which is public then, is summed too."""
        return not self.scored and self.guarantee.total_is_public

    @property
    def length(self) -> int:
        """Numbers in a client's vector: those that are noised, records, and a 1 for the client."""
        return self.numbers + self.counted + 1

    def hold_to(self, question: Question) -> None:
        """Refuse a question that claims anything else than these terms deliver."""
        mine, clip = self.guarantee, self.clip or 0
        if mine.total_is_public or self.scored:
            clip = question.clip  # moves nothing further, and shows no more than what is public
        if (TRUST, mine, clip, self.columns, self.numbers, self.scored) != (
            question.trust,
            question.guarantee,
            question.clip,
            question.columns,
            question.length,
            question.adds_scores,
        ):
            raise QueryRefused("the question claims another sum than the terms of the aggregators")


@dataclass(frozen=True)
class PartOrder(Model, what="the order of a part", version=VERSION, refused=QueryRefused):
    """What a server asks of either aggregator."""

    check: _Id  # As in `Question`
    reference: _Id
    question: _Id  # ``Question.fingerprint``, for which the boxes were sealed
    # ``SplitTerms.to_json``, for which the boxes were sealed
    terms: Annotated[str, Field(max_length=_LONGEST)]
    least: _Whole  # Fewest clients in the sum; the aggregator may have a higher minimum of its own


@dataclass(frozen=True)
class PartMessage(Model, what="the part of a sum", version=VERSION, refused=InvalidReply):
    """One aggregator's answer: uniformly random to whoever does not have the other's."""

    check: str  # Repeated from the order
    clients: _Whole  # Number of clients in the sum
    # Digest of their names and boxes; the two answers fit together if both have the same
    transcript: bytes
    values: bytes  # Little-endian words of the ring, masked
    # Why each client that is not in the sum is not, by the key that its box came under
    rejected: Json[dict[str, str]]

    def words(self, terms: SplitTerms) -> NDArray[np.unsignedinteger]:
        """Return the values, shape [terms.length]."""
        kind = word(terms.bits)
        if len(self.values) != kind.itemsize * terms.length:
            raise InvalidReply("the aggregator's part has another length than the sum")
        return np.frombuffer(self.values, dtype=kind)
