"""What one client counts on each night of a standing session.

Noise is sized for *lives*: a record, known by its id, comes at most once, changes its symbols so
many times at most, and goes at most once. Whatever a client's records do, what it counts are such
lives, and how many records that are depends on their presence alone (proof note:
``docs/proofs/standing.md``).
"""

from __future__ import annotations

import math
from operator import itemgetter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from flwr_kld.domain.base import Symbols
from flwr_kld.kernel.vector import Held, Private

Stored = tuple[bytes, bytes, bytes, bytes]
"""Little-endian: ids and symbols of the records that are counted, how often each changed, and ids
of those that are gone."""


class Lives(Private):
    """One client's records in one session, as they are counted. Private: shows no value.

    Parameters
    ----------
    columns : int
        Symbols of a record.
    """

    __slots__ = ("_changes", "_gone", "_ids", "_symbols")

    _ids: NDArray[np.uint64]  # Of the records that are counted, ascending
    _symbols: NDArray[Any]  # As they are counted, whole numbers, shape [records, columns]
    _changes: NDArray[Any]  # How often each changed
    _gone: NDArray[np.uint64]  # Of the records that were counted once, ascending

    def __init__(self, columns: int) -> None:
        self._ids = self._gone = np.empty(0, np.uint64)
        self._symbols, self._changes = np.empty((0, columns), np.int32), np.empty(0, np.int32)

    def after(self, ids: Held[NDArray[np.uint64]], symbols: Held[Symbols], moves: int) -> Lives:
        """Return the lives after another night.

        Parameters
        ----------
        ids : Held[NDArray[np.uint64]]
            Ids of tonight's records, shape [records]. Rows of one id are one record: the first.
        symbols : Held[Symbols]
            Shape [records, columns], or [records] where there is one column.
        moves : int
            Even, >= 2: a record is counted with ``moves // 2`` rows of symbols at most, one after
            the other.
        """
        columns = self._symbols.shape[1]
        after = Lives(columns)
        first = ids.into(lambda own: np.argsort(own, kind="stable"))
        after._ids = ids.into(itemgetter(first))
        new = ~_among(after._ids, self._gone)
        new[1:] &= after._ids[1:] != after._ids[:-1]
        after._ids, first = after._ids[new], first[new]
        after._symbols = symbols.into(lambda own: own.reshape(len(own), columns)[first])
        after._changes = np.zeros(len(first), np.int32)
        stay = _among(self._ids, after._ids)
        after._gone = np.sort(np.concatenate([self._gone, self._ids[~stay]]))
        known = np.flatnonzero(_among(after._ids, self._ids))
        before, changes = self._symbols[stay], self._changes[stay]  # in the order of `known`
        differ = (after._symbols[known] != before).any(axis=1)
        frozen = differ & (changes >= moves // 2 - 1)
        after._symbols[known[frozen]] = before[frozen]
        after._changes[known] = changes + (differ & ~frozen)
        return after

    def counted(self) -> Held[Symbols]:
        """Symbols of the records that are counted, shape [records, columns]."""
        return Held(self._symbols)

    def stored(self) -> Held[Stored]:
        """Return the lives as a file keeps them; uncompressed, as ids do not compress."""
        return Held(
            (
                self._ids.astype("<u8").tobytes(),
                _packed(self._symbols),
                _packed(self._changes),
                self._gone.astype("<u8").tobytes(),
            )
        )

    @classmethod
    def of_stored(cls, stored: Held[Stored], columns: int) -> Lives:
        """Read what `stored` gave."""
        lives, (ids, symbols, changes, gone) = cls(columns), stored.into(lambda own: map(Held, own))
        lives._ids, lives._gone = ids.into(_ids), gone.into(_ids)
        records = len(lives._ids)
        lives._symbols = symbols.into(lambda own: _unpacked(own, (records, columns)))
        lives._changes = changes.into(lambda own: _unpacked(own, (records,)))
        return lives


def _among(some: NDArray[np.uint64], others: NDArray[np.uint64]) -> NDArray[np.bool_]:
    """Which of some ids are among others; both ascend."""
    if not len(others):
        return np.zeros(len(some), dtype=bool)
    place = np.minimum(np.searchsorted(others, some), len(others) - 1)
    return np.asarray(others[place] == some)


def _packed(values: NDArray[Any]) -> bytes:
    """Write whole numbers >= 0 in the smallest type that holds them."""
    size = np.min_scalar_type(int(values.max(initial=0))).itemsize
    return values.astype(f"<u{size}").tobytes()


def _unpacked(packed: bytes, shape: tuple[int, ...]) -> NDArray[Any]:
    """Read what `_packed` wrote."""
    size = len(packed) // max(math.prod(shape), 1) or 1
    return np.frombuffer(packed, f"<u{size}").reshape(shape)


def _ids(packed: bytes) -> NDArray[np.uint64]:
    return np.frombuffer(packed, "<u8").astype(np.uint64)
