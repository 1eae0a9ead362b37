"""A check's rows through its life: opened, charged, delivered, closed, and by which process."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

import numpy as np
from sqlalchemy import Connection, func, select

from flwr_kld.accounting.books import entry_of, keep_cost
from flwr_kld.accounting.budget import Budget
from flwr_kld.accounting.composition import Spend
from flwr_kld.accounting.cost import Cost
from flwr_kld.accounting.entry import Entry, Kind
from flwr_kld.accounting.parts import pack, unpack
from flwr_kld.accounting.schema import checks, spends
from flwr_kld.accounting.sums import change, tally
from flwr_kld.accounting.window import Window, in_terms, require_budget
from flwr_kld.errors import LedgerError
from flwr_kld.kernel.arguments import choice

_FIRST_NAMESPACE = "pid:[4026531836]"
"""Of processes outside of containers, on every Linux machine: its numbers are the machine's own."""


def this_process() -> str:
    """Name this process so that others can tell whether it has ended; empty if none can."""
    here = _here()
    started = _start_of(os.getpid())
    return f"{here} {os.getpid()} {started}" if here and started else ""


def has_ended(holder: str | None) -> bool:
    """Whether a process is known to have ended; False wherever that cannot be told from here."""
    boot, _, rest = (holder or "").partition(" ")
    here, _, ours = _here().partition(" ")
    if not here or len(parts := rest.split(" ")) != 4:
        return False
    machine, namespace, number, started = parts
    if f"{machine} {namespace}" != ours:
        return False
    if boot != here:  # of one machine: containers may share a name
        return namespace == _FIRST_NAMESPACE
    return number.isdecimal() and _start_of(int(number)) != started


@cache
def _here() -> str:
    """Name boot, machine and namespace of process numbers; empty where they are not known."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text("ascii").strip()
        namespace = str(Path("/proc/self/ns/pid").readlink())
        Path("/proc/1/stat").read_bytes()
    except OSError:
        return ""
    return f"{boot} {socket.gethostname()} {namespace}"


def _start_of(process: int) -> str:
    """When a process began, in the kernel's ticks; empty if there is none."""
    try:
        stat = Path(f"/proc/{process}/stat").read_text("ascii", "replace")
    except OSError:
        return ""
    state, *fields = stat.rpartition(")")[2].split()
    return "" if state in "ZX" else fields[18]


@dataclass(frozen=True)
class Reservation:
    """A check that may ask now. What it reserved is spent, whatever becomes of it."""

    number: int  # Number of its entry
    population: str  # Whose budget; the idempotency key
    key: str
    spends: tuple[int, ...]  # Ids of its releases' rows, in the order of its charges


def opened(
    connection: Connection,
    population: str,
    kind: Kind,
    key: str,
    now: int,
    asked: Iterable[tuple[Cost, Spend]],
    before: Entry | None = None,
) -> Reservation:
    """Open an entry under a number that none ever had, and charge what it asks for."""
    number = 1 + (connection.execute(select(func.max(checks.c.number))).scalar() or 0)
    row = {
        "number": number,
        "population": population,
        "kind": str(choice("kind", kind, Kind)),
        "key": key,
        "started": now,
        "ended": None,
        "state": "reserved",
        "report": None,
        "failure": None,
        "words": this_process() or None,
    }
    if before is None:
        connection.execute(checks.insert().values(row))
    else:
        _take_back(connection, population, before.number)
        connection.execute(spends.delete().where(spends.c.check == before.number))
        connection.execute(checks.update().where(checks.c.number == before.number).values(row))
    return Reservation(number, population, key, charge(connection, population, number, asked))


def charge(
    connection: Connection, population: str, check: int, asked: Iterable[tuple[Cost, Spend]]
) -> tuple[int, ...]:
    """Write what a check asks for, and return the rows' ids."""
    ids, counted = [], []
    for cost, spend in asked:
        kept = keep_cost(connection, cost)
        row = {
            "check": check,
            "asked": kept,
            "family": spend.family,
            "members": pack(spend.members),
        }
        ids.append(
            connection.execute(spends.insert().values(row).returning(spends.c.id)).scalar_one()
        )
        counted.append((spend.family, tally(kept, spend.members)))
    change(connection, population, check, counted)
    return tuple(ids)


def renew(
    connection: Connection,
    budget: Budget,
    key: str,
    now: int,
    asked: Iterable[tuple[Cost, Spend]],
) -> None:
    """Charge a session as of now: once for all its nights, to everybody whom they have asked."""
    population = budget.population
    before = entry_of(connection, population, key)
    asked_before = np.zeros(0, dtype=np.int64)
    if before is not None:
        query = select(spends.c.members).where(spends.c.check == before.number)
        (packed,) = connection.execute(query).scalars()
        asked_before = unpack(packed)
    ((cost, spend),) = asked
    new = replace(spend, members=np.union1d(spend.members, asked_before))
    held = opened(connection, population, Kind.SESSION, key, now, (), before)
    require_budget(Window(connection, budget, now, [new]), [new], budget)
    charge(connection, population, held.number, [(cost, new)])
    close(connection, held, now, state="settled")


def deliver(connection: Connection, budget: Budget, delivered: Mapping[int, Cost]) -> None:
    """Write what an open check's releases cost in the end, by the ids of their rows."""
    for row_id, cost in delivered.items():
        kept = keep_cost(connection, cost)
        row = connection.execute(select(spends).where(spends.c.id == row_id)).one()
        in_terms(cost, row.family, budget)
        connection.execute(spends.update().where(spends.c.id == row_id).values(delivered=kept))
        if kept != row.asked:
            members = unpack(row.members)
            moved = [tally(row.asked, members, -1), tally(kept, members)]
            change(connection, budget.population, row.check, [(row.family, t) for t in moved])


def _take_back(connection: Connection, population: str, check: int) -> None:
    """Count what a check has spent no longer."""
    rows = connection.execute(select(spends).where(spends.c.check == check)).all()
    counted = (
        (row.family, tally(row.delivered or row.asked, unpack(row.members), -1)) for row in rows
    )
    change(connection, population, check, counted)


def left_behind(connection: Connection) -> list[tuple[Reservation, int]]:
    """Return what processes have reserved that are known to have ended, and when they did so."""
    query = select(checks).where(checks.c.state == "reserved")
    return [
        (Reservation(row.number, row.population, row.key, ()), row.started)
        for row in connection.execute(query)
        if has_ended(row.words)
    ]


def close(connection: Connection, reservation: Reservation, now: int, **columns: str) -> None:
    """Put a reserved check into its last state."""
    done = connection.execute(
        checks.update()
        .where(checks.c.number == reservation.number, checks.c.state == "reserved")
        .values({"ended": now, "words": None, **columns})
    )
    if done.rowcount != 1:
        raise LedgerError(f"check {reservation.key!r} is not open: it was closed before")
