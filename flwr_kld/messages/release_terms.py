"""What an aggregator is to do with a sum: the same text for server, clients and aggregator."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import Literal

from flwr_kld.counts.scalar import Scalar
from flwr_kld.errors import QueryRefused
from flwr_kld.messages.question import Question
from flwr_kld.privacy.guarantee import Guarantee, Unit

TRUST = "trusted-aggregator"
"""Name of the trust model."""

_LARGEST = 1e9
"""Smoothing and λ of a scalar that comes from outside are at most this: no float overflows."""
_MOST_RECORDS = 2.0**43


@dataclass(frozen=True)
class ReleaseTerms:
    """The guarantee of a check, and in which form its numbers are published.

    Parameters
    ----------
    aggregator : str
        The public key that clients seal to, hexadecimal.
    guarantee : Guarantee
        Of each check.
    noise : {"laplace", "gaussian"}
        Law of the noise.
    release : "counts" or Scalar
        Noised counts or a noised number.
    clip : int or None
        Most records of a client, for client-level privacy.
    """

    aggregator: str
    guarantee: Guarantee
    noise: Literal["laplace", "gaussian"]
    release: Literal["counts"] | Scalar
    clip: int | None

    def hold_to(self, question: Question) -> None:
        """Refuse a question that claims anything else than these terms deliver."""
        mine, clip = self.guarantee, self.clip or 0
        if mine.total_is_public:
            clip = question.clip  # moves nothing further, and shows no more than what is public
        if (TRUST, mine, clip) != (question.trust, question.guarantee, question.clip):
            raise QueryRefused("the question claims another guarantee than the aggregator's terms")

    def to_json(self) -> str:
        """Write one text for one meaning; boxes are sealed for it."""
        values = self.guarantee.to_wire() | asdict(self)
        del values["guarantee"], values["unit"]  # that follows from the clip
        return json.dumps(values, sort_keys=True, separators=(",", ":"))

    @classmethod
    def from_json(cls, text: str) -> ReleaseTerms:
        """Read `to_json`.

        Raises
        ------
        QueryRefused
            If it is not the terms of a release, or not in the one form that `to_json` writes.
        """
        try:
            raw = json.loads(text)
            release, clip = raw["release"], raw["clip"]
            unit = Unit.RECORD if clip is None else Unit.CLIENT
            terms = cls(
                aggregator=raw["aggregator"],
                guarantee=Guarantee.from_wire({**raw, "unit": str(unit)}),
                noise=raw["noise"],
                release="counts" if release == "counts" else Scalar(**release),
                clip=clip,
            )
            sound = terms._types_are_right() and terms.to_json() == text
        except (AttributeError, KeyError, TypeError, ValueError, RecursionError):
            sound = False
        if not sound:
            raise QueryRefused("the terms of the release are not readable")
        return terms

    def _types_are_right(self) -> bool:
        scalar = self.release
        return (
            type(self.aggregator) is str
            and (self.clip is None or (type(self.clip) is int and self.clip >= 1))
            and (
                not isinstance(scalar, Scalar)
                or (1 / _LARGEST <= scalar.amount <= _LARGEST and scalar.lam <= _LARGEST
                    and (scalar.records is None or scalar.records <= _MOST_RECORDS))
            )
        )  # fmt: skip
