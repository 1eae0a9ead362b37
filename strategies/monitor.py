"""What all monitors do in Flower's rounds: ask once a round, and train nothing."""

from __future__ import annotations

import logging
from abc import abstractmethod
from collections.abc import Callable, Iterable
from typing import ClassVar, Generic, TypeVar

from flwr.app import ArrayRecord, ConfigRecord, Message, MetricRecord
from flwr.serverapp import Grid
from flwr.serverapp.strategy import Result, Strategy

from flwr_kld.accounting import Ledger, LedgerError
from flwr_kld.arguments import real, whole
from flwr_kld.errors import CheckFailed
from flwr_kld.strategies.cohort import Cohort, UniformCohort
from flwr_kld.strategies.population import Nodes, Population

logger = logging.getLogger("flwr_kld")


def check_timeout(timeout: float) -> float:
    """Return a wait as Python's number; ValueError unless it is positive and finite."""
    return real("timeout", timeout, above=0, unit="seconds")


R = TypeVar("R")
"""Report of one round."""


class Monitor(Strategy, Generic[R]):
    """A strategy whose rounds ask clients by themselves, and give a report each.

    Parameters
    ----------
    cohort : Cohort or None
        Whom to ask; by default everybody present.
    population : Population or None
        Who there is; by default each Flower node is a client.
    min_clients : int
        With fewer, a round fails.
    timeout : float
        Seconds to wait for replies.
    ledger : Ledger or str or None
        Keeps reports, and refuses what is too much.
    budget : str
        Name of the population whose budget is charged.

    Raises
    ------
    ValueError
        If a number is out of range.
    LedgerError
        If the ledger has no such budget.
    """

    kind: ClassVar[str]
    """What its metrics begin with."""
    asks: ClassVar[str]
    """What it does in a round, for people."""

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
        self.cohort = cohort or UniformCohort()
        self.population = population or Nodes()
        self.min_clients = whole("min_clients", min_clients, least=1, unit="clients")
        self.timeout = check_timeout(timeout)
        self.ledger = Ledger(ledger) if isinstance(ledger, str) else ledger
        if self.ledger is not None:
            self.ledger.budget(budget)  # without one nothing could ever be asked
        self.budget = budget
        self.reports: dict[int, R] = {}
        """Report of each round of `start` that gave one."""

    @abstractmethod
    def ask(self, grid: Grid) -> R:
        """Run one round now.

        Raises
        ------
        CheckFailed
            If too few clients are there or reply.
        LedgerError
            If the ledger does not let it start. Nothing was asked.
        """

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
        """Ask once a round.

        Parameters
        ----------
        initial_arrays : ArrayRecord, optional
            Ignored: a monitor has no model.
        num_rounds : int
            How often.
        timeout : float, optional
            Seconds to wait for replies, in place of the constructor's.
        train_config, evaluate_config, evaluate_fn
            As in Flower; a monitor makes no use of the two configs.

        Returns
        -------
        Result
            With metrics of each round under ``evaluate_metrics_clientapp``. A round that failed has
            ``kld.failed = 1`` (or ``predictor.failed``) and no number, and does not stop the
            others.
        """
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
            self.reports[server_round] = self.ask(grid)
        except (CheckFailed, LedgerError) as error:
            logger.warning("%s of round %s failed: %s", self.asks, server_round, error)
        return []

    def aggregate_evaluate(
        self, server_round: int, replies: Iterable[Message]
    ) -> MetricRecord | None:
        """Return the round's metrics."""
        report = self.reports.get(server_round)
        return self.failed if report is None else self.metrics(report)
