"""`Round`: the one way through for whatever asks clients, from who is there to what was settled.

A check, a predictor's round and a reference made from clients differ in what they ask and make of
the answers; who may be asked, and that it is paid for before it is asked, is the same.
"""

from __future__ import annotations

import logging
import secrets
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, nullcontext
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar, Generic, TypeVar

import numpy as np
from flwr.app import ArrayRecord, ConfigRecord, Message, MetricRecord
from flwr.serverapp import Grid
from flwr.serverapp.strategy import Result, Strategy

from flwr_kld.ask.cohort import Cohort, Participant, UniformCohort, require_clients
from flwr_kld.common.errors import CheckFailed, LedgerUnavailable, StateChanged
from flwr_kld.common.strict_model import json_text
from flwr_kld.kernel.arguments import instance, real, whole
from flwr_kld.kernel.law import SystemBits
from flwr_kld.ledger import BudgetExhausted, Charge, Cost, Kind, LedgerError
from flwr_kld.ledger.budget import Spent
from flwr_kld.ledger.entry import Failure, Remembered
from flwr_kld.report.envelope import CohortSeen, Envelope, Outlay
from flwr_kld.strategies.clock import ASKING, WAITING, Clock
from flwr_kld.strategies.population import Nodes, Population, nodes_left_out

if TYPE_CHECKING:
    from flwr_kld.ledger import Ledger
    from flwr_kld.ledger.reservations import Reservation
logger = logging.getLogger("flwr_kld")


def check_timeout(timeout: float) -> float:
    """Return a wait as Python's number; ValueError unless it is positive and finite."""
    return real("timeout", timeout, above=0, unit="seconds")


@dataclass(frozen=True)
class Opening:
    """How a round begins."""

    key: str | None  # Idempotency key, if one was given
    check: str = field(default_factory=lambda: secrets.token_hex(8))  # Random id
    # UTC, ISO 8601
    started: str = field(
        default_factory=lambda: datetime.now(UTC).isoformat(timespec="seconds"), init=False
    )
    clock: Clock = field(default_factory=Clock, init=False, repr=False)
    """Running since then."""

    @property
    def name(self) -> str:
        """Its key in a ledger."""
        return self.key or self.check


Asked = TypeVar("Asked")
"""Whom a round asks, and for what."""
R = TypeVar("R")
"""What comes out of one."""


@dataclass(frozen=True)
class Settled(Generic[R]):
    """What a round ends with."""

    result: R  # What the caller gets
    report: Envelope  # What the ledger keeps
    states: Sequence[Remembered] = ()  # What is to be remembered, written together with the report
    # What each charge cost in the end; by default, what was reserved
    delivered: Sequence[Cost] | None = None
    # Concludes the same answers after what another check has settled meanwhile, where that may be
    again: Callable[[], Settled[R]] | None = None


def _opened(ledger: Ledger | str | None) -> Ledger | None:
    if ledger is None:
        return None
    from flwr_kld.ledger import Ledger  # imported here: who keeps none needs no database

    if isinstance(ledger, str):
        return Ledger(ledger)
    return instance("ledger", ledger, Ledger, "a Ledger or its URL, such as 'sqlite:///drift.db'")


