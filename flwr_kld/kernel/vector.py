"""A client's numbers and their sums before any noise: private, and no verb takes a function.

What is private shows no value and is copied by nothing. It leaves by a channel, to those whom the
trust model lets see it, or with the noise of a `Release`, which has proved itself.
Proof notes: ``docs/proofs/noise.md`` for releases, ``docs/proofs/secure-aggregation.md``,
``docs/proofs/trusted-aggregator.md`` and ``docs/proofs/two-aggregators.md`` for the channels.
"""

from __future__ import annotations

import heapq
import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, ClassVar, Generic, NoReturn, TypeVar

import numpy as np
from numpy.typing import NDArray

from flwr_kld.kernel.channels import KEY, apply_masks, from_ring, seal, to_ring, word
from flwr_kld.kernel.count import (
    NUMBERS,
    ClientLimit,
    InvalidReply,
    Scores,
    answer_of,
    clipped,
    fair_limit,
    limits_of,
    sampled,
    sums_move,
)
from flwr_kld.kernel.law import BitSource, SeededBits, SystemBits, sample, to_counts
from flwr_kld.kernel.promise import Box, Clip, Guarantee, Unit, hides
from flwr_kld.kernel.release import Release, ShareRelease

_T = TypeVar("_T")
_R = TypeVar("_R")

LARGEST_CLIENT = 2**31 - 1
"""Records one client may hold: counts travel as int32."""
_HELD = 256
"""Largest vectors of a sum that are held until the limit of a client is known. Any other is below
one 257th of the records."""


