"""`PaidRound`: reserved in the ledger before anybody is asked, settled after the last reply."""

from __future__ import annotations

import logging
import secrets
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from flwr_kld.common.errors import CheckFailed, LedgerUnavailable, StateChanged
from flwr_kld.common.flower import untested_flower
from flwr_kld.common.json_text import json_text
from flwr_kld.ledger import BudgetExhausted, Charge, Cost, Kind, LedgerError
from flwr_kld.ledger.budget import Spent
from flwr_kld.ledger.entry import Failure, Remembered
from flwr_kld.report.envelope import CostSummary, Envelope
from flwr_kld.strategies.clock import ASKING, WAITING, Clock

if TYPE_CHECKING:
    from flwr_kld.ledger import Ledger
    from flwr_kld.ledger.reservations import Reservation

logger = logging.getLogger("flwr.kld")


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


@dataclass(eq=False)
class PaidRound:
    """One check, question or predictor's round, and its entry in a ledger, if there is one.

    In a ``with`` statement over `running`: what fails before `reserve` is refused, and may run
    again under its key; what fails afterwards is spent, unless nobody was asked.
    """

    ledger: Ledger | None
    budget: str  # Population that is charged
    entry: Kind  # What it is in the ledger
    key: str | None = None  # Idempotency key, if one was given
    check: str = field(default_factory=lambda: secrets.token_hex(8), init=False)  # Random id
    started: str = field(default_factory=_now, init=False)  # UTC, ISO 8601
    clock: Clock = field(default_factory=Clock, init=False)  # Running since then
    spent: Spent | None = field(default=None, init=False)  # Of the budget, with this round
    _reservation: Reservation | None = field(default=None, init=False)
    _settled: bool = field(default=False, init=False)
    _on_failure: Callable[[], object] | None = field(default=None, init=False)
    _exchanges: int = field(default=0, init=False)  # Before it was reserved
    _asks_unseen: bool = field(default=False, init=False)

    @property
    def name(self) -> str:
        """Its key in a ledger."""
        return self.key or self.check

    @contextmanager
    def running(self, lock: AbstractContextManager[None]) -> Iterator[PaidRound]:
        """Measure the time, and close the entry of a round that raises."""
        if untested := untested_flower():
            logger.warning("%s", untested)
        with self.clock.running(), ExitStack() as until_the_end:
            try:
                until_the_end.enter_context(lock)
                yield self
            except Exception as error:  # an interrupted round stays reserved, which counts as spent
                self._close(error)
                raise

    def reserve(
        self,
        charge: Charge,
        states: Iterable[Remembered] = (),
        *,
        session: str = "",
        on_failure: Callable[[], object] | None = None,
        asks_unseen: bool = False,
    ) -> None:
        """Spend what the round costs, before anybody is asked.

        Parameters
        ----------
        states : Iterable[Remembered]
            What the ledger is to remember from now on, even if the round fails.
        session : str
            Key of the standing session that the round is a night of; empty if of none.
        on_failure : callable, optional
            Called after the ledger has written that the round failed.
        asks_unseen : bool
            Whether messages may be sent that the clock does not count: the round has then asked
            from here on, whatever happens.
        """
        if self.ledger is None:
            return
        reservation = self.ledger.reserve(
            self.name,
            charge,
            kind=self.entry,
            population=self.budget,
            session=session,
            states=states,
        )
        self.spent = self.ledger.spent(self.budget)
        self._reservation, self._on_failure = reservation, on_failure
        self._exchanges, self._asks_unseen = self.clock.entered[ASKING], asks_unseen

    def settle(
        self,
        report: Envelope,
        states: Sequence[Remembered] = (),
        delivered: Cost | None = None,
        *,
        repeatable: bool = False,
    ) -> bool:
        """Write the report, together with what is to be remembered.

        Returns False if another round has changed those states meanwhile and this one is
        `repeatable`: conclude anew, and settle again. `delivered` is what it cost in the end, by
        default what was reserved.
        """
        if self.ledger is None or self._reservation is None:
            return True
        written, self._settled = report.to_dict(), True
        try:
            self.ledger.settle(self._reservation, written, delivered=delivered, states=states)
        except LedgerError as error:
            if isinstance(error, StateChanged) and repeatable:
                return False
            logger.exception("the ledger did not accept this report: %s", json_text(written))
            if not isinstance(error, LedgerUnavailable):  # which could not take this, either
                self._fail(self.ledger, self._reservation, Failure.of(error))
            raise
        return True

    def outlay(
        self,
        epsilon: float,
        traffic: tuple[float, float],
        night: int = 1,
        nights: int = 1,
        delivered: Cost | None = None,
    ) -> CostSummary:
        """Return what a report says of its cost, now that it is made; `delivered` as in `settle`.

        What is left, and the room for more, are the ledger's own once this round is settled.
        """
        room = None
        if self.ledger is not None and self._reservation is not None and delivered is not None:
            known = {self._reservation.number: delivered}
            self.spent = self.ledger.spent(self.budget, delivered=known)
            room = self.ledger.room_for(self._reservation, delivered=known)
        seconds, phases = self.clock.seconds, self.clock.phases
        frees_at = None if self.spent is None else self.spent.frees_at
        return CostSummary(
            epsilon=epsilon,
            seconds=seconds,
            asking=phases[ASKING],
            waiting=phases[WAITING],
            computing=seconds - phases[ASKING] - phases[WAITING],
            left=None if self.spent is None else self.spent.left,
            room=room,
            budget=None if self.spent is None else self.spent.budget.epsilon,
            population=None if self.spent is None else self.budget,
            frees_at=None if frees_at is None else frees_at.isoformat(timespec="seconds"),
            bytes_down=traffic[0],
            bytes_up=traffic[1],
            night=night,
            nights=nights,
        )

    def _close(self, error: Exception) -> None:
        """Write why there is no report; a round that has asked nobody may run again."""
        if self.ledger is None or self._settled:
            return
        if self._reservation is None:
            if isinstance(error, CheckFailed | BudgetExhausted):
                self.ledger.refuse(
                    self.name, Failure.unasked(error), kind=self.entry, population=self.budget
                )
            return
        asked = self._asks_unseen or self.clock.entered[ASKING] > self._exchanges
        why = Failure.of(error) if asked else Failure.unasked(error)
        self._fail(self.ledger, self._reservation, why)

    def _fail(self, ledger: Ledger, reservation: Reservation, why: Failure) -> None:
        ledger.fail(reservation, why)
        if self._on_failure is not None:
            self._on_failure()
