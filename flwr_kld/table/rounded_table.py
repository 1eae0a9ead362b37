"""Tables whose numbers are counted at grid points within their bins (`rounded`)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache

from flwr_kld.table.base import Domain, Symbols
from flwr_kld.table.binned import Binned
from flwr_kld.table.frame import Features
from flwr_kld.table.rounded import RoundedNumbers
from flwr_kld.table.table import Table

_INTERVALS = 20
"""Between grid points of a column, about: twice as many make deciles half as coarse and noise of
means and bins √2 times as large."""
_MOST_BINS = 99
"""Inner bins of a column that is cut further: of more, each is narrow, and holds few records."""


@dataclass(frozen=True, eq=False)
class RoundedTable(Table):
    """A table whose numbers are counted at grid points; pairs of columns and scores as they are."""

    @cached_property
    def columns(self) -> dict[str, Domain]:
        """Domain of each column."""
        own = super().columns
        return {**own, **{name: rounded(own[name]) for name in self.features}}

    @cached_property
    def _read(self) -> Features:
        own = {name: self.columns[name] for name in self.features}
        read = {n: of.places if isinstance(of, RoundedNumbers) else of for n, of in own.items()}
        return Features(read, self.dialect, self.sources)

    def _numbered(self, symbols: list[Symbols]) -> Symbols:
        cells = {}
        for row, name in enumerate(self.features):
            if isinstance(column := self.columns[name], RoundedNumbers):
                cells[row] = column.rounded(symbols[row])
                symbols[row] = column.bin_of[cells[row]]
        found = super()._numbered(symbols)
        for row, own in cells.items():
            found[:, row] = own + self.parts[row].start
        return found


@lru_cache(maxsize=64)
def rounded(domain: Domain) -> Domain:
    """Return what counts a domain's numbers at grid points; itself if there are none to count."""
    if type(domain) is Binned:
        bins = len(domain.edges) - 1
        if not 0 < bins <= _MOST_BINS:
            return domain
        return RoundedNumbers(domain, max(round(_INTERVALS / bins), 1))
    if type(domain) is not Table:
        return domain
    table = _as(RoundedTable, domain)
    numbers = any(isinstance(own, RoundedNumbers) for own in table.columns.values())
    return table if numbers else domain


def own_domain(domain: Domain) -> Domain:
    """Return the domain whose numbers are counted at grid points, as both sides have it."""
    if isinstance(domain, RoundedNumbers):
        return domain.binned
    if isinstance(domain, RoundedTable):
        return _as(Table, domain)
    return domain


def _as(kind: type[Table], table: Table) -> Table:
    """Return the same columns as another kind of table."""
    return kind(
        table.features,
        table.interactions,
        table.by,
        dialect=table.dialect,
        sources=table.sources,
        scores=table.scores,
        left_out=table.left_out,
        read_as=table.read_as,
        units=table.units,
        descriptions=table.descriptions,
        thresholds=table.thresholds,
    )
