"""A node's own records: load, encode, select and count them, in errors that quote none."""

from __future__ import annotations

import logging
import secrets
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from flwr.app import Context
from numpy.typing import NDArray

from flwr_kld.clients.record_secret import record_secret
from flwr_kld.counts import LARGEST_CLIENT, ClientCounts
from flwr_kld.domain import Domain
from flwr_kld.errors import DomainError, QueryRefused
from flwr_kld.privacy import Adjacency
from flwr_kld.protocol import Question
from flwr_kld.query import Selection, record_ids, salted

logger = logging.getLogger("flwr_kld")

Loader = Callable[[Context, int], Any]
"""Something of each record of one member of a node."""
RecordSecret = Callable[[Context, int, Selection], bytes]
"""What the ids of one member's records are salted with for a selection: 32 bytes."""


@dataclass(frozen=True)
class OwnRecords:
    """The records of a node's members.

    Parameters
    ----------
    records : Loader
        Raw records, in a form that ``domain.encode`` takes.
    domain : Callable[[Context], Domain]
        What they mean.
    ids : Loader or None
        One id a record; by default its position.
    secret : Callable[[Context, int, Selection], bytes]
        Salts the ids of a member for a selection.
    """

    records: Loader
    domain: Callable[[Context], Domain]
    ids: Loader | None = None
    secret: RecordSecret = record_secret

    def count(
        self, context: Context, member: int, question: Question, cell_of: NDArray[np.int32]
    ) -> ClientCounts:
        """Count one member's records as the question selects and groups them.

        Raises
        ------
        DomainError, InvalidReply, QueryRefused
            What is wrong with the records, without saying any.
        """
        positions_shift = question.adjacency == Adjacency.ADD_REMOVE  # as records come and go
        if self.ids is None and positions_shift and question.selected.by_id:
            raise QueryRefused(
                "records are picked by id and the check hides whether one is there: it needs "
                "record_ids="
            )
        symbols = self.symbols(context, member)
        ids = self._ids(context, member, len(symbols))
        selection = question.selected
        if selection.by_id:
            ids = salted(ids, self.secret(context, member, selection))
        kept = selection.selected(ids)
        most = question.clip or LARGEST_CLIENT  # a refusal of more would tell how many there are
        if most < kept.sum():  # a uniform sample of those that are asked for
            pick = np.random.default_rng(secrets.randbits(128))
            kept = pick.choice(np.flatnonzero(kept), most, replace=False)
        symbols, ids = symbols[kept], ids[kept]
        group = selection.group_of(ids)
        try:
            return ClientCounts.count(
                symbols, cell_of, question.cells, group=group, groups=selection.groups
            )
        except IndexError:  # numpy's text quotes the symbol
            raise QueryRefused(
                "the domain encodes records to symbols that it does not have"
            ) from None

    def symbols(self, context: Context, member: int) -> NDArray[np.int64]:
        """Load and encode one member's records, shape [records].

        Raises
        ------
        DomainError, QueryRefused
            What is wrong with the records, without saying any.
        """
        try:
            raw = self.records(context, member)
        except Exception as error:  # whatever a loader raises may quote the data
            raise _failed("records", "be loaded", error) from None
        try:
            return self.domain(context).encode(raw)
        except DomainError:
            raise
        except Exception as error:  # so may whatever odd records raise while they are read
            raise _failed("records", "be read", error) from None

    def _ids(self, context: Context, member: int, records: int) -> NDArray[np.uint64]:
        try:
            return record_ids(None if self.ids is None else self.ids(context, member), records)
        except Exception as error:
            raise _failed("record ids", "be used: one integer or string a record", error) from None


def _failed(what: str, how: str, error: Exception) -> QueryRefused:
    name = type(error).__name__
    logger.error("the %s for a drift check could not %s: %s", what, how, name)
    return QueryRefused(f"the {what} could not {how} ({name})")