class Round(ABC, Generic[Asked, R]):
    """Whatever asks a cohort once, and pays for it."""

    entry: ClassVar[Kind]
    """What it is in a ledger."""
    _seed: int | None = None

    def __init__(
        self,
        *,
        cohort: Cohort | None,
        population: Population | None,
        min_clients: int,
        timeout: float,
        ledger: Ledger | str | None,
        budget: str,
    ) -> None:
        if cohort is not None:
            instance("cohort", cohort, Cohort, "a cohort rule, such as UniformCohort(100)")
        if population is not None:
            instance("population", population, Population, "a population, such as HostedClients()")
        self.cohort = cohort or UniformCohort()
        self.population = population or Nodes()
        self.min_clients = whole("min_clients", min_clients, least=1, unit="clients")
        self.timeout = check_timeout(timeout)
        instance("budget", budget, str, "the name of a population with a budget in the ledger")
        self.ledger = _opened(ledger)
        if self.ledger is not None:
            self.ledger.budget(budget)  # without one nothing could ever be asked
        self.budget = budget
        self._generator = np.random.default_rng(SystemBits().words(4))

    def _seeded(self, seed: int) -> None:
        """Draw from a seed, in simulations only; who draws from it already goes on."""
        if seed != self._seed:
            self._seed, self._generator = seed, np.random.default_rng(seed)

    def _run(self, grid: Grid, key: str | None = None) -> R:
        """Run one round: present, require, recall, draw, reserve, ask, settle."""
        # A round that is refused before it asks is in the ledger, too, and may run again.
        opening = Opening(key)
        with opening.clock.running(), ExitStack() as until_the_end:
            try:
                until_the_end.enter_context(self._alone())
                asked = self._chosen(grid)
                reservation = self._reserve(opening, asked)
            except (CheckFailed, BudgetExhausted) as refusal:
                self._refuse(opening, refusal)
                raise
            spent = None if self.ledger is None else self.ledger.spent(self.budget)
            asked_before = opening.clock.entered[ASKING]
            try:
                settled = self._ask(grid, opening, asked, spent)
            except Exception as error:  # an interrupted round stays reserved, which counts as spent
                self._fail(reservation, error, asked=opening.clock.entered[ASKING] > asked_before)
                raise
            return self._settle(reservation, settled)

    def _chosen(self, grid: Grid) -> Asked:
        """Return whom to ask for what, of those who are there."""
        present = self._present(grid)
        require_clients(len(present), self._least, "are connected")
        if self.ledger is not None:
            self._recall(self.ledger, present)
        chosen = self.cohort.draw(present, self._generator)
        require_clients(len(chosen), self._least, "were drawn into the cohort")
        self._prepare(grid, chosen)
        return self._draw(chosen, present)

    # ------------------------------------------------------------ what differs between rounds

    @property
    def _least(self) -> int:
        """Fewest clients that are asked."""
        return self.min_clients

    def _present(self, grid: Grid) -> list[Participant]:
        """Return the clients that are there."""
        return self.population.present(grid, self.timeout)

    def _prepare(self, grid: Grid, chosen: list[Participant]) -> None:
        """Find out, before anything is paid for, whether the cohort can be asked."""

    def _recall(self, ledger: Ledger, present: list[Participant]) -> None:
        """Take up what a ledger remembers."""
        self.cohort.recall(ledger.rotation(self.budget), present)

    @abstractmethod
    def _draw(self, chosen: list[Participant], present: list[Participant]) -> Asked:
        """Decide what the cohort is asked."""

    @abstractmethod
    def _charges(self, asked: Asked) -> list[Charge]:
        """Return what that will cost, and whom."""

    @abstractmethod
    def _ask(self, grid: Grid, opening: Opening, asked: Asked, spent: Spent | None) -> Settled[R]:
        """Ask, wait, and make the report; it is paid for."""

    def _alone(self) -> AbstractContextManager[None]:
        """Refuse to run beside another round that this one must not meet."""
        return nullcontext()

    def _session_of(self, asked: Asked) -> str:
        """Return the key of the standing session that this is a night of; empty if of none."""
        return ""

    def _begun(self, asked: Asked) -> Sequence[Remembered]:
        """Return what is to be remembered before anybody is asked."""
        return ()

    def _seen(self, asked: int, survivors: int, left_out: Mapping[str, int]) -> CohortSeen:
        """Return what a report says of its cohort; `left_out` counts clients by reason."""
        return CohortSeen(asked, survivors, {**left_out, **nodes_left_out(self.population)})

    def _cost(
        self, opening: Opening, spent: Spent | None, *, epsilon: float, traffic: tuple[float, float]
    ) -> Outlay:
        """Return what a report says of its cost, now that it is made."""
        seconds, phases = opening.clock.seconds, opening.clock.phases
        return Outlay(
            epsilon=epsilon,
            seconds=seconds,
            asking=phases[ASKING],
            waiting=phases[WAITING],
            computing=seconds - phases[ASKING] - phases[WAITING],
            left=None if spent is None else spent.left,
            budget=None if spent is None else spent.budget.epsilon,
            population=None if spent is None else self.budget,
            bytes_down=traffic[0],
            bytes_up=traffic[1],
        )

    # ------------------------------------------------------------------------ the ledger's part

    def _reserve(self, opening: Opening, asked: Asked) -> Reservation | None:
        states = self._begun(asked)
        if self.ledger is None:
            return None
        return self.ledger.reserve(
            opening.name,
            self._charges(asked),
            kind=self.entry,
            population=self.budget,
            session=self._session_of(asked),
            states=states,
        )

    def _refuse(self, opening: Opening, why: CheckFailed | BudgetExhausted) -> None:
        """Write down why a round asked nobody."""
        if self.ledger is not None:
            self.ledger.refuse(
                opening.name, Failure.unasked(why), kind=self.entry, population=self.budget
            )

    def _fail(
        self, reservation: Reservation | None, error: Exception, *, asked: bool = True
    ) -> None:
        """Close a round that gave no report; one that has not `asked` anybody may run again."""
        if self.ledger is not None and reservation is not None:
            self.ledger.fail(reservation, Failure.of(error) if asked else Failure.unasked(error))

    def _settle(self, reservation: Reservation | None, settled: Settled[R]) -> R:
        """Write the report, what was delivered, and what is remembered; return what came out."""
        if self.ledger is None or reservation is None:
            return settled.result
        report = settled.report.to_dict()
        try:
            self.ledger.settle(
                reservation, report, delivered=settled.delivered, states=settled.states
            )
        except LedgerError as error:
            if isinstance(error, StateChanged) and settled.again is not None:
                return self._settle(reservation, settled.again())
            logger.exception("the ledger did not accept this report: %s", json_text(report))
            if not isinstance(error, LedgerUnavailable):  # which could not take this, either
                self._fail(reservation, error)
            raise
        return settled.result


