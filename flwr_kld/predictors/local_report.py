"""Reports: what a client sends, one by one and in batches.

Public: a report is private before it leaves.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from flwr_kld.kernel.arguments import keep, whole


def unpacked(packed: bytes, dtype: str, count: int) -> NDArray[np.int64]:
    """Read exactly this many compressed little-endian integers."""
    inflater, size = zlib.decompressobj(), count * np.dtype(dtype).itemsize
    try:
        raw = inflater.decompress(packed, size + 1)  # a byte more shows that there is more
    except zlib.error:
        raise ValueError("packed integers are not readable") from None
    if len(raw) != size or not inflater.eof or inflater.unused_data:
        raise ValueError(f"there must be {count} packed integers")
    return np.frombuffer(raw, dtype=dtype).astype(np.int64)


@dataclass(frozen=True)
class LocalReport:
    """One client's privatised label."""

    query: int  # Number of the query that was asked
    symbol: int  # What the channel drew
    context: str = ""  # Under which public context the label was drawn; empty where there is none

    def __post_init__(self) -> None:
        keep(self, query=whole("query", self.query), symbol=whole("symbol", self.symbol))


@dataclass(frozen=True, eq=False)
class LocalReports:
    """A batch of reports from one round and context."""

    round: int  # Number of the round; rounds are ordered, reports within a round are not
    queries: NDArray[np.int64]  # Shape [n]
    symbols: NDArray[np.int64]  # Shape [n]
    context: str = ""  # Context that all reports share

    def __post_init__(self) -> None:
        keep(self, round=whole("round", self.round))
        if self.queries.ndim != 1 or self.symbols.shape != self.queries.shape:
            raise ValueError("a batch of reports needs queries [n] and symbols [n]")

    def __len__(self) -> int:
        return len(self.queries)


def batches(round: int, reports: Iterable[LocalReport]) -> list[LocalReports]:
    """Group a round's reports by context."""
    grouped: dict[str, list[LocalReport]] = {}
    for report in reports:
        grouped.setdefault(report.context, []).append(report)
    return [
        LocalReports(
            round,
            np.array([report.query for report in own], dtype=np.int64),
            np.array([report.symbol for report in own], dtype=np.int64),
            context,
        )
        for context, own in grouped.items()
    ]