class Private:
    """Base of private objects: no value in ``repr``, ``dir``, ``vars``, a pickle or a copy.

    Subclasses have ``__slots__``, and verbs for what may be done with the values. Their own
    methods can read the values; tools that look at an object from outside (error trackers,
    debuggers, ``rich.inspect``, serialisers) find none. It equals itself only, and is neither
    iterated nor turned into an array or bytes.
    """

    __slots__ = ()

    _hidden: ClassVar[frozenset[str]] = frozenset()
    """Attributes without an underscore that hold private values for their own package."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}(<private>)"

    def __dir__(self) -> Iterable[str]:
        names = super().__dir__()
        return [name for name in names if name not in self._hidden and not name.startswith("_")]

    def __reduce__(self) -> NoReturn:
        raise TypeError(f"a {type(self).__name__} is private and must not be pickled or copied")

    def __getstate__(self) -> NoReturn:
        raise TypeError(f"the state of a {type(self).__name__} is private")

    def __array__(self, *_: object, **__: object) -> NoReturn:
        raise TypeError(f"a {type(self).__name__} is private and cannot become an array")


class Held(Private, Generic[_T]):
    """One private value of another type, on its way through code that need not see it."""

    __slots__ = ("_value",)

    def __init__(self, value: _T) -> None:
        self._value = value

    def into(self, use: Callable[[_T], _R]) -> _R:
        """Return what a function makes of the value."""
        return use(self._value)


class OneProcess(Private):
    """A private object that must not go on twice from one state, as two forks of it would."""

    __slots__ = ("_process",)

    def __init__(self) -> None:
        self._process = os.getpid()

    def _stay_here(self) -> None:
        """Refuse to go on in a fork of the process that made this object.

        Raises
        ------
        RuntimeError
            If this is another process.
        """
        if os.getpid() != self._process:
            raise RuntimeError(
                f"this {type(self).__name__} belongs to the process that made it, not to a fork "
                "of it: make one in each process"
            )


@dataclass(frozen=True)
class Layout:
    """What the numbers of a vector are. Public.

    Parameters
    ----------
    cells : tuple[int, ...]
        Number of cells of each column, >= 1; every record is counted once in each column.
    scores : tuple[Scores, ...] or None
        What is added up in each column, where the numbers are sums; None where they are counts.

    Raises
    ------
    ValueError
        If scores are not one a cell, or not alike in each column.
    """

    cells: tuple[int, ...]
    scores: tuple[Scores, ...] | None = None

    def __post_init__(self) -> None:
        if self.scores is None:
            return
        if tuple(each.cells for each in self.scores) != self.cells:
            raise ValueError("a plan has one score for each cell of each column")
        if len({(each.most_records, each.by) for each in self.scores}) > 1:
            raise ValueError("all columns count the same records: most_records and by are theirs")

    @property
    def columns(self) -> int:
        """Number of columns."""
        return len(self.cells)

    @property
    def length(self) -> int:
        """Length of a vector: one count a cell, or the sums of each column."""
        return sum(self.cells) if self.scores is None else len(NUMBERS) * len(self.scores)

    @cached_property
    def parts(self) -> tuple[slice, ...]:
        """Cells of each column."""
        ends = np.cumsum(self.cells).tolist()
        return tuple(slice(end - own, end) for end, own in zip(ends, self.cells, strict=True))


@dataclass(frozen=True, eq=False)
class Released:
    """Public: numbers with their noise.

    Parameters
    ----------
    values : NDArray[np.int64]
        Shape [layout.length], in records, or steps of sums.
    records : float or None
        Number of records, exact where it is public, else from the noisy counts; None for sums.
    clients : int
        Number of clients in the sum.
    release : Release
        What it cost, and the law of the noise.
    private : bool
        False if the noise came from a seed.
    """

    values: NDArray[np.int64]
    records: float | None
    clients: int
    release: Release
    private: bool


class ClientVector(Private):
    """What one client answers with, before any noise. Private: shows no value."""

    __slots__ = ("_values",)

    _values: NDArray[np.int32]

    def to_wire(self) -> bytes:
        """Write four bytes a number, little-endian: the channel to a server that may see them."""
        return self._values.astype("<i4").tobytes()

    def sealed(self, public: bytes, context: bytes) -> bytes:
        """Return a box with `to_wire` for the holder of an X25519 key, in this context only."""
        return seal(public, self.to_wire(), context)

    def summand(
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
        vector = SumVector(self._values.astype(np.int64))  # no frame holds numbers that may show
        if clip is not None:
            vector._values = clipped(vector._values, clip, _own(bits))
        if share is not None:
            noise = sample(share.share, len(vector._values), _own(bits))
            vector._values = share.grid * vector._values + noise
        if counted:
            records = self._values.sum(dtype=np.int64) // columns
            vector._values = np.append(vector._values, records)
        return vector


def vector_from_wire(
    row: Held[bytes], layout: Layout, guarantee: Guarantee, *, most: int = LARGEST_CLIENT
) -> ClientVector:
    """Read `ClientVector.to_wire` of a client that was asked for these numbers.

    Parameters
    ----------
    most : int
        Most records that the client may have counted.

    Raises
    ------
    InvalidReply
        If no honest client answers so, without saying any value.
    """
    if layout.scores is None:
        cells, parts = layout.length, layout.parts
        return row.into(partial(ClientCounts.from_wire, cells=cells, most=most, parts=parts))
    return row.into(partial(ClientScores.from_wire, scores=layout.scores, guarantee=guarantee))


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

    def is_empty(self, guarantee: Guarantee) -> bool:
        """Whether there is no record; ValueError unless a guarantee leaves their number public."""
        _require_public_total(guarantee)
        return not self._values.any()

    def scored(
        self, scores: tuple[Scores, ...], guarantee: Guarantee, bits: BitSource
    ) -> ClientScores:
        """Add up the scores of the records in each column, in steps that fit what is promised."""
        coins = _own(bits).words(len(NUMBERS) * len(scores))
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
    """What a client puts into a sum by a protocol. Private: exact wherever no noise was added.

    Parameters
    ----------
    values : NDArray[np.int64]
        Shape [numbers]; in grid steps where there is noise.
    """

    __slots__ = ("_values",)

    def __init__(self, values: NDArray[np.int64]) -> None:
        if values.dtype.kind not in "iu":
            raise ValueError("a sum adds integers: scale and round first")
        self._values = values

    def masked(self, added: list[bytes], removed: list[bytes], *, length: int, bits: int) -> bytes:
        """Return the numbers modulo 2**bits under masks, one for each key of 32 bytes.

        What does not fit wraps: a refusal would tell of numbers that only all noise together hides.

        Raises
        ------
        ValueError
            If no mask is added, or there are not `length` numbers.
        """
        if not added:
            raise ValueError("a vector leaves under a mask")
        if self._values.shape != (length,):
            raise ValueError("the vector does not have the session's length")
        words = RingSum(self._values.astype(word(bits)))
        apply_masks(words._words, added, removed)
        return words._words.tobytes()

    def split(self, seeds: bytes, vectors: bytes, context: bytes, bits: int) -> tuple[bytes, bytes]:
        """Return two boxes whose contents add up to the numbers, and a 1 for the client itself.

        Either content is uniformly random by itself: a seed for the holder of one key, the numbers
        modulo 2**bits less the mask of that seed for the holder of the other.
        """
        seed = os.urandom(KEY)
        masked = RingSum(to_ring(np.append(self._values, 1), bits))
        apply_masks(masked._words, [], [seed])
        return seal(seeds, seed, context), seal(vectors, masked._words.tobytes(), context)


class RingSum(Private):
    """A sum modulo 2**bits that a protocol computed without showing its parts. Private.

    Parameters
    ----------
    words : NDArray
        Unsigned words of the ring, shape [numbers].
    """

    __slots__ = ("_words",)

    def __init__(self, words: NDArray[Any]) -> None:
        self._words = words


class ShareSum(Private):
    """Sum of vectors that carry noise shares. Private: they suffice from `n_min` clients on.

    Parameters
    ----------
    total : RingSum
        In grid steps; its last number is that of records if `counted`.
    layout : Layout
        What the numbers are.
    share : ShareRelease
        What each client agreed to add.
    clients : int
        Clients in the sum.
    """

    __slots__ = ("_share", "_total", "clients", "layout", "records")

    def __init__(
        self,
        total: RingSum,
        layout: Layout,
        share: ShareRelease,
        *,
        clients: int,
        bits: int,
        counted: bool,
    ) -> None:
        signed = from_ring(total._words, bits)
        self.records = int(signed[layout.length]) if counted else None
        """Number of records, where it is public and came by itself."""
        self.clients, self.layout = clients, layout
        self._total, self._share = signed[: layout.length], share

    def release(self, release: Release) -> Released:
        """Show the sum.

        Parameters
        ----------
        release : Release
            What these clients' shares deliver together; its table in whole counts.

        Raises
        ------
        ValueError
            If fewer clients than `n_min` are in the sum, or the release hides less than what one
            record moves these numbers by.
        """
        if self.clients < self._share.n_min:
            raise ValueError(f"{self.clients} noise shares do not suffice: {self._share.n_min} do")
        _require_hidden(release, self.layout)
        noisy, records = to_counts(self._total, self._share.grid), None
        if self.layout.scores is None:
            summed = float(noisy.sum()) / self.layout.columns
            records = max(summed if self.records is None else float(self.records), 1.0)
        return Released(noisy, records, self.clients, release, private=True)


class ClearSum(Private):
    """Exact sum of a cohort's numbers. Private: leaves only through `release`.

    Parameters
    ----------
    clients : Iterable[ClientVector]
        All over the same layout.
    layout : Layout
        What the numbers are.
    """

    __slots__ = ("_values", "clients", "layout", "limit")

    def __init__(self, clients: Iterable[ClientVector], layout: Layout) -> None:
        self._values = np.zeros(layout.length, dtype=np.int64)
        self.clients = 0
        """Number of clients in the sum. Public."""
        self.limit: ClientLimit | None = None
        """What one client counts, where it is known and public."""
        self.layout = layout
        for client in clients:
            self._add(client)

    def _add(self, client: ClientVector) -> None:
        if client._values.shape != self._values.shape:  # numpy would spread one cell over all
            raise InvalidReply("an answer has the wrong shape: one number each is expected")
        self._values += client._values
        self.clients += 1

    @classmethod
    def of_clients(
        cls,
        clients: Iterable[tuple[str, ClientVector]],
        layout: Layout,
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
        total = cls((), layout)
        public = layout.scores is None and guarantee.total_is_public
        sizes: list[int] = []
        held: list[tuple[int, int, str, ClientVector]] = []
        added = 0  # the largest that is held no longer
        for name, client in clients:
            total._add(client)
            if not public:
                continue
            size = int(client._values[layout.parts[0]].sum(dtype=np.int64))
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
                for part in layout.parts:
                    counts = client._values[part]
                    total._values[part] += sampled(counts, most, _own(bits)) - counts
        total.limit = ClientLimit(most, min(max(sizes), most), sum(sizes), over)
        return total

    @classmethod
    def of_ring(cls, total: RingSum, layout: Layout, *, clients: int, bits: int) -> ClearSum:
        """Take a sum modulo 2**bits of vectors without noise."""
        found = cls((), layout)
        found._values, found.clients = from_ring(total._words, bits)[: layout.length], clients
        return found

    def is_empty(self, guarantee: Guarantee) -> bool:
        """Whether there is no record; ValueError unless a guarantee leaves their number public."""
        _require_public_total(guarantee)
        return not self._values.any()

    def release(self, release: Release, bits: BitSource) -> Released:
        """Add the release's noise to every number.

        Where records are hidden that change, their number is public and exact; elsewhere it is
        estimated by the sum of the noisy cells (post-processing, no further cost), in a table by
        the mean over the columns.

        Raises
        ------
        ValueError
            If the release hides less than what one record moves these numbers by.
        """
        _require_hidden(release, self.layout)
        noisy, records = self._values + sample(release.table, len(self._values), _own(bits)), None
        if self.layout.scores is None:
            exact = release.guarantee.total_is_public
            summed = float((self._values if exact else noisy).sum()) / self.layout.columns
            records = max(summed, 1.0)
        return Released(noisy, records, self.clients, release, bits.private)


class PartialSum(Private):
    """One aggregator's part of a sum: with the other's it is the exact sum. Private.

    Parameters
    ----------
    length, bits : int
        Numbers, and the size of their ring.
    """

    __slots__ = ("_answered", "_bits", "_words")

    def __init__(self, length: int, bits: int) -> None:
        self._words, self._bits = np.zeros(length, dtype=word(bits)), bits
        self._answered = False

    def add_seeds(self, seeds: list[bytes]) -> None:
        """Add the masks of seeds."""
        apply_masks(self._words, seeds, [])

    def add_vectors(self, vectors: list[bytes]) -> None:
        """Add ring words; ValueError for those of another length."""
        for vector in vectors:
            if len(vector) != self._words.nbytes:
                raise ValueError("a part of a client's numbers has the wrong length")
            self._words += np.frombuffer(vector, dtype=self._words.dtype)

    def answer(
        self,
        release: Release,
        numbers: int,
        bits: BitSource,
        *,
        added: list[bytes],
        removed: list[bytes],
    ) -> bytes:
        """Return the part with noise on the first `numbers`, under one mask, once.

        Raises
        ------
        ValueError
            If there is not one mask.
        RuntimeError
            If it was answered before.
        """
        if len(added) + len(removed) != 1:
            raise ValueError("a part leaves under one mask")
        if self._answered:
            raise RuntimeError("an aggregator answers once for a sum")
        self._answered = True
        noise = sample(release.table, numbers, _own(bits))
        self._words[:numbers] += to_ring(noise, self._bits)
        apply_masks(self._words, added, removed)
        return self._words.tobytes()


def _own(bits: BitSource) -> BitSource:
    """Refuse randomness that is not the kernel's: another source might say nothing new."""
    if type(bits) not in (SystemBits, SeededBits):
        raise TypeError("noise is drawn from SystemBits, or from SeededBits in a simulation")
    return bits


def _require_public_total(guarantee: Guarantee) -> None:
    if not guarantee.total_is_public:
        raise ValueError("the number of records is protected: nobody may ask for it")


def _require_hidden(release: Release, layout: Layout) -> None:
    """Refuse a release of other numbers; how far a whole client moves them, its clip says."""
    promised = release.guarantee
    if layout.scores is not None:
        needed: tuple[int, ...] | Box = sums_move(layout.columns)
    elif promised.unit is Unit.RECORD:
        needed = promised.adjacency.table_shifts(layout.columns)
    else:
        return
    if not hides(release.moves, needed):
        raise ValueError(
            f"the event hides {release.moves}, and what it promises to hide moves the numbers of "
            f"this release by {needed}"
        )