class Monitor(Round[Asked, R], Strategy):
    """A strategy whose rounds ask clients by themselves, with the parameters of `Round`."""

    kind: ClassVar[str]
    """What its metrics begin with."""
    asks: ClassVar[str]
    """What it does in a round, for people."""

    @cached_property
    def reports(self) -> dict[int, R]:
        """Report of each round of `start` that gave one."""
        return {}

    @abstractmethod
    def run_round(self, grid: Grid) -> R:
        """Run one round of `start`."""

    @abstractmethod
    def metrics(self, report: R) -> MetricRecord:
        """Return a report's metrics for Flower's Result."""

    @property
    def failed(self) -> MetricRecord:
        """Metrics of a round that gave no report."""
        return MetricRecord({f"{self.kind}.failed": 1})

    def start(
        self,
        grid: Grid,
        initial_arrays: ArrayRecord | None = None,
        num_rounds: int = 1,
        timeout: float | None = None,
        train_config: ConfigRecord | None = None,
        evaluate_config: ConfigRecord | None = None,
        evaluate_fn: Callable[[int, ArrayRecord], MetricRecord | None] | None = None,
    ) -> Result:
        """Ask once a round."""
        if timeout is not None:
            self.timeout = check_timeout(timeout)
        arrays = initial_arrays or ArrayRecord()
        return super().start(
            grid, arrays, num_rounds, self.timeout, train_config, evaluate_config, evaluate_fn
        )

    def configure_train(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        """Ask nobody: a monitor does not train."""
        return []

    def aggregate_train(
        self, server_round: int, replies: Iterable[Message]
    ) -> tuple[ArrayRecord | None, MetricRecord | None]:
        """Return nothing: a monitor does not train."""
        return None, None

    def configure_evaluate(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        """Run the whole round through the grid, then leave nothing for Flower to send."""
        self.reports.pop(server_round, None)
        try:
            self.reports[server_round] = self.run_round(grid)
        except (CheckFailed, LedgerError) as error:
            logger.warning("%s of round %s failed: %s", self.asks, server_round, error)
        return []

    def aggregate_evaluate(
        self, server_round: int, replies: Iterable[Message]
    ) -> MetricRecord | None:
        """Return the round's metrics."""
        report = self.reports.get(server_round)
        return self.failed if report is None else self.metrics(report)
