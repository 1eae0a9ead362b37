"""Loads, encodes, selects and counts a node's records; no error shows one of them."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from typing import TYPE_CHECKING, Any

import numpy as np
from flwr.app import Context
from numpy.typing import NDArray

from flwr_kld.clients.deadline import ended_in_time
from flwr_kld.common.errors import DomainError, QueryRefused
from flwr_kld.kernel.law import SystemBits
from flwr_kld.kernel.selection import MOST_COUNTED, ClientLabels
from flwr_kld.kernel.vector import LARGEST_CLIENT, ClientRows, Held, Private
from flwr_kld.table.base import Domain, Symbols
from flwr_kld.table.blind import blind_columns
from flwr_kld.table.record_ids import record_ids
from flwr_kld.table.table import Table
from flwr_kld.trust.terms import Terms

if TYPE_CHECKING:
    from flwr_kld.trust.session_memory import Memory

logger = logging.getLogger("flwr_kld")

Loader = Callable[[Context, int], Any]
"""Something of each record of one member of a node."""


@dataclass(frozen=True)
class OwnRecords:
    """The records of a node's members."""

    records: Loader  # Raw records, in a form that a domain's `encode` takes
    ids: Loader | None = None  # One id a record, for standing sessions

    def load(
        self, context: Context, member: int, domain: Domain, terms: Terms | None = None
    ) -> Records:
        """Load and encode one member's records: by terms, those of a period, or with their ids.

        In the domain that is counted. Within `of_period`, so that loaders know which.
        """
        period, inside = None if terms is None else terms.period, None
        with ended_in_time():
            try:
                raw = Held(self.records(context, member))
            except QueryRefused:  # in words of its own
                raise
            except Exception as error:  # whatever a loader raises may quote the data
                raise _failed("records", "be loaded", error) from None
            try:
                symbols = Held(raw.into(domain.encode))
                sound = symbols.into(domain.holds)
                if sound and (terms is None or terms.unlisted_labels is None):
                    for name in symbols.into(partial(blind_columns, domain)):
                        _warn_of_blindness(name)
                if period is not None:
                    dialect = domain.dialect if isinstance(domain, Table) else None
                    inside = Held(raw.into(lambda rows: period.holds(rows, dialect)))
            except (DomainError, QueryRefused):  # in words that show no record
                raise
            except Exception as error:  # so may whatever odd records raise while they are read
                raise _failed("records", "be read", error) from None
        if not sound:
            raise QueryRefused("the domain encodes records to symbols that it does not have")
        in_session = terms is not None and terms.night is not None
        ids = self._ids(context, member, symbols) if in_session else None
        return Records(symbols, ids, inside)

    def _ids(
        self, context: Context, member: int, symbols: Held[Symbols]
    ) -> Held[NDArray[np.uint64]]:
        """Load an id for each record."""
        if self.ids is None:
            raise QueryRefused(_NO_IDS)
        try:
            with ended_in_time():
                own = Held(self.ids(context, member))
            return Held(own.into(partial(record_ids, symbols)))
        except Exception as error:
            raise _failed("record ids", "be used: one integer or string a record", error) from None


@cache
def _warn_of_blindness(column: str) -> None:
    """Log a column once in a process: one that hosts many clients would repeat it for each."""
    logger.warning(
        "%snearly all of this node's records are 'other' or 'missing', so that no drift of them "
        "shows; flwr-kld doctor --data says which",
        f"column {column!r}: " if column else "",
    )


_NO_IDS = (
    "a standing session follows each record by its id, so the client needs record_ids=: by their "
    "positions or by what they hold, records would change into others"
)


_NOTHING = np.empty(0, np.uint64)
"""Ids of records that have none."""


class Records(Private):
    """One member's encoded records, on their way to its counts. Private: shows no value."""

    __slots__ = ("_frozen", "_ids", "_symbols")

    def __init__(
        self,
        symbols: Held[Symbols],
        ids: Held[NDArray[np.uint64]] | None = None,
        inside: Held[NDArray[np.bool_]] | None = None,
    ) -> None:
        self._symbols, self._frozen = symbols.into(np.asarray), 0
        self._ids = _NOTHING if ids is None else ids.into(np.asarray)
        if inside is not None:
            self._symbols = self._symbols[inside.into(np.asarray)]
            self._ids = self._ids if ids is None else self._ids[inside.into(np.asarray)]

    def __len__(self) -> int:
        return len(self._symbols)

    def sample(self, most: int) -> None:
        """Keep a uniform sample of at most `most` records."""
        if most < len(self):
            self._symbols = self._symbols[_uniform().choice(len(self), most, replace=False)]

    @staticmethod
    def count_session(memory: Memory, members: Mapping[int, Records]) -> dict[int, bytes]:
        """Store a night of a session, and reduce members to what it counts; return their tokens."""
        if not members:
            return {}
        tokens, counted, frozen = memory.count(
            [*members],
            Held([own._ids for own in members.values()]),
            Held([own._symbols for own in members.values()]),
        )
        rows = counted.into(partial(map, Held))
        numbers = frozen.into(partial(map, Held))
        for own, held, number in zip(members.values(), rows, numbers, strict=True):
            own._symbols, own._frozen = held.into(np.asarray), number.into(int)
        return dict(zip(members, tokens, strict=True))

    def label(self, labels: int) -> Held[int]:
        """Draw one record's symbol below `labels`; any of them if there is no such record."""
        self._symbols = self._symbols[(self._symbols >= 0) & (self._symbols < labels)]
        if not len(self._symbols):
            return Held(int(_uniform().integers(labels)))
        return Held(int(_uniform().choice(self._symbols)))

    @staticmethod
    def counted(
        members: Sequence[Records],
        terms: Terms,
        cell_of: NDArray[np.int32],
    ) -> ClientRows:
        """Count what the terms take of each member's by cell: a row each."""
        _take(members, terms, LARGEST_CLIENT)
        return ClientRows.count(
            [own._symbols for own in members],
            cell_of,
            terms.layout,
            terms.guarantee,
            SystemBits(),
            [own._frozen for own in members],
        )

    @staticmethod
    def labels(members: Sequence[Records], terms: Terms) -> ClientLabels:
        """Count what the terms take of each member's labels: a row each."""
        _take(members, terms, MOST_COUNTED)
        return ClientLabels([own._symbols for own in members])


def _take(members: Sequence[Records], terms: Terms, most: int) -> None:
    """Keep what the terms take of each member's, of at most so many records."""
    most = min(terms.most_records or most, most)
    for own in members:
        own.sample(most)


def _uniform() -> np.random.Generator:
    """Return what draws at random which of a client's records are counted."""
    return np.random.default_rng(SystemBits().words(4))


def _failed(what: str, how: str, error: Exception) -> QueryRefused:
    name = type(error).__name__
    logger.error("the %s for a drift check could not %s: %s", what, how, name)
    return QueryRefused(f"the {what} could not {how} ({name})")
