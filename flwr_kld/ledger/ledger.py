"""The ledger: reserve before the first message leaves, settle when the report is there."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, delete

from flwr_kld.ledger import books
from flwr_kld.ledger.afford import afford, spent_by
from flwr_kld.ledger.budget import Budget, Spent
from flwr_kld.ledger.composition import Spend
from flwr_kld.ledger.cost import Cost
from flwr_kld.ledger.database import Database
from flwr_kld.ledger.entry import AlreadyChecked, CheckUnfinished, Entry
from flwr_kld.ledger.errors import LedgerError
from flwr_kld.ledger.parts import Charge, Everyone, RecordBuckets
from flwr_kld.ledger.rotation import Rotation
from flwr_kld.ledger.schema import checks, spends
from flwr_kld.ledger.states import State, read_state, write_state
from flwr_kld.ledger.training import releases_of, training_cost
from flwr_kld.privacy import Unit


@dataclass(frozen=True)
class Reservation:
    """A check that may ask now. What it reserved is spent, unless it is abandoned.

    Parameters
    ----------
    number : int
        Of its entry.
    population, key : str
        Whose budget; the idempotency key.
    spends : tuple[int, ...]
        Ids of its releases' rows, in the order of its charges.
    """

    number: int
    population: str
    key: str
    spends: tuple[int, ...]


class Ledger:
    """Budgets and spends in one database. Every method is one transaction.

    Parameters
    ----------
    url : str
        ``sqlite:///file.db`` (made on first use), or ``postgresql://user@host/name``.
    patience : float
        Seconds to wait for another process that writes.

    Raises
    ------
    ValueError
        If the URL is of no such database.
    LedgerUnavailable
        If it cannot be opened and written, or a newer version of the package wrote it. The other
        methods raise it as well when the database fails them.
    """

    def __init__(self, url: str = "sqlite:///drift.db", *, patience: float = 30.0) -> None:
        self._database = Database(url, patience)

    # ---------------------------------------------------------------------------------- budgets

    def set_budget(self, budget: Budget, *, now: float | None = None) -> None:
        """Put a population's budget in force, from the next check on.

        Spends stay what they are: a smaller budget may be exhausted at once.
        """
        with self._database.writing() as connection:
            books.put_budget(connection, budget, books.tick(connection, _clock(now)))

    def budget(self, population: str = "default") -> Budget:
        """Return the budget in force.

        Raises
        ------
        LedgerError
            If none was set.
        """
        with self._database.reading() as connection:
            return books.budget_of(connection, population)

    def spent(self, population: str = "default", *, now: float | None = None) -> Spent:
        """Return what the most-charged person has spent in the window that ends now."""
        with self._database.reading() as connection:
            seconds = books.time_seen(connection, _clock(now))
            return _spent(connection, books.budget_of(connection, population), seconds)

    # ----------------------------------------------------------------------------------- checks

    def reserve(
        self,
        key: str,
        charges: Iterable[Charge],
        *,
        population: str = "default",
        now: float | None = None,
    ) -> Reservation:
        """Spend what a check will cost, durably, if everybody it asks can afford it.

        Call it before the first message; from then on the check is in the books, whatever
        happens.

        Parameters
        ----------
        key : str
            Of the scheduled check, say its date. It runs once.
        charges : Iterable[Charge]
            What is released, and whom it touches.
        population : str
            Whose budget.
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
            If a charge hides less than the budget promises, or there is none.
        """
        charges = tuple(charges)
        if not key or not charges:
            raise ValueError("a check needs a key and at least one charge")
        with self._database.writing("reserved in") as connection:
            seen = books.tick(connection, _clock(now))  # kept even if the check is refused
        with self._database.writing("reserved in") as connection:
            seconds = books.time_seen(connection, seen)
            budget = books.budget_of(connection, population)
            self._make_way(connection, population, key)
            asked = [(c.cost, _spend(connection, budget, c, seconds)) for c in charges]
            afford(books.window(connection, budget, seconds), [s for _, s in asked], budget)
            number = books.add_check(connection, population, "check", key, seconds)
            return Reservation(number, population, key, books.add_spends(connection, number, asked))

    @staticmethod
    def _make_way(connection: Connection, population: str, key: str) -> None:
        """Refuse a key that has run; forget one that was abandoned."""
        for entry in books.entries(connection, books.of_key(population, "check", key)):
            if entry.state == "reserved":
                raise CheckUnfinished(entry)
            if entry.state != "abandoned":
                raise AlreadyChecked(entry)
            connection.execute(delete(spends).where(spends.c.check == entry.number))
            connection.execute(delete(checks).where(checks.c.number == entry.number))

    def settle(
        self,
        reservation: Reservation,
        report: Mapping[str, Any],
        *,
        delivered: Sequence[Cost] | None = None,
        states: Iterable[State] = (),
        now: float | None = None,
    ) -> None:
        """Close a check that released something.

        Parameters
        ----------
        reservation : Reservation
            What `reserve` returned.
        report : Mapping
            ``Report.to_dict()``.
        delivered : Sequence[Cost], optional
            What each charge cost in the end, which counts from now on; by default, as reserved.
        states : Iterable[State]
            What the monitor remembers, written together with the report or not at all.
        now : float, optional
            As in `reserve`.

        Raises
        ------
        LedgerError
            If the check is not open, or a state was written by somebody else. What was reserved
            stays spent.
        """
        if delivered is not None and len(delivered) != len(reservation.spends):
            raise ValueError(f"{len(reservation.spends)} charges were reserved, and as many settle")
        with self._database.writing("settled in") as connection:
            seconds = books.tick(connection, _clock(now))
            text = json.dumps(dict(report), sort_keys=True)
            _close(connection, reservation, seconds, state="settled", report=text)
            for row, cost in zip(reservation.spends, delivered or (), strict=False):
                kept = books.keep_cost(connection, cost)
                connection.execute(spends.update().where(spends.c.id == row).values(delivered=kept))
            for state in states:
                write_state(connection, state, seconds)

    def fail(self, reservation: Reservation, why: str, *, now: float | None = None) -> None:
        """Close a check that asked and got no number. It has spent what it reserved."""
        with self._database.writing("settled in") as connection:
            seconds = books.tick(connection, _clock(now))
            _close(connection, reservation, seconds, state="failed", note=why)

    def abandon(self, reservation: Reservation, why: str, *, now: float | None = None) -> None:
        """Give back what was reserved. Only where not one message has left: nothing was asked.

        The key may run again.
        """
        with self._database.writing("settled in") as connection:
            seconds = books.tick(connection, _clock(now))
            _close(connection, reservation, seconds, state="abandoned", note=why)

    # --------------------------------------------------------------------------------- training

    def record_training(
        self,
        key: str,
        state: Mapping[str, Any],
        *,
        population: str = "default",
        now: float | None = None,
    ) -> Spent:
        """Charge everyone for a training, in full, as of now; it replaces what `key` had before.

        A training that was run is spent, whether the budget has room for it or not.

        Parameters
        ----------
        key : str
            Of the training.
        state : Mapping
            ``RdpAccountant.state_dict()`` of Flower, after the last round.
        population, now
            As in `reserve`.

        Returns
        -------
        Spent
            What is left for checks.

        Raises
        ------
        ValueError
            If the state is not readable, has fewer releases than when it was last recorded, or
            does not fit the budget's terms.
        """
        with self._database.writing() as connection:
            seconds = books.tick(connection, _clock(now))
            budget = books.budget_of(connection, population)
            cost = training_cost(state, budget)
            for entry in books.entries(connection, books.of_key(population, "training", key)):
                if releases_of(entry.report or {}) > releases_of(state):
                    raise ValueError(f"training {key!r} has shrunk: another run needs another key")
                connection.execute(delete(spends).where(spends.c.check == entry.number))
                connection.execute(delete(checks).where(checks.c.number == entry.number))
            number = books.add_check(connection, population, "training", key, seconds)
            charge = _spend(connection, budget, Charge(cost, Everyone()), seconds)
            reservation = Reservation(
                number, population, key, books.add_spends(connection, number, [(cost, charge)])
            )
            text = json.dumps(dict(state), sort_keys=True)
            _close(connection, reservation, seconds, state="settled", report=text)
            return _spent(connection, budget, seconds)

    # ------------------------------------------------------------------------------ what is kept

    def history(self, population: str = "default") -> list[Entry]:
        """Return all checks and trainings, oldest first."""
        query = checks.select().where(checks.c.population == population).order_by(checks.c.number)
        with self._database.reading() as connection:
            return books.entries(connection, query)

    def check(self, key: str, *, population: str = "default") -> Entry | None:
        """Return one check, if its key was ever reserved."""
        with self._database.reading() as connection:
            found = books.entries(connection, books.of_key(population, "check", key))
        return found[0] if found else None

    def rotation(self, population: str = "default") -> Rotation:
        """Return whose turn it is."""
        return Rotation(self._database, population)

    def state(self, name: str) -> State | None:
        """Return what a monitor remembers under a name, if anything."""
        with self._database.reading() as connection:
            return read_state(connection, name)

    def keep_state(self, state: State, *, now: float | None = None) -> State:
        """Write a state by itself; `settle` writes it together with a report.

        Raises
        ------
        LedgerError
            If somebody else wrote it since it was read.
        """
        with self._database.writing() as connection:
            return write_state(connection, state, books.tick(connection, _clock(now)))


def _clock(now: float | None) -> float:
    return time.time() if now is None else now


def _spend(connection: Connection, budget: Budget, charge: Charge, now: int) -> Spend:
    """Return what a charge spends on whom, in the budget's terms."""
    parts = charge.parts
    if budget.unit is Unit.CLIENT and isinstance(parts, RecordBuckets):
        raise ValueError(
            f"the budget of {budget.population!r} protects whole clients, and buckets divide "
            "records: charge Clients(…) or Everyone()"
        )
    members = books.members(connection, budget.population, parts)
    return Spend(now, charge.cost.toward(budget), parts.family, members)


def _spent(connection: Connection, budget: Budget, now: int) -> Spent:
    return spent_by(books.window(connection, budget, now), budget)


def _close(connection: Connection, reservation: Reservation, now: int, **columns: str) -> None:
    """Put a reserved check into its last state."""
    done = connection.execute(
        checks.update()
        .where(checks.c.number == reservation.number, checks.c.state == "reserved")
        .values(ended=now, **columns)
    )
    if done.rowcount != 1:
        raise LedgerError(f"check {reservation.key!r} is not open: it was closed before")
