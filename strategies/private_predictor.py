"""The strategy that learns, from one privatised label a client, which candidate clients follow."""

from __future__ import annotations

import logging
import time
from datetime import UTC, datetime

import numpy as np
from flwr.app import MetricRecord
from flwr.serverapp import Grid

from flwr_kld.accounting import (
    Charge,
    Clients,
    Cost,
    Failure,
    Kind,
    Ledger,
    Reservation,
    State,
)
from flwr_kld.arguments import text
from flwr_kld.predictors import Predictor
from flwr_kld.predictors.laws import Floats
from flwr_kld.report import PredictorReport
from flwr_kld.report.predictor_report import LOCAL, round_key
from flwr_kld.strategies.asking import require
from flwr_kld.strategies.cohort import Cohort, Participant
from flwr_kld.strategies.monitor import Monitor
from flwr_kld.strategies.population import Population
from flwr_kld.strategies.predictor_round import PredictorRound
from flwr_kld.strategies.spending import budget_amounts

logger = logging.getLogger("flwr_kld")

_REMEMBERED = 64
"""Rounds that are kept apart; older ones are folded into the weights, so that state stays small."""


class PrivatePredictor(Monitor[PredictorReport]):
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

    kind = "predictor"
    asks = "predictor's round"

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
        name = text("name", name)  # it is known by it in the ledger
        super().__init__(
            cohort=cohort,
            population=population,
            min_clients=min_clients,
            timeout=timeout,
            ledger=ledger,
            budget=budget,
        )
        predictor.query(0, context)  # built now: a context without laws fails here
        self.predictor = predictor
        self.context = context
        self.name = name
        self.rounds = self.taken = 0
        """Rounds asked, and reports taken, over all runs."""
        self._generator = np.random.default_rng()
        self._version = 0
        if self.ledger is not None:
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
            **budget_amounts(None if self.ledger is None else self.ledger.spent(self.budget)),
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
        cost = Cost.claimed(LOCAL, self.predictor.guarantee)
        charge = Charge(cost, Clients(map(str, chosen)))
        return self.ledger.reserve(
            self._next_key, [charge], kind=Kind.ROUND, population=self.budget
        )

    @property
    def _next_key(self) -> str:
        return round_key(self.name, self.rounds + 1)

    def _fail(self, reservation: Reservation | None, error: Exception) -> None:
        """Close a round without reports; its number is used up, and remembered as such."""
        if self.ledger is not None and reservation is not None:
            self.ledger.fail(reservation, Failure.of(error))
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

    def metrics(self, report: PredictorReport) -> MetricRecord:
        """Return a report's ``predictor.*`` metrics."""
        weights = {f"predictor.weight.{name}": w for name, w in report.weights.items()}
        return MetricRecord(
            {
                **weights,
                "predictor.log_odds": report.log_odds,
                "predictor.taken": report.taken,
                "predictor.asked": report.asked,
                "predictor.epsilon": report.epsilon,
            }
        )

    def summary(self) -> None:
        """Log what will be done."""
        names = ", ".join(self.predictor.hypotheses.names)
        logger.info("predictor over %s at epsilon %g a report", names, self.predictor.epsilon)
