"""A client's numbers and their sums before any noise: private, but for `to_wire` and `held`.

What is private shows no value and is copied by nothing. It leaves by a channel, to those whom the
trust model lets see it, or with the noise of a `Release`, which has proved itself.
Proof notes: ``docs/proofs/noise.md`` for releases, ``docs/proofs/secure-aggregation.md``,
``docs/proofs/trusted-aggregator.md`` and ``docs/proofs/two-aggregators.md`` for the channels.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Generic, NoReturn, TypeVar

import numpy as np
from numpy.typing import NDArray

from flwr_kld.kernel.arguments import set_fields
from flwr_kld.kernel.channels import (
    MODULUS,
    WORD,
    KeyedBits,
    apply_masks,
    field_mask,
    from_ring,
    seal,
)
from flwr_kld.kernel.continual import Continual
from flwr_kld.kernel.count import (
    ClientSizes,
    InvalidReply,
    alike_records,
    alike_sensitivity,
    column_sums,
)
from flwr_kld.kernel.law import BitSource, SeededBits, SystemBits, sample, to_counts
from flwr_kld.kernel.promise import Allotment, Ball, Guarantee, hides
from flwr_kld.kernel.release import Release, ShareRelease

_T = TypeVar("_T")
_R = TypeVar("_R")

LARGEST_CLIENT = 2**31 - 1
"""Records one client may hold: counts travel as int32."""
_NUMBER = np.dtype("<i4")
"""Of a client's answer on its way."""
_AT_ONCE = 2**20
"""Numbers that are counted or checked at once, some 10 MB."""
_IN_CACHE = 2**16
"""Counts of small clients that are made at once: a processor's cache holds them."""
_SHAPE = "an answer has the wrong shape: one number each is expected"
NO_RECORDS = "it has no records"
"""Why a client without any is not in a sum."""


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
    """One private value of another type, on its way to the code that reads it.

    Logs, errors and frames do not show it; `into` gives it to any function.
    """

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
    allotment : Allotment or None
        How finely the counts of each column are released, and whether numbers of alike records
        follow them; by default in whole counts, and none.
    of_period : bool
        Whether only records of a period are counted: then how many is never public.
    frozen : bool
        Whether the number of records follows that a standing session counts as what they no longer
        are, one step each.

    Raises
    ------
    ValueError
        If the allotment is of other columns, or alike records stand beside frozen ones.
    """

    cells: tuple[int, ...]
    allotment: Allotment = None  # type: ignore[assignment]
    of_period: bool = False
    frozen: bool = False

    def __post_init__(self) -> None:
        set_fields(self, allotment=self.allotment or Allotment.even(len(self.cells)))
        if self.allotment.columns != self.columns:
            raise ValueError("counts are allotted steps, one number for each column")
        if self.frozen and self.allotment.alike:
            raise ValueError("a standing session counts no alike records")

    def total_is_public(self, guarantee: Guarantee) -> bool:
        """Whether the exact number of counted records is public.

        A record that changes its value is counted as before, unless it leaves the period.
        """
        return guarantee.protects == "record" and not self.of_period

    @property
    def columns(self) -> int:
        """Number of columns."""
        return len(self.cells)

    @property
    def counts(self) -> int:
        """Numbers that are counts: one a cell."""
        return sum(self.cells)

    @cached_property
    def length(self) -> int:
        """Length of a vector: one count a cell; alike records of each column, or frozen ones."""
        return self.counts + (self.columns if self.allotment.alike else 0) + self.frozen

    @cached_property
    def steps(self) -> NDArray[np.int64]:
        """Steps of one of each number; shape [length]."""
        steps = np.ones(self.length, dtype=np.int64)
        steps[: self.counts] = np.repeat(self.allotment.counts, self.cells)
        return steps

    def records(self, steps: NDArray[np.int64]) -> float:
        """Estimate the number of records from noised counts, shape [length], in steps; >= 1.

        The columns' sums, weighted by how little noise is in them.
        """
        counts, cells = np.array(self.allotment.counts), np.array(self.cells)
        sums = np.array([int(steps[part].sum()) for part in self.parts]) / counts
        weights = (counts / counts.max()) ** 2 * (cells.min() / cells)
        return max(float(sums @ weights / weights.sum()), 1.0)

    @cached_property
    def parts(self) -> tuple[slice, ...]:
        """Cells of each column."""
        ends = np.cumsum(self.cells).tolist()
        return tuple(slice(end - own, end) for end, own in zip(ends, self.cells, strict=True))

    @property
    def starts(self) -> list[int]:
        """First cell of each column."""
        return [part.start for part in self.parts]


@dataclass(frozen=True, eq=False)
class Released:
    """Public: numbers with their noise.

    Parameters
    ----------
    values : NDArray[np.int64]
        Shape [layout.length], in steps; or one count for each of `labels`.
    records : float or None
        Number of records, exact where it is public, else from the noisy counts; None for labels.
    clients : int
        Number of clients in the sum.
    release : Release
        What it cost, and the law of the noise.
    private : bool
        False if the noise came from a seed.
    labels : tuple[str, ...]
        That are shown, the most frequent first, where clients answered with labels.
    """

    values: NDArray[np.int64]
    records: float | None
    clients: int
    release: Release
    private: bool
    labels: tuple[str, ...] = ()


class ClientRows(Private):
    """What clients answer with, before any noise, a row each. Private: shows no value.

    Parameters
    ----------
    values : NDArray[np.int32]
        Shape [clients, layout.length]: counts in records, and steps of alike records, or frozen
        records.
    layout : Layout
        What the numbers are.

    Raises
    ------
    InvalidReply
        If dtype or shape are wrong, without saying any value.
    """

    __slots__ = ("_values", "layout", "most_records")

    _values: NDArray[np.int32]

    def __init__(self, values: NDArray[Any], layout: Layout) -> None:
        if values.dtype != np.int32:
            raise InvalidReply("an answer has the wrong dtype: int32 is expected")
        if values.ndim != 2 or values.shape[1] != layout.length:
            raise InvalidReply(_SHAPE)
        self._values, self.layout = values, layout
        self.most_records = LARGEST_CLIENT
        """Most records that one of the clients has, as far as was checked. Public."""

    @classmethod
    def count(
        cls,
        symbols: Sequence[NDArray[np.signedinteger[Any]]],
        cell_of: NDArray[np.int32],
        layout: Layout,
        guarantee: Guarantee,
        bits: BitSource,
        frozen: Sequence[int] = (),
    ) -> ClientRows:
        """Count each client's records by cell.

        Parameters
        ----------
        symbols : Sequence[NDArray[np.signedinteger]]
            One array a client: symbols of shape [records], of a table [records, columns].
        cell_of : NDArray[np.int32]
            Cell of each symbol.
        guarantee : Guarantee
            Guarantee that the steps of alike records are sized for.
        bits : BitSource
            The clients' own randomness, which rounds numbers of alike records.
        frozen : Sequence[int]
            Frozen records of each client, where the layout has their number.

        Raises
        ------
        InvalidReply
            If no honest client answers so, without saying any value.
        """
        if any(len(own) > LARGEST_CLIENT for own in symbols):
            raise InvalidReply("the client has more records than counts can carry")
        clients, cells = len(symbols), sum(layout.cells)
        values = np.zeros((clients, layout.length), dtype=np.int32)
        at_once = max(_IN_CACHE // cells, 1)
        for first in range(0, clients, at_once):
            some, rows = symbols[first : first + at_once], values[first : first + at_once]
            counts = _counted(some, cell_of, cells)
            rows[:, : layout.counts] = counts
            if layout.allotment.alike:
                beside = rows[:, layout.counts : layout.length - layout.frozen]
                beside[:] = _alike(counts, layout, guarantee, bits)
        if layout.frozen:
            values[:, -1] = frozen
        counted, most = cls(values, layout), guarantee.most_records or LARGEST_CLIENT
        for wrong, why in counted._faults(guarantee, most, counted._totals()):
            if wrong.any():
                raise InvalidReply(why)
        counted.most_records = most
        return counted

    def _totals(self) -> NDArray[np.int64]:
        """Return how many records each client counts in each column."""
        return column_sums(self._values[:, : self.layout.counts], self.layout.starts)

    def _faults(
        self, guarantee: Guarantee, most: int, totals: NDArray[np.int64]
    ) -> Iterator[tuple[NDArray[np.bool_], str]]:
        """Yield which rows, of these `_totals`, no honest client answers with, and why."""
        values, layout = self._values, self.layout
        yield values.min(axis=1, initial=0) < 0, "counts must not be negative"
        yield totals.max(axis=1) > most, "counts exceed the most records that a client may have"
        differ = totals != totals[:, :1]
        yield (
            np.logical_or.reduce(differ, axis=1),
            "counts of a table have another number of records in each column",
        )
        beside, highest = values[:, layout.counts :], totals[:, :1]
        if not layout.frozen:
            highest = -(-layout.allotment.alike * totals[:, :1] // alike_sensitivity(guarantee))
        yield (
            np.logical_or.reduce((beside < 0) | (beside > highest), axis=1),
            "more records are alike, or frozen, than there are",
        )

    def to_wire(self, client: int, token: bytes = b"") -> bytes:
        """Write a row, four bytes a number, little-endian: for a server that may see it.

        Behind the client's token, by which whoever adds up a standing session knows it.
        """
        row: bytes = self._values[client].astype(_NUMBER, copy=False).tobytes()
        return token + row

    def sealed(self, client: int, public: bytes, context: bytes, token: bytes = b"") -> bytes:
        """Return a box with `to_wire` for the holder of an X25519 key, in this context only."""
        return seal(public, self.to_wire(client, token), context)

    def held(self, client: int) -> Held[NDArray[np.int64]]:
        """Return a row on its way to what splits and proves it."""
        return Held(self._values[client].astype(np.int64))

    def summand(
        self,
        client: int,
        share: ShareRelease | None,
        bits: BitSource,
        *,
        counted: bool = False,
    ) -> SumVector:
        """Add a share of noise to each number of a row, for a secure sum.

        Parameters
        ----------
        client : int
            Its row.
        share : ShareRelease or None
            Whose share, in its grid steps; None where another adds the noise: exact then.
        bits : BitSource
            The client's own randomness.
        counted : bool
            Whether the exact number of records follows as a last number.
        """
        # No frame holds numbers that may show.
        vector, layout = SumVector(self._values[client].astype(np.int64)), self.layout
        if share is not None:
            noise = sample(share.share, len(vector._values), own_bits(bits))
            vector._values = share.grid * layout.steps * vector._values + noise
        if counted:
            records = self._values[client, self.layout.parts[0]].sum(dtype=np.int64)
            vector._values = np.append(vector._values, records)
        return vector


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

    def masked(self, added: list[bytes], removed: list[bytes], *, length: int) -> bytes:
        """Return the numbers modulo 2**64 under masks, one for each key of 32 bytes.

        Raises
        ------
        ValueError
            If no mask is added, or there are not `length` numbers.
        """
        if not added:
            raise ValueError("a vector leaves under a mask")
        if self._values.shape != (length,):
            raise ValueError("the vector does not have the session's length")
        words = RingSum(self._values.astype(WORD))
        apply_masks(words._words, added, removed)
        return words._words.tobytes()


class RingSum(Private):
    """A sum modulo 2**64 that a protocol computed without showing its parts. Private.

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
        counted: bool,
    ) -> None:
        signed = from_ring(total._words)
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
            If fewer clients than `n_min` are in the sum, or the release hides less than what a
            record, or client, moves these numbers by.
        """
        if self.clients < self._share.n_min:
            raise ValueError(f"{self.clients} noise shares do not suffice: {self._share.n_min} do")
        _require_hidden(release, self.layout, self._share.guarantee.most_records or LARGEST_CLIENT)
        noisy = to_counts(self._total, self._share.grid)
        known = self.records is not None
        records = max(float(self.records or 0), 1.0) if known else self.layout.records(noisy)
        return Released(noisy, records, self.clients, release, private=True)


class NightNoise(OneProcess):
    """The noise of one night of a session, from those of all its nights so far. Private.

    It is drawn once, for one sum: the same noise on two would show their difference.

    Parameters
    ----------
    stream : Continual
        The session.
    seeds : Sequence[bytes]
        Of each night's own noise, 32 secret bytes each, this night's last; the caller has stored
        them, and that this night's is used.
    private : bool
        False if they came from a seed.

    Raises
    ------
    ValueError
        If there are more nights than the session has.
    """

    __slots__ = ("_seeds", "_stream", "private")

    def __init__(self, stream: Continual, seeds: Sequence[bytes], *, private: bool = True) -> None:
        if not 0 < len(seeds) <= stream.nights:
            raise ValueError(f"a session of {stream.nights} nights has no other night")
        super().__init__()
        self._stream, self._seeds = stream, list(seeds)
        self.private = private

    def _drawn(self, release: Release, layout: Layout) -> NDArray[np.int64]:
        self._stay_here()
        if not self._seeds:
            raise RuntimeError("the noise of a night hides one sum")
        promised, stream, hidden = release.guarantee, self._stream, release.moves
        needed = stream.moved(layout.allotment)
        if promised.protects != "record" or layout.allotment.alike:
            raise ValueError("a session hides what records add to counts, and to frozen records")
        if not isinstance(hidden, Ball) or not hidden.holds(needed):
            raise ValueError(f"the event hides {hidden}, and records move this session by {needed}")
        seeds, self._seeds = self._seeds, []
        return stream.noise([sample(release.table, layout.length, KeyedBits(s)) for s in seeds])


class ClearSum(Private):
    """Exact sum of a cohort's numbers. Private: leaves only through `release`.

    Parameters
    ----------
    layout : Layout
        What the numbers are.
    *rows : ClientRows
        Of clients, over this layout.
    """

    __slots__ = ("_rows", "_sizes", "_values", "clients", "layout", "most_records", "refused")

    def __init__(self, layout: Layout, *rows: ClientRows) -> None:
        self._values = np.zeros(layout.length, dtype=np.int64)
        self._sizes: dict[Any, int] = {}
        self._rows: list[tuple[Any, bytes]] = []
        self.clients = 0
        """Number of clients in the sum. Public."""
        self.refused: dict[Any, str] = {}
        """Why the others are not in it, by name. Public."""
        self.most_records = 0
        """Most records that a client in it has, as far as was checked. Public."""
        self.layout = layout
        for some in rows:
            self._add(some)

    def _add(self, rows: ClientRows) -> None:
        if rows.layout != self.layout:  # numpy would spread one cell over all
            raise InvalidReply(_SHAPE)
        self._values += rows._values.sum(axis=0, dtype=np.int64)
        self.clients += len(rows._values)
        self.most_records = max(self.most_records, rows.most_records)

    @classmethod
    def of_answers(
        cls,
        answers: Iterable[tuple[Sequence[Any], Held[list[bytes]]]],
        layout: Layout,
        guarantee: Guarantee,
        *,
        most: int = 0,
        empty: bool = True,
    ) -> ClearSum:
        """Add up what clients answered, some at a time, but for what no honest client answers.

        Parameters
        ----------
        answers : Iterable[tuple[Sequence[Any], Held[list[bytes]]]]
            Names of some clients, and `ClientRows.to_wire` of each.
        guarantee : Guarantee
            Says whether the number of a client's records is public.
        most : int
            Most records that a client may have counted; 0 for no limit.
        empty : bool
            Whether clients without records are in the sum; elsewhere their number has to be public.
        """
        total = cls(layout)
        for names, held in answers:
            total._read(names, held)
            if len(total._rows) * layout.length >= _AT_ONCE:
                total._take(guarantee, most, empty)
        total._take(guarantee, most, empty)
        return total

    def _read(self, names: Sequence[Any], held: Held[list[bytes]]) -> None:
        """Take up rows of the right length."""
        size = 4 * self.layout.length
        for name, row in zip(names, held._value, strict=True):
            if len(row) == size:
                self._rows.append((name, row))
            else:
                self.refused[name] = _SHAPE

    def _take(self, guarantee: Guarantee, most: int, empty: bool) -> None:
        """Check the rows at hand, and add up those that an honest client answers with."""
        names = [name for name, _ in self._rows]
        joined = b"".join([row for _, row in self._rows])
        self._rows = []
        values = np.frombuffer(joined, _NUMBER).reshape(-1, self.layout.length)
        rows = ClientRows(values.astype(np.int32, copy=False), self.layout)
        most = guarantee.most_records or most or LARGEST_CLIENT
        totals = rows._totals()
        faults = list(rows._faults(guarantee, most, totals))
        if not empty:
            self._require_public_total(guarantee)
            faults.append(((rows._values == 0).all(axis=1), NO_RECORDS))
        fine = np.ones(len(names), dtype=bool)
        for wrong, why in faults:
            for i in np.flatnonzero(fine & wrong):
                self.refused[names[i]] = why
            fine &= ~wrong
        if not fine.all():
            rows._values = rows._values[fine]
        rows.most_records = most
        self._add(rows)
        if self.layout.total_is_public(guarantee):
            counted = [names[i] for i in np.flatnonzero(fine)]
            self._sizes.update(zip(counted, totals[fine, 0].tolist(), strict=True))

    @property
    def sizes(self) -> ClientSizes | None:
        """How the records are shared out; None where that is hidden, or there are none. Public."""
        if not any(self._sizes.values()):
            return None
        holder = max(self._sizes, key=self._sizes.__getitem__)
        return ClientSizes.of(list(self._sizes.values()), str(holder))

    @classmethod
    def of_ring(
        cls, total: RingSum, layout: Layout, *, clients: int, most_records: int
    ) -> ClearSum:
        """Take a sum modulo 2**64 of vectors without noise, of at most so many records each.

        That they are, is the clients' word; 0 for no limit.
        """
        found = cls(layout)
        found._values, found.clients = from_ring(total._words)[: layout.length], clients
        found.most_records = most_records or LARGEST_CLIENT
        return found

    def is_empty(self, guarantee: Guarantee) -> bool:
        """Whether there is no record; ValueError unless a guarantee leaves their number public."""
        self._require_public_total(guarantee)
        return not self._values.any()

    def _require_public_total(self, guarantee: Guarantee) -> None:
        if not self.layout.total_is_public(guarantee):
            raise ValueError("the number of records is protected: nobody may ask for it")

    def release(self, release: Release, noise: BitSource | NightNoise) -> Released:
        """Add the release's noise to every number, fresh or that of a night.

        The number of records is exact where it is public; elsewhere it is estimated from the noisy
        cells (post-processing, no further cost).

        Raises
        ------
        ValueError
            If the release hides less than what a record, or client, moves these numbers by.
        """
        noisy = _noise(release, self.layout, noise, self.most_records)
        noisy += self._values * self.layout.steps
        records = self.layout.records(noisy)
        if self.layout.total_is_public(release.guarantee):
            records = max(float(self._values[self.layout.parts[0]].sum()), 1.0)
        return Released(noisy, records, self.clients, release, noise.private)


class PartialSum(Private):
    """One aggregator's part of a sum: with the other's it is the exact sum. Private.

    Parameters
    ----------
    words : NDArray[np.uint64]
        Sum of the shares of clients' numbers, elements of the field.
    most_records : int
        Records of a client in it at most; 0 for no limit.
    """

    __slots__ = ("_answered", "_words", "most_records")

    def __init__(self, words: NDArray[np.uint64], most_records: int) -> None:
        self._words, self._answered = words, False
        self.most_records = most_records or LARGEST_CLIENT

    def answer(
        self,
        release: Release,
        layout: Layout,
        noise: BitSource | NightNoise,
        *,
        added: list[bytes],
        removed: list[bytes],
    ) -> bytes:
        """Return the part in steps, with noise, under one mask, once.

        The noise is fresh, or that of a night.

        Raises
        ------
        ValueError
            If there is not one mask, or the release hides less than what a record, or client,
            moves the numbers by.
        RuntimeError
            If it was answered before.
        """
        if len(added) + len(removed) != 1:
            raise ValueError("a part leaves under one mask")
        if self._answered:
            raise RuntimeError("an aggregator answers once for a sum")
        part = _noise(release, layout, noise, self.most_records).astype(object)
        self._answered = True
        part += self._words.astype(object) * layout.steps
        for keys, sign in ((added, 1), (removed, -1)):
            for key in keys:
                part += sign * field_mask(key, layout.length).astype(object)
        return (part % MODULUS).astype(WORD).tobytes()


def _counted(
    symbols: Sequence[NDArray[np.signedinteger[Any]]], cell_of: NDArray[np.int32], cells: int
) -> NDArray[np.int64]:
    """Count each client's symbols by cell; shape [clients, cells]."""
    sizes = [own.size for own in symbols]
    if sum(sizes) <= _AT_ONCE:  # of many small clients, all together
        cell = cell_of[np.concatenate([own.reshape(-1) for own in symbols])].astype(np.int64)
        cell += np.repeat(np.arange(0, len(symbols) * cells, cells), sizes)
        return np.bincount(cell, minlength=len(symbols) * cells).reshape(-1, cells)
    counts = np.zeros((len(symbols), cells), np.int64)
    for row, own in zip(counts, symbols, strict=True):
        for part in range(0, own.size, _AT_ONCE):
            row += np.bincount(cell_of[own.reshape(-1)[part : part + _AT_ONCE]], minlength=cells)
    return counts


