"""Finds columns in which nearly all records are unlisted: no drift of them would show."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from flwr_kld.common.errors import DomainError
from flwr_kld.table.base import Domain, Symbols
from flwr_kld.table.frame import columns_of, texts_in
from flwr_kld.table.records import is_missing, masked_in, text_of, values_in
from flwr_kld.table.table import Table

MOST_UNLISTED = 0.9
"""Share of a column's records that may be 'other' or 'missing'. At 1, a file in another spelling of
which one label fits by chance is taken."""
_ENOUGH = 100
"""Records from which on a node's column is called blind. At 50, clients of few records, of whom
many have nothing in a column, fill logs; at 200, small clients find nothing."""
_SHOWN = 3
"""Values that a message shows."""
_LETTERS = 30
"""Of each of them."""


def blind_columns(domain: Domain, symbols: Symbols) -> list[str]:
    """Return the columns of which nearly all of a node's records, of many, are unlisted."""
    if len(symbols) < _ENOUGH:
        return []
    return [name for name, _ in _blind(domain, symbols)]


def _blind(domain: Domain, symbols: Symbols) -> Iterator[tuple[str, NDArray[np.bool_]]]:
    """Yield blind columns, and which records are unlisted.

    A column that lists nothing is none: it is to tell whether there is a value.
    """
    if not len(symbols):
        return
    rows = symbols.reshape(len(symbols), domain.per_record)
    for name, place, first, odd in _odd_symbols(domain):
        unlisted = odd[rows[:, place] - first]
        if np.count_nonzero(unlisted) / len(unlisted) > MOST_UNLISTED:
            yield name, unlisted


@lru_cache(maxsize=4)
def _odd_symbols(domain: Domain) -> list[tuple[str, int, int, NDArray[np.bool_]]]:
    """Return name, place and first symbol of each column that lists any; which are unlisted."""
    columns = domain.columns if isinstance(domain, Table) else {"": domain}
    features = domain.features if isinstance(domain, Table) else columns
    found = []
    for place, (name, column) in enumerate(columns.items()):
        odd = column.unlisted_index() >= 0
        if name in features and not odd.all():
            found.append((name, place, domain.parts[place].start, odd))
    return found


def require_listed_values(domain: Domain, symbols: Symbols, records: Any) -> None:
    """Refuse public records of which a column is blind, and show some that are not listed.

    A column that is nearly empty is not blind if what it holds is listed.
    """
    for name, unlisted in _blind(domain, symbols):
        seen = Counter(_seen(domain, name, records, unlisted))
        listed = len(unlisted) - int(unlisted.sum())
        if listed and listed >= (1 - MOST_UNLISTED) * (listed + seen.total()):
            continue
        shown = ", ".join(repr(text[:_LETTERS]) for text, _ in seen.most_common(_SHOWN))
        held = f", such as {shown}" if seen else ""
        of_column = f"of column {name!r} " if name else ""
        raise DomainError(
            f"{unlisted.mean():.0%} of the public records {of_column}are 'other' or 'missing'"
            f"{held}: no drift would show. List these values, or say how they are written; "
            "allow_unlisted=True (--allow-unlisted) takes the column as it is"
        )


def _seen(domain: Domain, name: str, records: Any, which: NDArray[np.bool_]) -> Iterator[str]:
    """Yield the texts of records that have a value and are not listed."""
    if isinstance(domain, Table):
        source = domain.sources[name]
        column = texts_in(columns_of(records, {source})[source])
        column = domain.dialect.plain(column, source, "text")
    else:
        try:
            column = texts_in(records)
        except DomainError:  # of several features
            return
    if isinstance(column, np.ndarray) and column.ndim > 1:
        return
    gone = masked_in(column)
    for value, odd in zip(values_in(column), (which & ~gone).tolist(), strict=True):
        if odd and not is_missing(value):
            text = text_of(value)
            yield str(value) if text is None else text
