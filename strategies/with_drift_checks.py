"""Drift checks beside training: another strategy's rounds, every k-th followed by a check.

Or by a predictor's round; for both, wrap twice:
``WithDriftChecks(WithDriftChecks(FedAvg(), KLDrift(…)), PrivatePredictor(…), every=1)``.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from typing import Any

from flwr.app import ArrayRecord, ConfigRecord, Message, MetricRecord
from flwr.serverapp import Grid
from flwr.serverapp.strategy import Result, Strategy

from flwr_kld.common.errors import CheckFailed
from flwr_kld.kernel.arguments import instance, integer
from flwr_kld.ledger import LedgerError
from flwr_kld.report import Outcome
from flwr_kld.report.report import Report
from flwr_kld.strategies.kl_drift import KLDrift
from flwr_kld.strategies.monitor import Monitor

logger = logging.getLogger("flwr_kld")

EvaluateFn = Callable[[int, ArrayRecord], MetricRecord | None]


class WithDriftChecks(Strategy):
    """Train with any strategy, and check for drift after every k-th round.

    The wrapped strategy's own `start` runs: what it asks, aggregates and returns stays as it is.
    A check comes at the end of its round, after training and evaluation.

    Parameters
    ----------
    strategy : Strategy
        Trains: ``FedAvg()`` or any other. Wrap last: checks run from this object's `start`.
    monitor : Monitor
        `KLDrift`, which checks, or `PrivatePredictor`, which learns. It asks, waits and spends as
        it does on its own.
    every : int
        Rounds from one check to the next, at least 1: rounds k, 2k, … are followed by a check.
    on_report : callable, optional
        Called with the round and the monitor's report, a `Report` or `PredictorReport`, if there is
        one. Whatever it raises ends the training, which may be its purpose.
    on_drift : Callable[[int, Report], None], optional
        The same, but only where a check decided that there is drift.
    show_model : bool
        Whether a check shows clients the model of its round, for columns that are its predictions.

    Raises
    ------
    ValueError
        If `every` is not a positive number of rounds, or `on_drift` or `show_model` is given for a
        predictor.
    """

    def __init__(
        self,
        strategy: Strategy,
        monitor: Monitor,
        every: int = 5,
        on_report: Callable[[int, Any], None] | None = None,
        on_drift: Callable[[int, Report], None] | None = None,
        show_model: bool = False,
    ) -> None:
        instance("strategy", strategy, Strategy, "a strategy that trains, such as FedAvg()")
        instance("monitor", monitor, Monitor, "a monitor, such as KLDrift(…), after the strategy")
        for name, call in (("on_report", on_report), ("on_drift", on_drift)):
            if call is not None:
                instance(name, call, Callable, "a function of a round and its report")
        if on_drift is not None and not isinstance(monitor, KLDrift):
            raise ValueError("a predictor gives no verdict: give on_report=, or a KLDrift")
        if instance("show_model", show_model, bool, "True or False"):
            instance("monitor", monitor, KLDrift, "a KLDrift, where clients are shown the model")
        self.strategy = strategy
        self.monitor = monitor
        self.every = integer("every", every, least=1, unit="rounds")
        self.on_report = on_report
        self.on_drift = on_drift
        self.show_model = show_model
        self.reports: dict[int, Any] = {}
        """Report of each round of the last `start` whose check gave one."""

    def start(
        self,
        grid: Grid,
        initial_arrays: ArrayRecord,
        num_rounds: int = 3,
        timeout: float = 3600,
        train_config: ConfigRecord | None = None,
        evaluate_config: ConfigRecord | None = None,
        evaluate_fn: EvaluateFn | None = None,
    ) -> Result:
        """Run the wrapped strategy's `start`, with checks; all but `timeout` goes to it.

        Parameters
        ----------
        timeout : float
            For training. A check keeps its monitor's own.

        Returns
        -------
        Result
            The wrapped strategy's. After rounds with a check, ``evaluate_metrics_serverapp`` has
            ``kld.*`` metrics beside those of `evaluate_fn`, or ``predictor.*`` metrics. A check or
            round that failed leaves ``kld.failed = 1`` or ``predictor.failed = 1`` and no number,
            and training goes on.
        """
        self.reports = {}
        self.monitor.summary()

        def evaluate(server_round: int, arrays: ArrayRecord) -> MetricRecord | None:
            own = None if evaluate_fn is None else evaluate_fn(server_round, arrays)
            if server_round == 0 or server_round % self.every:
                return own
            found = self._check(server_round, grid, arrays)
            return found if own is None else MetricRecord({**found, **own})

        return self.strategy.start(
            grid=grid,
            initial_arrays=initial_arrays,
            num_rounds=num_rounds,
            timeout=timeout,
            train_config=train_config,
            evaluate_config=evaluate_config,
            evaluate_fn=evaluate,
        )

    def _check(self, server_round: int, grid: Grid, arrays: ArrayRecord) -> MetricRecord:
        """Run one check or round; whatever goes wrong in it must not cost the training."""
        monitor = self.monitor
        try:
            report = monitor.run_round(grid, **({"model": arrays} if self.show_model else {}))
        except (CheckFailed, LedgerError) as error:
            logger.warning("%s after round %s failed: %s", monitor.asks, server_round, error)
            return monitor.failed
        except Exception:
            logger.exception("%s after round %s broke", monitor.asks, server_round)
            return monitor.failed
        self.reports[server_round] = report
        if self.on_report is not None:
            self.on_report(server_round, report)
        if (
            self.on_drift is not None
            and isinstance(report, Report)
            and report.outcome is Outcome.DRIFT
        ):
            self.on_drift(server_round, report)
        return monitor.metrics(report)

    # --------------------------------------------- the wrapped strategy's rounds, as they are

    def configure_train(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        """Return the wrapped strategy's messages."""
        return self.strategy.configure_train(server_round, arrays, config, grid)

    def aggregate_train(
        self, server_round: int, replies: Iterable[Message]
    ) -> tuple[ArrayRecord | None, MetricRecord | None]:
        """Return the wrapped strategy's aggregate."""
        return self.strategy.aggregate_train(server_round, replies)

    def configure_evaluate(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        """Return the wrapped strategy's messages."""
        return self.strategy.configure_evaluate(server_round, arrays, config, grid)

    def aggregate_evaluate(
        self, server_round: int, replies: Iterable[Message]
    ) -> MetricRecord | None:
        """Return the wrapped strategy's metrics."""
        return self.strategy.aggregate_evaluate(server_round, replies)

    def summary(self) -> None:
        """Log what both will do."""
        self.strategy.summary()
        self.monitor.summary()
