"""What a client of a secure sum agrees to before it takes part."""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import sha256
from typing import Annotated, Literal

from pydantic import Field, Json

from flwr_kld.calibration.shares import Mechanism, calibrate_shares
from flwr_kld.codec.json_text import json_text
from flwr_kld.codec.model import Flat, Model, must
from flwr_kld.errors import QueryRefused
from flwr_kld.kernel.arguments import Unfit
from flwr_kld.kernel.count import sums_move
from flwr_kld.kernel.promise import Clip, Guarantee, Unit
from flwr_kld.kernel.release import ShareRelease
from flwr_kld.messages.question import MOST_COLUMNS, VERSION, Question

_TOLD_OTHERWISE = frozenset({"wire", "score_wire", "roster"})
"""Fields of the terms that the plan's fingerprint and the session's list of clients stand for."""


@dataclass(frozen=True)
class NoiseTerms(Model, what="the terms of the noise", refused=QueryRefused):
    """From which both sides compute the same share of noise."""

    guarantee: Flat[Guarantee]  # Delivered by `n_min` honest survivors
    n_min: Annotated[int, Field(ge=1)]  # Honest survivors that the guarantee relies on
    mechanism: Mechanism  # Law that the shares add up to
    clip: Annotated[int, Field(ge=0)] = 0  # Bound of a client's counts; 0 for record-level privacy
    norm: Literal[1, 2] = 1  # Norm of that bound, 1 or 2
    # Whether the shares are for sums of scores, whose steps bound all moves; no clip then
    sums: bool = False
    # Symbols that a record has, as in `Question`
    columns: Annotated[int, Field(ge=1, le=MOST_COLUMNS)] = 1

    @property
    def clipped(self) -> Clip | None:
        """Client-level bound, if any."""
        return Clip(self.clip, self.norm) if self.clip else None

    def __post_init__(self) -> None:
        if bool(self.clip) is not (self.guarantee.unit is Unit.CLIENT and not self.sums):
            raise Unfit("clip", "above 0 where whole clients are hidden, and else 0", self.clip)

    def event(self) -> ShareRelease:
        """Return the verified share law."""
        return calibrate_shares(
            self.guarantee,
            n_min=self.n_min,
            mechanism=self.mechanism,
            clip=self.clipped,
            moves=sums_move(self.columns) if self.sums else None,
            columns=self.columns,
        )


@dataclass(frozen=True)
class SumTerms(Model, what="the terms of the secure sum", version=VERSION, refused=QueryRefused):
    """Question, noise and ring of one secure sum."""

    question: Flat[Question]  # What is counted; its members are named elsewhere
    # The share that each client adds; None where the server adds the noise
    noise: Json[NoiseTerms | None]
    # Whether the exact number of records is summed as a last coordinate (replace-one only)
    count_records: bool
    bits: Annotated[int, must("be 32 or 64", (32, 64).__contains__)]  # The sum is modulo 2**bits
    # The fingerprint of the server's pinned list of clients, or its list of first use as JSON
    roster: str

    @property
    def length(self) -> int:
        """Numbers in a client's vector."""
        return self.question.length + int(self.count_records)

    @property
    def fingerprint(self) -> str:
        """SHA-256 of all that clients of one sum agree to, hexadecimal.

        Their session is over it: each client's data is hidden by the others' noise, too, so that
        one who is told of more noise than the others must not be in a sum with them.
        """
        told = {k: v for k, v in self.to_config().items() if k not in _TOLD_OTHERWISE}
        text = json_text(told, sort_keys=True, separators=(",", ":"))
        return sha256(f"flwr-kld secure-sum 2 terms\0{text}".encode()).hexdigest()
