"""How many records of one client count, where whoever adds up sees how many each has.

Without a limit a client that claims most of a cohort's records *is* the cohort, whatever the
others hold. A number of records is public under replace-one adjacency, so a limit may be made from
all of them: four times the mean of what the other clients then count. Clients of equal size count
everything, and the limit holds as long as fewer than a quarter of them lie.
Proof note: ``docs/proofs/client-limit.md``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from flwr_kld.codec.model import Model
from flwr_kld.kernel.law import BitSource

TIMES = 4
"""What a client counts at most, over the mean of the others. Of sizes that spread lognormally with
σ = 1, 8 % of the records are left out."""


@dataclass(frozen=True)
class ClientLimit(Model, what="the limit of a client"):
    """Public: how many records one client of a sum counts, under replace-one adjacency.

    Parameters
    ----------
    most_records : int
        That one client counts at most.
    largest : int
        That any client of this sum counts.
    claimed : int
        That all clients together say they have.
    over : dict[str, int]
        Clients that claim more than `most_records`, and how many: a uniform sample counts.
    """

    most_records: Annotated[int, Field(ge=1)]
    largest: Annotated[int, Field(ge=1)]
    claimed: Annotated[int, Field(ge=1)]
    over: dict[str, int]

    @property
    def counted(self) -> int:
        """Records in the sum."""
        return self.claimed - sum(self.over.values()) + self.most_records * len(self.over)


def fair_limit(sizes: Sequence[int]) -> int:
    """Return the largest number that is at most `TIMES` the mean of what the others count under it.

    Parameters
    ----------
    sizes : Sequence[int]
        Records of each client, at least one positive; clients without any do not lower the mean.

    Examples
    --------
    >>> fair_limit([100, 100, 100])
    400
    >>> fair_limit([100] * 29 + [30_000])
    400
    """
    known = np.sort(np.array([size for size in sizes if size > 0], dtype=np.int64))
    others = len(known) - 1
    if not others:
        return int(known[0])
    below, above = np.cumsum(known), np.arange(others, -1, -1)
    fits = TIMES * (below + above * known) >= (others + TIMES) * known
    last = np.flatnonzero(fits)[-1]  # the smallest size always fits
    if last == others:
        return int(TIMES * below[-2] // others)
    return int(TIMES * below[last] // (others + TIMES - TIMES * above[last]))


def sampled(counts: NDArray[np.int32], most: int, bits: BitSource) -> NDArray[np.int64]:
    """Return the counts of a uniform sample of `most` of the counted records, without replacement.

    Records are drawn by their place among all of them, or those to leave out if they are fewer:
    exact, in the memory of the sample, however many records a client claims.
    """
    places = np.cumsum(counts, dtype=np.int64)
    total = int(places[-1])
    fewer = min(most, total - most)
    rng = np.random.default_rng(bits.words(4))
    drawn = np.empty(0, dtype=np.int64)
    while len(drawn) < fewer:
        drawn = np.union1d(drawn, rng.integers(total, size=fewer - len(drawn)))
    picked = np.bincount(np.searchsorted(places, drawn, side="right"), minlength=len(counts))
    return picked if fewer == most else counts - picked
