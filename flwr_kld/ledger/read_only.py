"""A read-only view of a ledger: it writes nothing and creates no file."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from datetime import datetime

from sqlalchemy import func, select, union

from flwr_kld.common.errors import NoBudget
from flwr_kld.ledger import rows
from flwr_kld.ledger.budget import Spent
from flwr_kld.ledger.database import Database
from flwr_kld.ledger.entry import Entry, Kind, utc
from flwr_kld.ledger.schema import budgets, checks
from flwr_kld.ledger.window import spent_by


class LedgerView:
    """What a ledger holds, for those who may not change it. Every method is one transaction."""

    def __init__(self, url: str, *, patience: float = 5.0) -> None:
        self._database = Database(url, patience, read_only=True)
        self.name = self._database.name
        """Of the ledger, without a password."""

    def populations(self) -> list[str]:
        """Names of all that have a budget or an entry, sorted."""
        query = union(select(budgets.c.population), select(checks.c.population))
        with self._database.reading() as connection:
            return sorted(connection.execute(query).scalars())

    def spent(self, population: str) -> Spent | None:
        """Return what `Ledger.spent` does; None if no budget was set."""
        with self._database.reading() as connection, suppress(NoBudget):
            budget = rows.budget_of(connection, population)
            return spent_by(connection, budget, rows.time_seen(connection, time.time()))
        return None

    def leaving(self, population: str, most: int) -> list[tuple[datetime, Entry]]:
        """Return what leaves the budget's window next, without reports, and when (UTC)."""
        with self._database.reading() as connection:
            seconds = rows.time_seen(connection, time.time())
            try:
                budget = rows.budget_of(connection, population)
            except NoBudget:
                return []
            query = rows.query_of(population, reports=False).where(
                checks.c.started >= seconds - budget.seconds,
                checks.c.asked.is_not(None),  # not nights, nor what was refused
            )
            oldest = query.order_by(checks.c.started, checks.c.number).limit(most)
            spent = rows.entries(connection, oldest, {})
        after = budget.seconds + 1
        return [(utc(int(entry.started.timestamp()) + after), entry) for entry in spent]

    def newest_first(
        self, population: str, kinds: Iterable[Kind], *, before: int | None = None
    ) -> Iterator[Entry]:
        """Yield entries of some kinds without reports, newest first, from before a number on."""
        query = rows.query_of(population, kinds, reports=False)
        return rows.newest_first(self._database.reading, query, before)

    def entry(self, number: int) -> Entry | None:
        """Return an entry by its number, with its report."""
        with self._database.reading() as connection:
            found = rows.entries(connection, select(checks).where(checks.c.number == number), {})
        return found[0] if found else None

    def with_report(self, entry: Entry) -> Entry:
        """Return an entry with its report, if it has one."""
        return self.entry(entry.number) or entry

    def keys(self, population: str) -> list[tuple[int, Kind, str]]:
        """Return number, kind and key of all entries, oldest first."""
        query = select(checks.c.number, checks.c.kind, checks.c.key)
        query = query.where(checks.c.population == population).order_by(checks.c.number)
        with self._database.reading() as connection:
            return [(number, Kind(kind), key) for number, kind, key in connection.execute(query)]

    def stamp(self) -> str:
        """Return what is another text after any change of budgets and entries."""
        numbers = (func.count(), func.max(checks.c.number), func.count(checks.c.ended))
        query = select(*numbers, func.max(checks.c.ended))
        with self._database.reading() as connection:
            entries = connection.execute(query).one()
            budget = connection.execute(select(func.max(budgets.c.number))).scalar()
        return "-".join(str(value or 0) for value in (*entries, budget))
