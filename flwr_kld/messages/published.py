"""What an aggregator gives back: noised numbers, and how many clients are in them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, Json

from flwr_kld.codec.model import Model
from flwr_kld.counts.client_limit import ClientLimit
from flwr_kld.counts.client_sums import ClientSums
from flwr_kld.counts.noisy_counts import NoisyCounts
from flwr_kld.counts.scalar import NoisyScalar
from flwr_kld.errors import InvalidReply
from flwr_kld.messages.question import VERSION


@dataclass(frozen=True)
class Published(Model, what="the published numbers", version=VERSION, refused=InvalidReply):
    """Public: an aggregator's numbers as they travel."""

    check: str  # Repeated from the order
    clients: Annotated[int, Field(ge=0)]  # Number of clients in the sum
    records: Annotated[float, Field(ge=1)]  # As in `NoisyCounts` and `NoisyScalar`
    # Noised counts or sums, little-endian int64, or the one noised number, little-endian float64
    values: bytes
    # Why the sealed counts of each client that is not in the sum are not, by the name that they
    # were sealed under
    rejected: Json[dict[str, str]]
    private: bool  # False if the noise came from a seed
    limit: Json[ClientLimit | None]  # What one client counts, where that is public

    @classmethod
    def of(
        cls,
        check: str,
        published: NoisyCounts | NoisyScalar | ClientSums,
        clients: int,
        rejected: Mapping[str, str],
        limit: ClientLimit | None,
    ) -> Published:
        """Take what was published."""
        if isinstance(published, NoisyScalar):
            values = np.array([published.value], dtype="<f8").tobytes()
        elif isinstance(published, ClientSums):
            values = published.steps.astype("<i8").tobytes()
        else:
            values = published.values.astype("<i8").tobytes()
        records = float(published.records)
        return cls(check, clients, records, values, dict(rejected), published.private, limit)

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
