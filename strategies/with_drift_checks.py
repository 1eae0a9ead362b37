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
from flwr_kld.kernel.arguments import InvalidArgument, instance, integer
from flwr_kld.ledger import LedgerError
from flwr_kld.report import Outcome
from flwr_kld.report.report import Report
from flwr_kld.strategies.drift_actions import Action, Pause, Retrain, Reweight
from flwr_kld.strategies.kl_drift import KLDrift
from flwr_kld.strategies.monitor import Monitor
from flwr_kld.views.text import next_step

logger = logging.getLogger("flwr.kld")

EvaluateFn = Callable[[int, ArrayRecord], MetricRecord | None]


class _Paused(Exception):
    """Ends the wrapped strategy's `start`; its argument is whose check found the drift."""


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
    on_drift : Retrain, Pause, Reweight or callable, optional
        What to do about a drift, once: again only after a check that found none. A callable gets
        the round and the `Report`.
    suggest : bool
        Whether `Retrain`, `Pause` and `Reweight` are only proposed, in the log and in ``actions``
        (default). A callable is always called.
    cooldown : int
        Checks after an action that bring no other, at least 0. Default 3.
    show_model : bool
        Whether a check shows clients the model of its round, for columns that are its predictions.

    Raises
    ------
    ValueError
        If `every` is not a positive number of rounds; if `on_drift` or `show_model` is given for a
        predictor, or `on_drift` where no check decides; or if `Reweight` names no column.
    """

    def __init__(
        self,
        strategy: Strategy,
        monitor: Monitor,
        every: int = 5,
        on_report: Callable[[int, Any], None] | None = None,
        on_drift: Action | None = None,
        suggest: bool = True,
        cooldown: int = 3,
        show_model: bool = False,
    ) -> None:
        instance("strategy", strategy, Strategy, "a strategy that trains, such as FedAvg()")
        instance("monitor", monitor, Monitor, "a monitor, such as KLDrift(…), after the strategy")
        if on_report is not None:
            instance("on_report", on_report, Callable, "a function of a round and its report")
        if on_drift is not None:
            if not (callable(on_drift) or isinstance(on_drift, Retrain | Pause | Reweight)):
                raise InvalidArgument("on_drift", "Retrain(rounds=3), say, or a function", on_drift)
            if not isinstance(monitor, KLDrift) or monitor.tolerated is None:
                raise ValueError("on_drift= needs a verdict: give a KLDrift with threshold=")
            if isinstance(on_drift, Reweight) and on_drift.column not in monitor.reference.columns:
                raise ValueError(f"the reference has no column {on_drift.column!r}")
        if instance("show_model", show_model, bool, "True or False"):
            instance("monitor", monitor, KLDrift, "a KLDrift, where clients are shown the model")
        self.strategy = strategy
        self.monitor = monitor
        self.every = integer("every", every, least=1, unit="rounds")
        self.on_report = on_report
        self.on_drift = on_drift
        self.suggest = instance("suggest", suggest, bool, "True or False")
        self.cooldown = integer("cooldown", cooldown, least=0, unit="checks")
        self.show_model = show_model
        self.actions: dict[int, Action] = {}
        """What was done after each round of the last `start`, or only proposed."""
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
            and training goes on. Of a training that `Pause` ended, metrics of clients are missing.
        """
        self.reports, self.actions = {}, {}
        self._handled, self._cooling, self._paused, self._last = False, 0, False, num_rounds
        if isinstance(self.on_drift, Reweight):
            train_config = self._weights = ConfigRecord(dict(train_config or {}))
        self.monitor.summary()
        whole, first, end = Result(), 0, num_rounds

        def evaluate(part_round: int, arrays: ArrayRecord) -> MetricRecord | None:
            if first and not part_round:
                return None  # evaluated at the end of the part before
            server_round = first + part_round
            found = None if evaluate_fn is None else evaluate_fn(server_round, arrays)
            if server_round and not server_round % self.every:
                checked = self._check(server_round, grid, arrays)
                found = checked if found is None else MetricRecord({**checked, **found})
            if found is not None:
                whole.evaluate_metrics_serverapp[server_round] = found
            if self._paused and server_round < end:
                whole.arrays = arrays
                raise _Paused(self)
            return found

        while True:
            try:
                part = self.strategy.start(
                    grid=grid,
                    initial_arrays=whole.arrays if first else initial_arrays,
                    num_rounds=end - first,
                    timeout=timeout,
                    train_config=train_config,
                    evaluate_config=evaluate_config,
                    evaluate_fn=evaluate,
                )
            except _Paused as paused:
                if paused.args[0] is not self:
                    raise
                return whole
            if self._last <= end and not first:
                return part
            whole.arrays = part.arrays or whole.arrays or initial_arrays
            for own, new in (
                (whole.train_metrics_clientapp, part.train_metrics_clientapp),
                (whole.evaluate_metrics_clientapp, part.evaluate_metrics_clientapp),
            ):
                own.update({first + number: metrics for number, metrics in new.items()})
            if self._last <= end:
                return whole
            first, end = end, self._last

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
        if isinstance(report, Report):
            unsure = report.outcome in {Outcome.DRIFT, Outcome.INCONCLUSIVE}
            say = logger.warning if unsure else logger.info
            step = next_step(report)
            say("check after round %s: %s Next: %s", server_round, report.summary, step)
            self._answer(server_round, report)
        return monitor.metrics(report)

    def _answer(self, server_round: int, report: Report) -> None:
        """Act once on a drift, unless an action was taken a few checks ago."""
        cooling, self._cooling = self._cooling > 0, max(self._cooling - 1, 0)
        if report.outcome is not Outcome.DRIFT:
            self._handled &= report.outcome is Outcome.INCONCLUSIVE
            return
        action = self.on_drift
        if action is None or self._handled or cooling:
            return
        self._handled, self._cooling = True, self.cooldown
        self.actions[server_round] = action
        if callable(action):
            action(server_round, report)
            return
        proposed = " is proposed" if self.suggest else ""
        logger.warning("after round %s: %s%s", server_round, action, proposed)
        if self.suggest:
            return
        if isinstance(action, Retrain):
            self._last = max(self._last, server_round + action.rounds)
        elif isinstance(action, Pause):
            self._paused, self._last = True, server_round
        elif isinstance(self.monitor, KLDrift):
            self._weights.update(action.config(report, self.monitor.reference))

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
