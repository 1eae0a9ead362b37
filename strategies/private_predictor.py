"""The strategy that learns, from one privatised label a client, which candidate clients follow."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime

import numpy as np
from flwr.app import ArrayRecord, ConfigRecord, Message, MetricRecord
from flwr.serverapp import Grid
from flwr.serverapp.strategy import Result, Strategy

from flwr_kld.errors import CheckFailed
from flwr_kld.ledger import Charge, Clients, Cost, Ledger, LedgerError, Reservation, State
from flwr_kld.predictors import Predictor
from flwr_kld.predictors.laws import Floats
from flwr_kld.privacy import Adjacency, Unit
from flwr_kld.report import PredictorReport
from flwr_kld.report.predictor_report import LOCAL, round_key
from flwr_kld.strategies.asking import require
from flwr_kld.strategies.cohort import Cohort, Participant, UniformCohort
from flwr_kld.strategies.population import Nodes, Population
from flwr_kld.strategies.predictor_round import PredictorRound

logger = logging.getLogger("flwr_kld")

_REMEMBERED = 64
"""Rounds that are kept apart; older ones are folded into the weights, so that state stays small."""


class PrivatePredictor(Strategy):
    """Ask a cohort for one locally private report each, once a round, and learn from them.

    Parameters
    ----------
    predictor : Predictor
        Hypotheses, what a report costs, and what was learnt: a `BayesMixture`, or one of the
        paper's algorithms.
    cohort : Cohort
        Whom to ask; by default everybody connected. Each report costs its client ε: with a
        `RotatingCohort` a client pays once in a turn.
    population : Population
        Who there is.
    context : str
        Public context of the labels that are asked for, where hypotheses depend on one.
    min_clients : int
        With fewer reports a round fails, and teaches nothing.
    timeout : float
        Seconds to wait for replies.
    ledger : Ledger or str, optional
        Keeps what was learnt over restarts, charges each round, and refuses one that is too much.
    budget : str
        Name of the population whose budget is charged.
    name : str
        Of this predictor in the ledger.

    Raises
    ------
    ValueError
        If an argument is out of range, or the ledger holds another predictor's state.
    """

    def __init__(
        self,
        predictor: Predictor,
        *,
        cohort: Cohort | None = None,
        population: Population | None = None,
        context: str = "",
        min_clients: int = 1,
        timeout: float = 600.0,
        ledger: Ledger | str | None = None,
        budget: str = "default",
        name: str = "predictor",
    ) -> None:
        if not name:
            raise ValueError("a predictor needs a name, to be known by in the ledger")
        if min_clients < 1:
            raise ValueError(f"min_clients must be at least 1, got {min_clients}")
        if not 0 < timeout < math.inf:
            raise ValueError(f"timeout must be a positive number of seconds, got {timeout}")
        predictor.query(0, context)  # built now: a context without laws fails here
        self.predictor = predictor
        self.cohort = cohort or UniformCohort()
        self.population = population or Nodes()
        self.context = context
        self.min_clients = min_clients
        self.timeout = timeout
        self.ledger = Ledger(ledger) if isinstance(ledger, str) else ledger
        self.budget = budget
        self.name = name
        self.rounds = self.taken = 0
        """Rounds asked, and reports taken, over all runs."""
        self.reports: dict[int, PredictorReport] = {}
        """Report of each round of `start` that gave one."""
        self._generator = np.random.default_rng()
        self._version = 0
        if self.ledger is not None:
            self.ledger.budget(budget)  # without one nothing could ever be asked
            self._restore(self.ledger)

    def ask(self, grid: Grid) -> PredictorReport:
        """Run one round now.

        Raises
        ------
        CheckFailed
            If too few clients are there or report.
        LedgerError
            If the ledger does not let the round start. Nothing was asked.
        """
        began, started = time.perf_counter(), datetime.now(UTC).isoformat(timespec="seconds")
        present = self.population.present(grid, self.timeout)
        require(len(present), self.min_clients, "are connected")
        if self.ledger is not None:
            self.cohort.recall(self.ledger.rotation(self.budget), present)
        chosen = self.cohort.draw(present, self._generator)
        require(len(chosen), self.min_clients, "were drawn into the cohort")
        reservation = self._reserve(chosen)
        self.rounds += 1
        domain = self.predictor.hypotheses.domain.fingerprint
        asking = PredictorRound(self.predictor, self.rounds, self.context, domain)
        try:
            asking.run(grid, chosen, self.timeout)
            require(len(asking.intake), self.min_clients, "reported", dict(asking.left_out))
        except Exception as error:
            self._fail(reservation, error)
            raise
        for batch in asking.intake.batches():
            self.predictor.update(batch)
        self.predictor.settle(self.rounds - _REMEMBERED)
        self.taken += len(asking.intake)
        report = self._report(started, len(chosen), asking, seconds=time.perf_counter() - began)
        self._settle(reservation, report)
        return report

    def _report(
        self, started: str, asked: int, asking: PredictorRound, seconds: float
    ) -> PredictorReport:
        predictor, leader, taken = self.predictor, self.predictor.leader, len(asking.intake)
        bound = predictor.risk_bound(self.rounds, taken, self.context)
        return PredictorReport(
            name=self.name,
            round=self.rounds,
            started=started,
            weights=self._named(predictor.weights),
            mixture=self._named(predictor.mixture),
            leader=leader.name,
            log_odds=leader.log_odds,
            swing=leader.swing,
            outlasts=leader.outlasts,
            risk_bound=None if bound is None else float(bound[leader.index]),
            epsilon=predictor.epsilon,
            delta=predictor.delta,
            epsilon_left=None if self.ledger is None else self.ledger.spent(self.budget).left,
            asked=asked,
            taken=taken,
            rejected=dict(asking.left_out),
            reports=self.taken,
            seconds=seconds,
        )

    def _named(self, values: Floats | None) -> dict[str, float]:
        """Return values [K] by the candidates' names; nothing where there are none."""
        names = self.predictor.hypotheses.names
        return {} if values is None else dict(zip(names, values.tolist(), strict=True))

    # ------------------------------------------------------------------------ the ledger's part

    def _reserve(self, chosen: list[Participant]) -> Reservation | None:
        if self.ledger is None:
            return None
        epsilon, delta = self.predictor.epsilon, self.predictor.delta
        cost = Cost.claimed(LOCAL, epsilon, delta, Adjacency.REPLACE_ONE, Unit.CLIENT)
        charge = Charge(cost, Clients(map(str, chosen)))
        return self.ledger.reserve(self._next_key, [charge], population=self.budget)

    @property
    def _next_key(self) -> str:
        return round_key(self.name, self.rounds + 1)

    def _fail(self, reservation: Reservation | None, error: Exception) -> None:
        """Close a round without reports; its number is used up, and remembered as such."""
        if self.ledger is not None and reservation is not None:
            why = str(error) if isinstance(error, CheckFailed) else type(error).__name__
            self.ledger.fail(reservation, why)
            self._version = self.ledger.keep_state(self._state()).version

    def _settle(self, reservation: Reservation | None, report: PredictorReport) -> None:
        if self.ledger is not None and reservation is not None:
            self.ledger.settle(reservation, report.to_dict(), states=[self._state()])
            self._version += 1

    def _state(self) -> State:
        value = {
            "rounds": self.rounds,
            "taken": self.taken,
            "learnt": self.predictor.state(),
        }
        return State(f"predictor/{self.name}", value, self._version)

    def _restore(self, ledger: Ledger) -> None:
        """Go on where the ledger's last settled round ended; a round that broke off is skipped."""
        state = ledger.state(f"predictor/{self.name}")
        if state is not None:
            self._version = state.version
            self.rounds, self.taken = int(state.value["rounds"]), int(state.value["taken"])
            self.predictor.restore(state.value["learnt"])
        while ledger.check(self._next_key, population=self.budget) is not None:
            self.rounds += 1

    # ------------------------------------------------------------ Flower's Strategy interface

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
        """Run one round of the predictor a round.

        Returns
        -------
        Result
            With ``predictor.*`` metrics of each round under ``evaluate_metrics_clientapp``. A round
            that failed has ``predictor.failed = 1``, and does not stop the others.
        """
        if timeout is not None:
            self.timeout = timeout
        arrays = initial_arrays or ArrayRecord()
        return super().start(
            grid, arrays, num_rounds, self.timeout, train_config, evaluate_config, evaluate_fn
        )

    def configure_train(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        """Ask nobody: a predictor does not train."""
        return []

    def aggregate_train(
        self, server_round: int, replies: Iterable[Message]
    ) -> tuple[ArrayRecord | None, MetricRecord | None]:
        """Return nothing: a predictor does not train."""
        return None, None

    def configure_evaluate(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        """Run the whole round through the grid, then leave nothing for Flower to send."""
        self.reports.pop(server_round, None)
        try:
            self.reports[server_round] = self.ask(grid)
        except (CheckFailed, LedgerError) as error:
            logger.warning("predictor's round %s failed: %s", server_round, error)
        return []

    def aggregate_evaluate(
        self, server_round: int, replies: Iterable[Message]
    ) -> MetricRecord | None:
        """Return the round's ``predictor.*`` metrics."""
        report = self.reports.get(server_round)
        if report is None:
            return MetricRecord({"predictor.failed": 1})
        return MetricRecord({**predictor_metrics(report)})

    def summary(self) -> None:
        """Log what will be done."""
        names = ", ".join(self.predictor.hypotheses.names)
        logger.info("predictor over %s at epsilon %g a report", names, self.predictor.epsilon)


def predictor_metrics(report: PredictorReport) -> Mapping[str, float | int]:
    """Return a report's ``predictor.*`` metrics for Flower's Result."""
    return {
        **{f"predictor.weight.{name}": weight for name, weight in report.weights.items()},
        "predictor.log_odds": report.log_odds,
        "predictor.taken": report.taken,
        "predictor.asked": report.asked,
        "predictor.epsilon": report.epsilon,
    }
