"""What an aggregator is to do with a sum: the same text for server, clients and aggregator."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import Field

from flwr_kld.codec.model import Flat, Model
from flwr_kld.errors import QueryRefused
from flwr_kld.kernel.arguments import Unfit
from flwr_kld.kernel.promise import Guarantee, Unit
from flwr_kld.messages.question import MOST_COLUMNS, VERSION, Question

TRUST = "trusted-aggregator"
"""Name of the trust model."""

_MOST_NUMBERS = 2**31 - 1
_LONGEST = 10_000


@dataclass(frozen=True)
class ReleaseOrder(Model, what="the order of a release", version=VERSION, refused=QueryRefused):
    """What a server asks of the aggregator beside the question."""

    # ``ReleaseTerms.to_json``, for which the boxes were sealed
    terms: Annotated[str, Field(max_length=_LONGEST)]
    # Fewest clients in the sum; the aggregator may have a higher minimum of its own
    least: Annotated[int, Field(ge=0, le=_MOST_NUMBERS)]


@dataclass(frozen=True)
class ReleaseTerms(Model, what="the terms of the release", version=VERSION, refused=QueryRefused):
    """The guarantee of a check, and the noise that keeps it."""

    # The public key that clients seal to, hexadecimal
    aggregator: Annotated[str, Field(pattern="^[0-9a-f]{64}$")]
    guarantee: Flat[Guarantee]  # Guarantee of each check
    noise: Literal["least", "laplace", "gaussian"]  # Law of the noise
    clip: Annotated[int, Field(ge=1)] | None  # Most records of a client, for client-level privacy
    # Symbols that a record has, as in `Question`
    columns: Annotated[int, Field(ge=1, le=MOST_COLUMNS)] = 1

    def __post_init__(self) -> None:
        if (self.clip is None) is not (self.guarantee.unit is Unit.RECORD):
            raise Unfit("clip", "a number where whole clients are hidden, and else null", self.clip)

    def hold_to(self, question: Question) -> None:
        """Refuse a question that claims anything else than these terms deliver."""
        mine, clip = self.guarantee, self.clip or 0
        if mine.total_is_public or question.adds_scores:
            clip = question.clip  # moves nothing further, and shows no more than what is public
        asked = (question.trust, question.guarantee, question.clip, question.columns)
        if (TRUST, mine, clip, self.columns) != asked:
            raise QueryRefused("the question claims another guarantee than the aggregator's terms")
