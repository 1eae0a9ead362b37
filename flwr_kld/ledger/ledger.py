"""The ledger: reserves a check's cost before anybody is asked, settles it with the report."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import Connection, select

from flwr_kld.common.errors import SessionBusy, StateChanged
from flwr_kld.common.guesses import suggests
from flwr_kld.common.json_text import json_text
from flwr_kld.kernel.arguments import choice, instance
from flwr_kld.ledger import reservations, rows
from flwr_kld.ledger.budget import Budget, Spent
from flwr_kld.ledger.charge import Charge
from flwr_kld.ledger.composition import Spend
from flwr_kld.ledger.cost import Cost
from flwr_kld.ledger.database import Database
from flwr_kld.ledger.entry import (
    AlreadyChecked,
    CheckUnfinished,
    Entry,
    Failure,
    Kind,
    Remembered,
    read_json,
)
from flwr_kld.ledger.reservations import Reservation
from flwr_kld.ledger.rows import to_json
from flwr_kld.ledger.schema import states
from flwr_kld.ledger.window import (
    last_asked,
    refuse_uncharged,
    require_budget,
    room_for,
    spent_by,
)


def read_state(connection: Connection, name: str) -> Remembered | None:
    """Return a state, if there is one."""
    row = connection.execute(select(states).where(states.c.name == name)).one_or_none()
    return None if row is None else Remembered(name, read_json(row.value, "a state"), row.version)


def write_state(connection: Connection, state: Remembered, now: int) -> Remembered:
    """Write the next version of a state."""
    found = read_state(connection, state.name)
    version = 0 if found is None else found.version
    if version != state.version:
        raise StateChanged(
            f"state {state.name!r} was read at version {state.version} and is at {version}: "
            "another check has written it meanwhile; run checks of a population one by one"
        )
    values = {
        "version": version + 1,
        "value": to_json(state.value, f"state {state.name!r}"),
        "updated": now,
    }
    if found is None:
        connection.execute(states.insert().values(name=state.name, **values))
    else:
        connection.execute(states.update().where(states.c.name == state.name).values(values))
    return Remembered(state.name, state.value, version + 1)


@suggests(
    {
        "remaining": "ledger.spent(population).left",
        "reports": "CheckSeries.from_ledger(ledger).reports",
    }
)
class Ledger:
    """Budgets and spends in one database. Every method is one transaction.

    Parameters
    ----------
    url : str
        ``sqlite:///file.db`` (made on first use), or ``postgresql://user@host/name``.
    patience : float
        Seconds to wait for another process that writes, from 0.001 to 86,400.

    Raises
    ------
    ValueError
        If the URL is of no such database, or `patience` is out of range.
    LedgerUnavailable
        If it cannot be opened and written, or another version of the package wrote it. The other
        methods raise it as well when the database fails them.
    """

    def __init__(self, url: str = "sqlite:///drift.db", *, patience: float = 30.0) -> None:
        self._database = Database(url, patience)

    # ---------------------------------------------------------------------------------- budgets

    def set_budget(self, budget: Budget, *, now: float | None = None) -> None:
        """Put a population's budget in force, from the next check on.

        Spends stay what they are: a smaller budget may be exhausted at once.

        Raises `ValueError` if a check that still counts hides less than it promises: the one before
        it stays.
        """
        instance("budget", budget, Budget, "a Budget, such as Budget(epsilon=10)")
        with self._database.writing() as connection:
            seconds = rows.advance_clock(connection, _clock(now))
            if rows.put_budget(connection, budget, seconds):
                refuse_uncharged(connection, budget, seconds)

    def budget(self, population: str = "default") -> Budget:
        """Return the budget in force.

        Raises `LedgerError` if none was set.
        """
        with self._database.reading() as connection:
            return rows.budget_of(connection, population)

    def spent(
        self,
        population: str = "default",
        *,
        now: float | None = None,
        delivered: Mapping[int, Cost] | None = None,
    ) -> Spent:
        """Return what the most-charged person has spent in the window that ends now.

        Checks that are `delivered` count by these costs, by number: as if they were settled.
        """
        with self._database.reading() as connection:
            seconds = rows.time_seen(connection, _clock(now))
            return spent_by(connection, rows.budget_of(connection, population), seconds, delivered)

    def room_for(
        self,
        check: Entry | Reservation,
        *,
        now: float | None = None,
        delivered: Mapping[int, Cost] | None = None,
    ) -> int:
        """Return how often a check could be repeated now, of the same clients; 366 for more."""
        with self._database.reading() as connection:
            seconds = rows.time_seen(connection, _clock(now))
            budget = rows.budget_of(connection, check.population)
            return room_for(connection, budget, seconds, check.number, delivered)

    # ----------------------------------------------------------------------------------- checks

    def reserve(
        self,
        key: str,
        charge: Charge,
        *,
        kind: Kind = Kind.CHECK,
        population: str = "default",
        session: str = "",
        states: Iterable[Remembered] = (),
        now: float | None = None,
    ) -> Reservation:
        """Spend what a check will cost, durably, if everybody it asks can afford it.

        Call it before anybody is asked about records; from then on the check is in the ledger,
        whatever happens.

        Parameters
        ----------
        key : str
            Of the scheduled check, say its date. It runs once.
        charge : Charge
            What is released, and whom it asks.
        kind : Kind
            What asks; all kinds share one set of keys.
        population : str
            Population whose budget is charged.
        session : str
            Key of the standing session that the check is a night of, and of nothing else: then
            `charge` is the cost of all its nights together, and the same on each of them. It counts
            once, as of the latest night, for everybody whom any of them asked.
        states : Iterable[Remembered]
            What the monitor remembers, written together with the reservation or not at all.
        now : float, optional
            Seconds since 1970. A clock that runs backwards counts as standing still.

        Raises
        ------
        BudgetExhausted
            If somebody would be charged more than the budget; says what is short, and when it
            frees.
        AlreadyChecked
            If the key was settled, or failed; carries its report.
        CheckUnfinished
            If it was reserved and not settled.
        ValueError
            If the charge hides less than the budget promises, a night's is not that of its session,
            or `now` is not a time.
        """
        kind = choice("kind", kind, Kind)
        instance("charge", charge, Charge, "a Charge(cost, clients)")
        if not isinstance(key, str) or key in ("", session):
            raise ValueError("a check needs a key, other than its session's")
        with self._database.writing("reserved in") as connection:
            seen = rows.advance_clock(connection, _clock(now))  # kept even if the check is refused
        with self._database.writing("reserved in") as connection:
            seconds = rows.time_seen(connection, seen)
            budget = rows.budget_of(connection, population)
            before = rows.entry_of(connection, population, key)
            if before is not None and not before.refused:
                unfinished = before.state == "reserved"
                raise CheckUnfinished(before) if unfinished else AlreadyChecked(before)
            asked = _spend(connection, budget, charge)
            if session:
                reservations.renew(connection, budget, session, seconds, asked)
            else:
                require_budget(connection, budget, seconds, asked, kind.ranked)
            for state in states:
                write_state(connection, state, seconds)
            opened = reservations.opened(connection, population, kind, key, seconds, before)
            if not session:
                reservations.charge(connection, opened.number, asked)
            return opened

    def settle(
        self,
        reservation: Reservation,
        report: Mapping[str, Any],
        *,
        delivered: Cost | None = None,
        states: Iterable[Remembered] = (),
        now: float | None = None,
    ) -> None:
        """Close a check that released something.

        Parameters
        ----------
        reservation : Reservation
            What `reserve` returned.
        report : Mapping
            ``Report.to_dict()``. NaN and infinities, which JSON does not have, are kept as null.
        delivered : Cost, optional
            What it cost in the end, which counts from now on; by default, as reserved.
        states : Iterable[Remembered]
            What the monitor remembers, written together with the report or not at all.
        now : float, optional
            As in `reserve`.

        Raises
        ------
        LedgerError
            If the check is not open, or (`StateChanged`) a state was written by somebody else. What
            was reserved stays spent.
        ValueError
            If what was delivered hides less than the budget promises, or a state holds a number
            that JSON does not have. What was reserved stays spent.
        """
        with self._database.writing("settled in") as connection:
            seconds = rows.advance_clock(connection, _clock(now))
            text = json_text(report)
            reservations.close(connection, reservation, seconds, state="settled", report=text)
            if delivered is not None:
                budget = rows.budget_of(connection, reservation.population)
                reservations.deliver(connection, budget, reservation, delivered)
            for state in states:
                write_state(connection, state, seconds)

    def refuse(
        self,
        key: str,
        why: Failure,
        *,
        kind: Kind = Kind.CHECK,
        population: str = "default",
        now: float | None = None,
    ) -> None:
        """Write down that a check was refused before anybody was asked. It spends nothing.

        A key that has asked keeps the entry that it has; one that was refused may run later.

        Parameters
        ----------
        key, kind, population, now
            As in `reserve`.
        why : Failure
            Of a kind that has asked nobody.

        Raises
        ------
        ValueError
            If the failure is of another kind.
        """
        if why.kind.spends:
            raise ValueError("clients were asked, so it was not refused: fail its reservation")
        with self._database.writing("reserved in") as connection:
            seconds = rows.advance_clock(connection, _clock(now))
            before = rows.entry_of(connection, population, key)
            if before is None or before.refused:
                refused = reservations.opened(connection, population, kind, key, seconds, before)
                reservations.close(connection, refused, seconds, **_failed(why))

    def fail(self, reservation: Reservation, why: Failure, *, now: float | None = None) -> None:
        """Close a check that asked and got no number.

        It has spent what it reserved, unless the failure is that all whom it asked refused.
        """
        with self._database.writing("settled in") as connection:
            seconds = rows.advance_clock(connection, _clock(now))
            reservations.close(connection, reservation, seconds, **_failed(why))
            if not why.kind.spends:
                reservations.release(connection, reservation)

    # ------------------------------------------------------------------------------ what is kept

    def history(self, population: str = "default") -> Iterator[Entry]:
        """Yield all entries, oldest first; no more of them are in memory than a page."""
        return rows.oldest_first(self._database.reading, rows.query_of(population))

    def newest_first(
        self,
        population: str = "default",
        kinds: Iterable[Kind] | None = None,
        *,
        reports: bool = True,
    ) -> Iterator[Entry]:
        """Yield entries, newest first; reads no more of them than are asked for.

        Parameters
        ----------
        population : str
            Whose.
        kinds : Iterable[Kind], optional
            Those that are wanted; by default all.
        reports : bool
            Whether to read their reports, too, which are most of a ledger's size. Default True.
        """
        query = rows.query_of(population, kinds, reports=reports)
        return rows.newest_first(self._database.reading, query)

    def count_before(
        self, number: int, *, population: str = "default", kinds: Iterable[Kind]
    ) -> int:
        """Count the entries of some kinds before an entry."""
        with self._database.reading() as connection:
            return rows.count_before(connection, population, number, kinds)

    def check(self, key: str, *, population: str = "default") -> Entry | None:
        """Return the entry of a key, if it was ever reserved."""
        with self._database.reading() as connection:
            return rows.entry_of(connection, population, key)

    def last_asked(self, names: Sequence[str], *, population: str = "default") -> NDArray[np.int64]:
        """Return the number of the last check that asked each client, or 0."""
        with self._database.reading() as connection:
            known = rows.numbers_of(connection, population, names)
            numbers = np.array(sorted(known.values()), dtype=np.int64)
            last = last_asked(connection, population, numbers)
        of_number = dict(zip(numbers.tolist(), last.tolist(), strict=True))
        return np.array([of_number[known[name]] if name in known else 0 for name in names])

    def state(self, name: str) -> Remembered | None:
        """Return what a monitor remembers under a name, if anything."""
        with self._database.reading() as connection:
            return read_state(connection, name)

    @contextmanager
    def running(self, session: str) -> Iterator[None]:
        """Run a night of a session; no other process or thread runs one meanwhile.

        Raises `SessionBusy` if one does.
        """
        with self._database.holding(f"{session}/running") as mine:
            if not mine:
                raise SessionBusy(
                    f"another server runs a night of the session {session!r} now: this one asks "
                    "nobody, and spends nothing. Wait until that night is over; if it hangs, end "
                    "its process"
                )
            yield

    def store_state(self, state: Remembered, *, now: float | None = None) -> Remembered:
        """Write a state by itself; `settle` writes it together with a report.

        Raises `StateChanged` if somebody else wrote it since it was read.
        """
        with self._database.writing() as connection:
            return write_state(connection, state, rows.advance_clock(connection, _clock(now)))


def _failed(why: Failure) -> dict[str, str]:
    return {"state": "failed", "failure": str(why.kind), "words": why.words}


def _clock(now: float | None) -> float:
    return time.time() if now is None else now


def _spend(connection: Connection, budget: Budget, charge: Charge) -> Spend:
    """Return what a charge spends on whom; `ValueError` if the budget is for others."""
    charge.cost.require(budget)
    return Spend(charge.cost, rows.members(connection, budget.population, charge.clients))
