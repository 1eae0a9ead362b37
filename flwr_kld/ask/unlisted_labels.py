"""The question which labels nobody listed: public, and of one column that lists labels.

It is asked as any other, as one column of a table that server and client make of their own one.
Clients answer with labels and how many of their records have each, to whoever may see them.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from flwr_kld.common.errors import DomainError
from flwr_kld.common.strict_model import Model
from flwr_kld.table.base import Domain
from flwr_kld.table.labels import Labels
from flwr_kld.table.table import Table


@dataclass(frozen=True)
class UnlistedLabels(Model, what="the question for labels"):
    """Which column's unlisted labels are asked for."""

    column: str

    def over(self, domain: Domain) -> Table:
        """Return what is read of the records of a domain.

        Raises `DomainError` if it has no such column, or one that lists no labels.
        """
        return _over(self.column, domain)


@lru_cache(maxsize=4)
def _over(column: str, domain: Domain) -> Table:
    # Imported here: a client that is asked for no labels does without.
    from flwr_kld.table.unlisted_texts import UnlistedTexts, UnlistedTextsTable

    table, labels = labels_in(domain, column)
    texts, sources = {column: UnlistedTexts(labels)}, {column: table.sources[column]}
    return UnlistedTextsTable(texts, dialect=table.dialect, sources=sources)


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
