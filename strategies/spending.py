"""A check's way through the ledger: reserve before the first message, settle after the last."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable, Sequence
from types import TracebackType
from typing import Any, Protocol

from flwr_kld.errors import CheckFailed
from flwr_kld.ledger import Charge, Clients, Cost, Ledger, LedgerError, RecordBuckets, State
from flwr_kld.strategies.asking import Published
from flwr_kld.strategies.halves import Part
from flwr_kld.strategies.trust import Trust

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

    Raises
    ------
    LedgerError
        On entry, if the check may not start.
    """

    def __init__(
        self, ledger: Ledger | None, budget: str, trust: Trust, key: str, parts: Sequence[Part]
    ) -> None:
        self._ledger, self._budget, self._trust = ledger, budget, trust
        self._key, self._parts = key, parts
        self._over = False
        self.left: float | None = None
        """Epsilon that the most-charged person has left after this check; None without a ledger."""

    def __enter__(self) -> Spending:
        if self._ledger is not None:
            charges = [Charge(self._trust.cost(), _touched(part)) for part in self._parts]
            self._open = self._ledger.reserve(self._key, charges, population=self._budget)
            self.left = self._ledger.spent(self._budget).left
        return self

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
        costs = [self._delivered(published) for published in exchanges]
        try:
            self._ledger.settle(self._open, report.to_dict(), delivered=costs, states=states)
        except LedgerError:
            text = json.dumps(report.to_dict())
            logger.exception("the ledger did not take this report: %s", text)
            raise

    def _delivered(self, published: Published | None) -> Cost:
        """Return what an exchange cost; one that failed, what it was to cost."""
        return self._trust.cost(None if published is None else published.survivors)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._ledger is None or self._over or not isinstance(error, Exception):
            return  # an interrupted check stays reserved, which counts as spent
        # Only these errors are made of public words.
        why = str(error) if isinstance(error, CheckFailed) else type(error).__name__
        self._ledger.fail(self._open, why)


def _touched(part: Part) -> Clients | RecordBuckets:
    selection = part.selection
    if selection.takes_all:
        return Clients(map(str, part.participants))
    return RecordBuckets(selection.key, selection.modulus, selection.residues)
