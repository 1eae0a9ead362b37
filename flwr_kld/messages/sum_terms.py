"""What a client of a secure sum agrees to before it takes part."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from flwr_kld.errors import QueryRefused
from flwr_kld.messages.question import Question
from flwr_kld.privacy.clip import Clip
from flwr_kld.privacy.guarantee import Guarantee, Unit
from flwr_kld.privacy.share_event import Mechanism, ShareEvent, calibrate_shares

_PROMISED = ("epsilon", "delta", "adjacency")
"""Of a guarantee, on the wire of noise terms."""


@dataclass(frozen=True)
class NoiseTerms:
    """From which both sides compute the same share of noise.

    Parameters
    ----------
    guarantee : Guarantee
        Delivered by `n_min` honest survivors.
    n_min : int
        Honest survivors that the guarantee relies on.
    mechanism : str
        Law that the shares add up to.
    clip : int
        Bound of a client's vector; 0 for record-level privacy.
    norm : int
        Norm of that bound, 1 or 2.

    Raises
    ------
    ValueError
        If a value is not of its type. `event` tells whether they serve.
    """

    guarantee: Guarantee
    n_min: int
    mechanism: Mechanism
    clip: int = 0
    norm: int = 1

    @property
    def clipped(self) -> Clip | None:
        """Client-level bound, if any."""
        return Clip(self.clip, 1 if self.norm == 1 else 2) if self.clip else None

    def __post_init__(self) -> None:
        sound = all(type(n) is int for n in (self.n_min, self.clip, self.norm)) and self.norm in (
            1,
            2,
        )
        named: object = self.mechanism  # which names there are, `event` says
        if not sound or type(named) is not str:
            raise ValueError("noise terms hold a value that is not of its type")

    def to_wire(self) -> dict[str, Any]:
        """Return plain values; the unit follows from the clip."""
        values = self.guarantee.to_wire() | asdict(self)
        del values["guarantee"], values["unit"]
        return values

    @classmethod
    def from_wire(cls, values: Mapping[str, Any]) -> NoiseTerms:
        """Read what `to_wire` wrote.

        Raises
        ------
        ValueError, TypeError
            If it is anything else.
        """
        unit = Unit.CLIENT if values.get("clip") else Unit.RECORD
        guarantee = Guarantee.from_wire({**values, "unit": str(unit)})
        own = {name: value for name, value in values.items() if name not in _PROMISED}
        return cls(guarantee=guarantee, **own)

    def event(self) -> ShareEvent:
        """Return the verified share law.

        Raises
        ------
        ValueError
            If no shares serve these numbers.
        """
        return calibrate_shares(
            self.guarantee,
            n_min=self.n_min,
            mechanism=self.mechanism,
            clip=self.clipped,
        )


@dataclass(frozen=True)
class SumTerms:
    """Question, noise and ring of one secure sum.

    Parameters
    ----------
    question : Question
        What is counted; its members are named elsewhere.
    noise : NoiseTerms or None
        The share that each client adds; None where the server adds the noise.
    count_records : bool
        Whether the exact number of records is summed as a last coordinate (replace-one only).
    bits : int
        The sum is modulo 2**bits.
    roster : str
        The fingerprint of the server's pinned list of clients, or its list of first use as JSON.
    """

    question: Question
    noise: NoiseTerms | None
    count_records: bool
    bits: int
    roster: str

    @property
    def length(self) -> int:
        """Numbers in a client's vector."""
        return self.question.length + int(self.count_records)

    def to_config(self) -> dict[str, Any]:
        """Return the values of a Flower ConfigRecord."""
        return {
            **self.question.to_config(),
            "noise": json.dumps(None if self.noise is None else self.noise.to_wire()),
            "count_records": self.count_records,
            "bits": self.bits,
            "roster": self.roster,
        }

    @classmethod
    def from_config(cls, config: Mapping[str, Any]) -> SumTerms:
        """Read a ConfigRecord.

        Raises
        ------
        QueryRefused
            If it is not the terms of a sum.
        """
        question = Question.from_config(config)
        try:
            raw = json.loads(config["noise"])
            noise = None if raw is None else NoiseTerms.from_wire(raw)
            terms = cls(question, noise, config["count_records"], config["bits"], config["roster"])
            kinds = (type(terms.count_records), type(terms.bits), type(terms.roster))
            if kinds != (bool, int, str) or terms.bits not in (32, 64):
                raise ValueError("not of its type")
        except (AttributeError, KeyError, TypeError, ValueError, RecursionError):
            raise QueryRefused("the terms of the secure sum are not readable") from None
        return terms
