"""What the clients of a node count on each night of a standing session.

Noise is sized for *lifetimes*: a record, known by its id, comes at most once, changes its symbols
so many times at most, and goes at most once. Whatever a client's records do, it counts
lifetimes, and how many records that are depends on their presence alone (proof note:
``docs/proofs/standing.md``).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from flwr_kld.kernel.vector import Held, Private
from flwr_kld.table.base import Symbols

Stored = tuple[bytes, bytes, bytes, bytes, bytes, bytes]
"""Little-endian: how many records each client counts, their ids, their symbols, and how often each
changed; how many records of each client are gone, and their ids."""
Ids = NDArray[np.uint64]
_Rows = tuple[NDArray[Any], ...]


class RecordLifetimes(Private):
    """All records of a node in one session, as they are counted. Private: shows no value."""

    __slots__ = ("_alive", "_gone")

    # Rows ascend by client, then by id. Clients are numbered.
    # Client, id, symbols [columns] and number of changes of each record that counts; one more of
    # those that are frozen: they have used up their changes, and have differed since
    _alive: _Rows
    _gone: _Rows  # Client and id of those that were counted once

    def __init__(self, columns: int) -> None:  # symbols of a record
        none = np.empty(0, np.intp), np.empty(0, np.uint64)
        self._alive = *none, np.empty((0, columns), np.int32), np.empty(0, np.int32)
        self._gone = none

    def after(
        self,
        clients: Sequence[int],
        # Of each client's records: [records], of rows of one id the first; and [records, columns],
        # or [records] if there is one column
        ids: Held[list[Ids]],
        symbols: Held[list[Symbols]],
        # Even, >= 2: of a record, moves // 2 rows of symbols are counted at most, one after another
        moves: int,
    ) -> RecordLifetimes:
        """Return the lifetimes after another night of some clients; others' stay as they are."""
        (of_alive, ids_alive, before, changed), (of_gone, ids_gone) = self._alive, self._gone
        columns = before.shape[1]
        here = np.repeat(np.array(clients, np.intp), ids.into(lambda each: [*map(len, each)]))
        rows = symbols.into(lambda each: np.concatenate([x.reshape(-1, columns) for x in each]))
        # A record's rows follow one another in `order`: that it is gone or was counted, if it was,
        # then those that are here.
        of = np.concatenate([of_gone, of_alive, here])
        named = np.concatenate([ids_gone, ids_alive, *ids.into(list)])
        order = np.lexsort((named, of))
        of, named = of[order], named[order]
        first = np.append(True, (of[1:] != of[:-1]) | (named[1:] != named[:-1]))[: len(order)]
        starts = np.flatnonzero(first)
        of, named, known = of[starts], named[starts], order[starts]
        new = known >= len(of_gone) + len(of_alive)
        is_here = new | ~np.append(first, True)[starts + 1]
        alive = (known >= len(of_gone)) & (is_here | ~np.isin(of, clients))
        after = RecordLifetimes(columns)
        after._gone = of[~alive], named[~alive]

        new, is_here = new[alive], is_here[alive]
        now = order[(starts[alive] + ~new)[is_here]] - len(of_gone) - len(of_alive)
        was = known[alive][~new] - len(of_gone)
        counted, changes = np.empty((len(new), columns), np.int32), np.zeros(len(new), np.int32)
        counted[~new], changes[~new] = before[was], changed[was]
        seen = counted.copy()
        seen[is_here] = rows[now]
        differ = np.logical_or.reduce(seen != counted, axis=1)
        moved = ~new & differ & (changes < moves // 2 - 1)
        changes += ~new & differ & (changes < moves // 2)  # once more: it is frozen, and differs
        counted[new | moved] = seen[new | moved]
        after._alive = of[alive], named[alive], counted, changes
        return after

    def without(self, clients: Sequence[int]) -> RecordLifetimes:
        """Return the lifetimes of all others."""
        lifetimes = RecordLifetimes(0)
        lifetimes._alive, lifetimes._gone = (
            tuple(part[~np.isin(rows[0], clients)] for part in rows)
            for rows in (self._alive, self._gone)
        )
        return lifetimes

    def counted(self, clients: Sequence[int]) -> Held[list[Symbols]]:
        """Symbols of the records that some clients count, shape [records, columns] each."""
        of, _, symbols, _ = self._alive
        starts, ends = np.searchsorted(of, clients), np.searchsorted(of, clients, side="right")
        bounds = zip(starts.tolist(), ends.tolist(), strict=True)
        return Held([symbols[start:end] for start, end in bounds])

    def frozen(self, clients: Sequence[int], moves: int) -> Held[list[int]]:
        """Of some clients, how many records used up their changes and have differed since."""
        of, _, _, changes = self._alive
        numbers = np.bincount(of[changes == moves // 2], minlength=max(clients, default=0) + 1)
        return Held(numbers[np.array(clients, np.intp)].tolist())

    def stored(self, clients: int) -> Held[Stored]:
        """Return the lifetimes of so many clients as a file keeps them."""
        of, ids, symbols, changes = self._alive
        gone_of, gone = self._gone
        return Held(
            (
                _packed(np.bincount(of, minlength=clients)),
                _packed(ids),
                _packed(symbols),
                _packed(changes),
                _packed(np.bincount(gone_of, minlength=clients)),
                _packed(gone),
            )
        )

    @classmethod
    def of_stored(cls, stored: Held[Stored], clients: int, columns: int) -> RecordLifetimes:
        """Read what `stored` gave."""
        lifetimes = cls(columns)
        records, ids, symbols, changes, records_gone, gone = stored.into(tuple)
        of, gone_of = (
            np.repeat(np.arange(clients), _unpacked(packed, (clients,)))
            for packed in (records, records_gone)
        )
        lifetimes._alive = (
            of,
            _unpacked(ids, (len(of),)).astype(np.uint64),
            _unpacked(symbols, (len(of), columns)),
            _unpacked(changes, (len(of),)),
        )
        lifetimes._gone = gone_of, _unpacked(gone, (len(gone_of),)).astype(np.uint64)
        return lifetimes


def _packed(values: NDArray[Any]) -> bytes:
    """Write whole numbers >= 0 in the smallest type that holds them."""
    size = np.min_scalar_type(int(values.max(initial=0))).itemsize
    return values.astype(f"<u{size}").tobytes()


def _unpacked(packed: bytes, shape: tuple[int, ...]) -> NDArray[Any]:
    """Read what `_packed` wrote."""
    size = len(packed) // max(math.prod(shape), 1) or 1
    return np.frombuffer(packed, f"<u{size}").reshape(shape)
