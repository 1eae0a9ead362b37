"""Exact counts and scores: private, they exist only until noise is added, and show no value."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from flwr_kld.counts.client_limit import ClientLimit, fair_limit, sampled
from flwr_kld.counts.client_sums import ClientSums
from flwr_kld.counts.clipping import clipped
from flwr_kld.counts.noisy_counts import NoisyCounts
from flwr_kld.errors import InvalidReply
from flwr_kld.kernel.law import BitSource, sample, to_counts
from flwr_kld.kernel.private import Held, Private
from flwr_kld.kernel.promise import Box, Clip, Guarantee, Unit, hides
from flwr_kld.kernel.release import Release, ShareRelease
from flwr_kld.query.plan import QueryPlan
from flwr_kld.query.score_columns import answer_of, limits_of
from flwr_kld.query.scores import NUMBERS, Scores, sums_move
from flwr_kld.secure_aggregation.messages import MaskedVector
from flwr_kld.secure_aggregation.ring import from_ring, to_ring, word
from flwr_kld.secure_aggregation.server import SumResult

_T = TypeVar("_T")

LARGEST_CLIENT = 2**31 - 1
"""Records one client may hold: counts travel as int32."""
_HELD = 256
"""Largest vectors of a sum that are held until the limit of a client is known. Any other is below
one 257th of the records."""


class ClientVector(Private):
    """What one client answers with, before any noise. Private: shows no value."""

    __slots__ = ("_values",)

    _values: NDArray[np.int32]

    def to_wire(self) -> bytes:
        """Write four bytes a number, little-endian, for a message to those who may see them."""
        return self._values.astype("<i4").tobytes()

    def sealed(self, seal: Callable[[bytes], bytes]) -> bytes:
        """Return the box that a seal makes of `to_wire`, for whoever holds its key."""
        return seal(self.to_wire())

    def noised(
        self,
        share: ShareRelease | None,
        bits: BitSource,
        *,
        clip: Clip | None = None,
        counted: bool = False,
        columns: int = 1,
    ) -> SumVector:
        """Clip the numbers and add a share of noise to each, for a secure sum.

        Parameters
        ----------
        share : ShareRelease or None
            Whose share, in its grid steps; None where another adds the noise: exact then.
        bits : BitSource
            The client's own randomness.
        clip : Clip, optional
            Bound of counts, for client-level privacy.
        counted : bool
            Whether the exact number of records follows as a last number.
        columns : int
            In each of which every record is counted.
        """
        vector = SumVector(self._values.astype(np.int64))
        if clip is not None:
            vector._values = clipped(vector._values, clip, bits)
        if share is not None:
            noise = sample(share.share, len(vector._values), bits)
            vector._values = share.grid * vector._values + noise
        if counted:
            vector._values = np.append(vector._values, self._values.sum(dtype=np.int64) // columns)
        return vector


def vector_from_wire(
    row: Held[bytes], plan: QueryPlan, guarantee: Guarantee, *, most: int = LARGEST_CLIENT
) -> ClientVector:
    """Read `ClientVector.to_wire` of a client that was asked for this plan.

    Parameters
    ----------
    most : int
        Most records that the client may have counted.

    Raises
    ------
    InvalidReply
        If no honest client answers so, without saying any value.
    """
    if plan.scores is None:
        return row.into(
            partial(ClientCounts.from_wire, cells=plan.length, most=most, parts=plan.parts)
        )
    return row.into(partial(ClientScores.from_wire, scores=plan.scores, guarantee=guarantee))


class ClientCounts(ClientVector):
    """One client's exact counts over a plan's cells. Private: shows no value.

    Parameters
    ----------
    values : NDArray
        Shape [cells], int32, in records.
    cells : int
        Length the plan asked for.
    most : int
        Most records the client may have counted.
    parts : tuple[slice, ...]
        Cells of each column of a table, in each of which every record is counted; by default one.

    Raises
    ------
    InvalidReply
        If shape, dtype or range is wrong, without saying any value.
    """

    __slots__ = ()

    def __init__(
        self,
        values: NDArray[Any],
        *,
        cells: int,
        most: int = LARGEST_CLIENT,
        parts: tuple[slice, ...] = (slice(None),),
    ) -> None:
        if values.dtype != np.int32:
            raise InvalidReply("counts have the wrong dtype: int32 is expected")
        if values.shape != (cells,):
            raise InvalidReply("counts have the wrong shape: one number a cell is expected")
        if (values < 0).any():
            raise InvalidReply("counts must not be negative")
        totals = np.add.reduceat(values, [part.start or 0 for part in parts], dtype=np.int64)
        if totals.max() > most:
            raise InvalidReply("counts exceed the most records that a client may have")
        if (totals != totals[0]).any():
            raise InvalidReply("counts of a table have another number of records in each column")
        self._values = values

    @classmethod
    def count(
        cls, symbols: NDArray[np.int64], cell_of: NDArray[np.int32], cells: int
    ) -> ClientCounts:
        """Count own records by cell: symbols of shape [records], of a table [records, columns]."""
        if len(symbols) > LARGEST_CLIENT:
            raise InvalidReply("the client has more records than counts can carry")
        counts = np.bincount(cell_of[symbols.ravel()], minlength=cells).astype(np.int32)
        return cls(counts, cells=cells, most=symbols.size)  # in all columns together

    @classmethod
    def from_wire(
        cls,
        row: bytes,
        *,
        cells: int,
        most: int = LARGEST_CLIENT,
        parts: tuple[slice, ...] = (slice(None),),
    ) -> ClientCounts:
        """Read `to_wire`; the errors are those of the constructor."""
        if len(row) != 4 * cells:
            raise InvalidReply("counts have the wrong shape: one number a cell is expected")
        values = np.frombuffer(row, dtype="<i4").astype(np.int32)
        return cls(values, cells=cells, most=most, parts=parts)

    def is_empty(self) -> bool:
        """Whether there is no record; says something only where their number is public."""
        return not self._values.any()

    def scored(
        self, scores: tuple[Scores, ...], guarantee: Guarantee, bits: BitSource
    ) -> ClientScores:
        """Add up the scores of the records in each column, in steps that fit what is promised."""
        coins = bits.words(len(NUMBERS) * len(scores))
        steps = answer_of(scores, self._values, guarantee, coins)
        return ClientScores(steps, scores, guarantee)


class ClientScores(ClientVector):
    """One client's sums of scores, in steps. Private: shows no value.

    Parameters
    ----------
    steps : NDArray[np.int32]
        Shape [5 · columns].
    scores : tuple[Scores, ...]
        What was added up in each column.
    guarantee : Guarantee
        Guarantee that the steps are sized for.

    Raises
    ------
    InvalidReply
        If no honest client answers so, without saying any value.
    """

    __slots__ = ()

    def __init__(
        self, steps: NDArray[Any], scores: tuple[Scores, ...], guarantee: Guarantee
    ) -> None:
        low, high = limits_of(scores, guarantee)
        if (steps < low).any() or (steps > high).any():
            raise InvalidReply("sums are beyond what a client may answer")
        self._values = steps

    @classmethod
    def from_wire(
        cls, row: bytes, scores: tuple[Scores, ...], guarantee: Guarantee
    ) -> ClientScores:
        """Read `to_wire`; the errors are those of the constructor."""
        if len(row) != 4 * len(NUMBERS) * len(scores):
            raise InvalidReply("sums have the wrong shape: one number each is expected")
        return cls(np.frombuffer(row, dtype="<i4").astype(np.int32), scores, guarantee)


class SumVector(Private):
    """What a client puts into a secure sum. Private: exact wherever no noise was added.

    Parameters
    ----------
    values : NDArray[np.int64]
        Shape [numbers]; in grid steps where there is noise.
    """

    __slots__ = ("_values",)

    def __init__(self, values: NDArray[np.int64]) -> None:
        self._values = values

    def masked(self, mask: Callable[[Held[NDArray[Any]]], MaskedVector], bits: int) -> MaskedVector:
        """Let a client of a sum modulo 2**bits mask it; the errors are `SumClient.mask`'s.

        What does not fit wraps: a refusal would tell of numbers that only all noise together hides.
        """
        return mask(Held(self._values.astype(word(bits))))

    def split(self, split: Callable[[Held[NDArray[Any]]], _T], bits: int) -> _T:
        """Return what is made of the numbers modulo 2**bits, and of a 1 for the client itself."""
        return split(Held(to_ring(np.append(self._values, 1), bits)))


class ClearSum(Private):
    """Exact sum of a cohort's counts. Private: leaves only through `release`.

    Parameters
    ----------
    clients : Iterable[ClientVector or SumVector]
        At least one, all over the same plan, without the number of records at the end.
    plan : QueryPlan
        What was asked.
    """

    __slots__ = ("_plan", "_values", "clients", "limit", "records")

    def __init__(self, clients: Iterable[ClientVector | SumVector], plan: QueryPlan) -> None:
        self._values = np.zeros(plan.length, dtype=np.int64)
        self.clients = 0
        """Number of clients in the sum. Public."""
        self.records: int | None = None
        """Number of records, where it is public and came by itself."""
        self.limit: ClientLimit | None = None
        """What one client counts, where it is known and public."""
        self._plan = plan
        for client in clients:
            self._add(client)

    def _add(self, client: ClientVector | SumVector) -> None:
        if client._values.shape != self._values.shape:  # numpy would spread one cell over all
            raise InvalidReply("an answer has the wrong shape: one number each is expected")
        self._values += client._values
        self.clients += 1

    @classmethod
    def of_clients(
        cls,
        clients: Iterable[tuple[str, ClientVector]],
        plan: QueryPlan,
        guarantee: Guarantee,
        bits: BitSource,
        *,
        most: int = 0,
    ) -> ClearSum:
        """Add up vectors one by one; where sizes are public, each client's counts up to a limit.

        A client beyond it counts a uniform sample of its records.

        Parameters
        ----------
        clients : Iterable[tuple[str, ClientVector]]
            Name and vector of each.
        guarantee : Guarantee
            Says whether the number of a client's records is public.
        bits : BitSource
            For samples.
        most : int
            Records of a client that vectors were held to; 0 for none: then it is `fair_limit`.
        """
        total = cls((), plan)
        public = plan.scores is None and guarantee.total_is_public
        sizes: list[int] = []
        held: list[tuple[int, int, str, ClientVector]] = []
        added = 0  # the largest that is held no longer
        for name, client in clients:
            total._add(client)
            if not public:
                continue
            size = int(client._values[plan.parts[0]].sum(dtype=np.int64))
            heapq.heappush(held, (size, len(sizes), name, client))
            sizes.append(size)
            if len(held) > _HELD:
                added = max(added, heapq.heappop(held)[0])
        if not any(sizes):
            return total
        most = most or max(fair_limit(sizes), added)
        over = {}
        for size, _, name, client in sorted(held, key=lambda one: one[1]):
            if size > most:
                over[name] = size
                for part in plan.parts:
                    counts = client._values[part]
                    total._values[part] += sampled(counts, most, bits) - counts
        total.limit = ClientLimit(most, min(max(sizes), most), sum(sizes), over)
        return total

    @classmethod
    def of_total(
        cls, values: NDArray[np.int64], plan: QueryPlan, *, clients: int, records: int | None
    ) -> ClearSum:
        """Take a sum that a protocol computed without showing its parts; shape [cells]."""
        total = cls((), plan)
        total._values, total.clients, total.records = values, clients, records
        return total

    @classmethod
    def of_ring(cls, result: SumResult, plan: QueryPlan, *, bits: int, counted: bool) -> ClearSum:
        """Take a secure sum modulo 2**bits; its last number is that of records if `counted`."""
        summed = result.into(partial(from_ring, bits=bits))
        total = cls.of_total(summed, plan, clients=len(result.survivors), records=None)
        if counted:
            total.records = int(total._values[plan.length])
        total._values = total._values[: plan.length]
        return total

    def is_empty(self) -> bool:
        """Whether there is no record at all; says something only where that number is public."""
        return not self._values.any()

    @property
    def plan(self) -> QueryPlan:
        """What was asked. Public."""
        return self._plan

    def release(self, event: Release, bits: BitSource) -> NoisyCounts | ClientSums:
        """Add the event's noise to every number.

        Where records are hidden that change, their number is public and exact; elsewhere it is
        estimated by the sum of the noisy cells (post-processing, no further cost), in a table by
        the mean over the columns.

        Raises
        ------
        ValueError
            If the event hides less than what one record moves these numbers by.
        """
        self._require_hidden(event)
        noisy = self._values + sample(event.table, len(self._values), bits)
        if self._plan.scores is not None:
            return ClientSums(noisy, self.clients, event, self._plan, bits.private)
        exact = event.guarantee.total_is_public
        records = float((self._values if exact else noisy).sum()) / len(self._plan.parts)
        return NoisyCounts(noisy, max(records, 1.0), event, self._plan, bits.private)

    def _require_hidden(self, event: Release) -> None:
        """Refuse an event for other numbers; how far a whole client moves them, its clip says."""
        columns, promised = len(self._plan.parts), event.guarantee
        if self._plan.scores is not None:
            needed: tuple[int, ...] | Box = sums_move(columns)
        elif promised.unit is Unit.RECORD:
            needed = promised.adjacency.table_shifts(columns)
        else:
            return
        if not hides(event.moves, needed):
            raise ValueError(
                f"the event hides {event.moves}, and what it promises to hide moves the numbers of "
                f"this release by {needed}"
            )

    def release_noised(self, event: Release, *, grid: int = 1) -> NoisyCounts | ClientSums:
        """Show the sum of vectors to which the clients added the event's noise themselves.

        Parameters
        ----------
        event : Release
            What the clients' shares deliver together; its table in whole counts.
        grid : int
            Grid steps a count.

        Raises
        ------
        ValueError
            As in `release`.
        """
        self._require_hidden(event)
        noisy = to_counts(self._values, grid)
        if self._plan.scores is not None:
            return ClientSums(noisy, self.clients, event, self._plan, private=True)
        summed = float(noisy.sum()) / len(self._plan.parts)
        records = summed if self.records is None else float(self.records)
        return NoisyCounts(noisy, max(records, 1.0), event, self._plan, private=True)
