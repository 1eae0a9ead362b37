"""`Monitor`: a strategy of Flower whose rounds ask clients by themselves, and train nothing."""

from __future__ import annotations

import logging
from abc import abstractmethod
from collections.abc import Callable, Iterable
from typing import Any, ClassVar

from flwr.app import ArrayRecord, ConfigRecord, Message, MetricRecord
from flwr.serverapp import Grid
from flwr.serverapp.strategy import Result, Strategy

from flwr_kld.common.errors import CheckFailed
from flwr_kld.ledger import LedgerError
from flwr_kld.strategies.cohort_strategy import check_timeout

logger = logging.getLogger("flwr.kld")


class Monitor(Strategy):
    """What Flower's `start` and `WithDriftChecks` run, once a round."""

    kind: ClassVar[str]
    """What its metrics begin with."""
    asks: ClassVar[str]
    """What it does in a round, for people."""
    timeout: float
    reports: dict[int, Any]
    """Report of each round of `start` that gave one."""

    @abstractmethod
    def run_round(self, grid: Grid) -> Any:
        """Run one round of `start`, and return its report."""

    @abstractmethod
    def metrics(self, report: Any) -> MetricRecord:
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
