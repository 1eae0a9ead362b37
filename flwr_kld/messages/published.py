"""What an aggregator gives back: noised numbers, and how many clients are in them."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from flwr_kld.counts import NoisyCounts
from flwr_kld.counts.scalar import NoisyScalar
from flwr_kld.errors import InvalidReply


@dataclass(frozen=True)
class Published:
    """Public: an aggregator's numbers as they travel.

    Parameters
    ----------
    check, plan : str
        What was asked.
    clients : int
        In the sum.
    records : float
        As in `NoisyCounts` and `NoisyScalar`.
    values : bytes
        Noised counts, little-endian int64, or the one noised number, little-endian float64.
    rejected : dict[str, str]
        Why the sealed counts of each client that is not in the sum are not, by the name that they
        were sealed under.
    private : bool
        False if the noise came from a seed.
    """

    check: str
    plan: str
    clients: int
    records: float
    values: bytes
    rejected: dict[str, str]
    private: bool

    @classmethod
    def of(
        cls,
        check: str,
        published: NoisyCounts | NoisyScalar,
        clients: int,
        rejected: Mapping[str, str],
    ) -> Published:
        """Take what was published."""
        if isinstance(published, NoisyScalar):
            values = np.array([published.value], dtype="<f8").tobytes()
        else:
            values = published.values.astype("<i8").tobytes()
        plan, records = published.plan.fingerprint, float(published.records)
        return cls(check, plan, clients, records, values, dict(rejected), published.private)

    def to_config(self) -> dict[str, Any]:
        """Return the values of a Flower ConfigRecord."""
        return {**vars(self), "rejected": json.dumps(self.rejected)}

    @classmethod
    def from_config(cls, config: Mapping[str, Any]) -> Published:
        """Read a ConfigRecord.

        Raises
        ------
        InvalidReply
            If it is not an aggregator's answer.
        """
        try:
            told = {name: config[name] for name in cls.__dataclass_fields__}
            told["rejected"] = json.loads(told["rejected"])
            answer = cls(**told)
            sound = (
                [type(value) for value in vars(answer).values()] == _TYPES
                and answer.clients >= 0
                and 1 <= answer.records < math.inf
                and all(type(reason) is str for reason in answer.rejected.values())
            )
        except (KeyError, TypeError, ValueError, RecursionError):
            sound = False
        if not sound:
            raise InvalidReply("the aggregator's reply is not an answer")
        return answer

    def counts(self, cells: int) -> NDArray[np.int64]:
        """Return noised counts, shape [cells]."""
        if len(self.values) != 8 * cells:
            raise InvalidReply("the aggregator published another number of counts than cells")
        return np.frombuffer(self.values, dtype="<i8").astype(np.int64)

    def number(self) -> float:
        """Return the one noised number."""
        if len(self.values) != 8:
            raise InvalidReply("the aggregator published more than one number")
        value = float(np.frombuffer(self.values, dtype="<f8")[0])
        if not math.isfinite(value):
            raise InvalidReply("the aggregator published a number that is not finite")
        return value


_TYPES = [str, str, int, float, bytes, dict, bool]
