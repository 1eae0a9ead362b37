"""The question which labels nobody listed: public, and of one column that lists labels.

It is asked as any other. With a salt, histograms of the column's unlisted labels, by the hashes of
a tree code (`flwr_kld.domain.tree_code`), are columns of a table that server and client make of
their own one: it is priced, charged and refused as a table of so many columns. Without one, clients
tell how many records have which label, to whoever may see it: as a table of one column.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Annotated

from pydantic import Field

from flwr_kld.codec.model import Model
from flwr_kld.domain.base import Domain
from flwr_kld.domain.labels import Labels
from flwr_kld.domain.table import Table
from flwr_kld.errors import DomainError
from flwr_kld.kernel.arguments import Unfit


@dataclass(frozen=True)
class Spelling(Model, what="the question for labels"):
    """Which column's unlisted labels are asked for."""

    column: str
    # Of the hashes: new in every question, so that two labels that share a cell in one do not in
    # the next; None where labels are told by their texts
    salt: Annotated[str, Field(min_length=1, max_length=64)] | None

    def __post_init__(self) -> None:
        if not (self.salt or "").isprintable():
            raise Unfit("salt", "printable", "what is not")

    @property
    def by_text(self) -> bool:
        """Whether labels are told by their texts."""
        return self.salt is None

    def over(self, domain: Domain) -> Table:
        """Return what is counted of the records of a domain.

        Raises `DomainError` if it has no such column, or one that lists no labels.
        """
        return _over(self, domain)


@lru_cache(maxsize=4)
def _over(asked: Spelling, domain: Domain) -> Table:
    # Imported here: a client that is asked for no labels does without.
    from flwr_kld.domain.spelled import Spelled, Written, WrittenTable
    from flwr_kld.domain.tree_code import POSITIONS

    table, labels = labels_in(domain, asked.column)
    column, source = asked.column, table.sources[asked.column]
    if asked.salt is None:
        texts = {column: Written(labels)}
        return WrittenTable(texts, dialect=table.dialect, sources={column: source})
    names = [f"{column}: {place}" for place in range(POSITIONS)]
    return Table(
        {name: Spelled(labels, asked.salt, place) for place, name in enumerate(names)},
        dialect=table.dialect,
        sources=dict.fromkeys(names, source),
    )


def labels_in(domain: Domain, column: str) -> tuple[Table, Labels]:
    """Return a domain as a table, and what its column lists; DomainError if either is not so."""
    if not isinstance(domain, Table):
        raise DomainError(
            "labels are asked for in a column of a Table: make one, Table({'job': ['nurse']})"
        )
    features = {name: own for name, own in domain.features.items() if type(own) is Labels}
    if column not in features:
        known = ", ".join(map(repr, features)) or "none of this table"
        raise DomainError(f"column {column!r} lists no labels; those that do: {known}")
    return domain, features[column]