def _alike(
    counts: NDArray[np.int64], layout: Layout, guarantee: Guarantee, bits: BitSource
) -> NDArray[np.int64]:
    """Return the alike records of clients whose counts by cell, shape [clients, cells], are so."""
    columns, clients = layout.columns, len(counts)
    coins = own_bits(bits).words(clients * columns).reshape(clients, columns)
    return alike_records(counts, layout.starts, guarantee, layout.allotment.alike, coins)


def own_bits(bits: BitSource | NightNoise) -> BitSource:
    """Refuse randomness that is not the kernel's: another source might say nothing new."""
    if type(bits) is SystemBits or type(bits) is SeededBits:
        return bits
    raise TypeError("noise is drawn from SystemBits, or from SeededBits in a simulation")


def _noise(
    release: Release, layout: Layout, noise: BitSource | NightNoise, most_records: int
) -> NDArray[np.int64]:
    """Draw the noise of a release of these numbers, of clients of so many records, in steps."""
    if isinstance(noise, NightNoise):
        return noise._drawn(release, layout)
    _require_hidden(release, layout, most_records)
    return sample(release.table, layout.length, own_bits(noise))


def _require_hidden(release: Release, layout: Layout, most_records: int) -> None:
    """Refuse a release that hides less than what it promises to protect moves these numbers by."""
    if most_records > (hidden := release.guarantee.most_records) > 0:
        raise ValueError(
            f"the event hides clients of at most {hidden} records, and nothing says that those in "
            "this sum have no more"
        )
    needed = layout.allotment.moves(release.guarantee.protects)
    if not hides(release.moves, needed):
        raise ValueError(
            f"the event hides {release.moves}, and what it promises to hide moves the numbers of "
            f"this release by {needed}"
        )
