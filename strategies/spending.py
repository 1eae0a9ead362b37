"""A check's way through the ledger: reserve before the first message, settle after the last."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from types import TracebackType
from typing import Any, Protocol

from flwr_kld.accounting import (
    Charge,
    Clients,
    Cost,
    Failure,
    Kind,
    Ledger,
    LedgerError,
    RecordBuckets,
    Spent,
    State,
)
from flwr_kld.messages.json_text import json_text
from flwr_kld.strategies.asking import Published
from flwr_kld.strategies.halves import Part
from flwr_kld.trust import Trust

logger = logging.getLogger("flwr_kld")


class Paid(Protocol):
    """A report that was paid for."""

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-able form."""
        ...


class Spending:
    """One check's reservation, as a context: a check that raises has failed, and has spent.

    Parameters
    ----------
    ledger : Ledger or None
        Without one, nothing is kept.
    budget : str
        Name of the population whose budget is charged.
    trust : Trust
        Says what a release costs.
    key : str
        Idempotency key.
    parts : Sequence[Part]
        Whom each exchange asks.
    kind : Kind
        What asks.

    Raises
    ------
    LedgerError
        On entry, if the check may not start.
    """

    def __init__(
        self,
        ledger: Ledger | None,
        budget: str,
        trust: Trust,
        key: str,
        parts: Sequence[Part],
        *,
        kind: Kind = Kind.CHECK,
    ) -> None:
        self._ledger, self._budget, self._trust = ledger, budget, trust
        self._key, self._parts, self._kind = key, parts, kind
        self._over = False
        self.spent: Spent | None = None
        """What the most-charged person has spent with this check; None without a ledger."""

    def __enter__(self) -> Spending:
        if self._ledger is not None:
            charges = [Charge(self._trust.cost(), whom) for whom, _ in _charges(self._parts)]
            self._open = self._ledger.reserve(
                self._key, charges, kind=self._kind, population=self._budget
            )
            self.spent = self._ledger.spent(self._budget)
        return self

    @property
    def amounts(self) -> dict[str, Any]:
        """What a report says of the budget: what is left, and of how much."""
        return budget_amounts(self.spent)

    def settle(
        self, report: Paid, exchanges: Sequence[Published | None], states: Iterable[State]
    ) -> None:
        """Write the report, what each exchange delivered, and what the monitor remembers.

        Raises
        ------
        LedgerError
            If the ledger cannot be written. The report is in the log then: it was paid for.
        """
        self._over = True
        if self._ledger is None:
            return
        costs = [self._delivered([exchanges[i] for i in paid]) for _, paid in _charges(self._parts)]
        try:
            self._ledger.settle(self._open, report.to_dict(), delivered=costs, states=states)
        except LedgerError:
            text = json_text(report.to_dict())
            logger.exception("the ledger did not take this report: %s", text)
            raise

    def _delivered(self, exchanges: Sequence[Published | None]) -> Cost:
        """Return what the dearest exchange cost: that of fewest survivors, or one that failed."""
        survivors = [exchange.survivors for exchange in exchanges if exchange is not None]
        return self._trust.cost(min(survivors) if len(survivors) == len(exchanges) else None)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._ledger is None or self._over or not isinstance(error, Exception):
            return  # an interrupted check stays reserved, which counts as spent
        self._ledger.fail(self._open, Failure.of(error))


def budget_amounts(spent: Spent | None) -> dict[str, Any]:
    """Return the fields of a report about the budget in force; None without a ledger."""
    if spent is None:
        return {"epsilon_left": None, "epsilon_budget": None}
    return {"epsilon_left": spent.left, "epsilon_budget": spent.budget.epsilon}


def _charges(parts: Sequence[Part]) -> list[tuple[Clients | RecordBuckets, list[int]]]:
    """Return whom each charge touches, and which exchanges it pays for.

    `halves` asks nobody who is hidden twice. Where what the halves share has a name (the clients
    whose records they divide, the buckets that both take of different clients), one charge pays for
    both; otherwise each has its own.
    """
    first, selection = parts[0], parts[0].selection
    both = list(range(len(parts)))
    residues = sorted(residue for part in parts for residue in part.selection.residues)
    if residues == list(range(selection.modulus)):  # together, all records of these clients
        return [(Clients(map(str, first.participants)), both)]
    if selection.takes_all:
        return [(Clients(map(str, part.participants)), [i]) for i, part in enumerate(parts)]
    if all(part.selection.residues == selection.residues for part in parts):
        return [(RecordBuckets(selection.key, selection.modulus, selection.residues), both)]
    return [
        (RecordBuckets(selection.key, selection.modulus, part.selection.residues), [i])
        for i, part in enumerate(parts)
    ]
