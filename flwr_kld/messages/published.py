"""What an aggregator gives back: noised numbers, and how many clients are in them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, Json

from flwr_kld.codec.model import Model
from flwr_kld.kernel.count import ClientLimit, InvalidReply
from flwr_kld.messages.question import VERSION
from flwr_kld.query.noisy import ClientSums, NoisyCounts


@dataclass(frozen=True)
class Published(Model, what="the published numbers", version=VERSION, refused=InvalidReply):
    """Public: an aggregator's numbers as they travel."""

    check: str  # Repeated from the order
    clients: Annotated[int, Field(ge=0)]  # Number of clients in the sum
    records: Annotated[float, Field(ge=1)]  # As in `NoisyCounts`
    values: bytes  # Noised counts or sums, little-endian int64
    # Why the sealed counts of each client that is not in the sum are not, by the name that they
    # were sealed under
    rejected: Json[dict[str, str]]
    private: bool  # False if the noise came from a seed
    limit: Json[ClientLimit | None]  # What one client counts, where that is public

    @classmethod
    def of(
        cls,
        check: str,
        published: NoisyCounts | ClientSums,
        clients: int,
        rejected: Mapping[str, str],
        limit: ClientLimit | None,
    ) -> Published:
        """Take what was published."""
        numbers = published.steps if isinstance(published, ClientSums) else published.values
        records = float(published.records)
        values = numbers.astype("<i8").tobytes()
        return cls(check, clients, records, values, dict(rejected), published.private, limit)

    def counts(self, cells: int) -> NDArray[np.int64]:
        """Return noised counts, shape [cells]."""
        if len(self.values) != 8 * cells:
            raise InvalidReply("the aggregator published another number of counts than cells")
        return np.frombuffer(self.values, dtype="<i8").astype(np.int64)
