"""The strategy that learns, from one privatised label a client, which candidate clients follow."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from flwr.app import MetricRecord
from flwr.serverapp import Grid

from flwr_kld.accounting import Charge, Clients, Cost, Kind
from flwr_kld.accounting.budget import Spent
from flwr_kld.accounting.entry import Remembered
from flwr_kld.codec.model import Model, NotNegative
from flwr_kld.cohort.cohort import Cohort, Participant, require_clients
from flwr_kld.kernel.arguments import instance, text
from flwr_kld.predictors.bayes_mixture import BayesMixture
from flwr_kld.predictors.laws import Floats
from flwr_kld.report.predictor_report import LOCAL, Learnt, PredictorReport, round_key
from flwr_kld.strategies.monitor import Monitor
from flwr_kld.strategies.population import Population
from flwr_kld.strategies.predictor_exchange import PredictorExchange
from flwr_kld.strategies.round import Opening, Settled

if TYPE_CHECKING:
    from flwr_kld.accounting import Ledger
    from flwr_kld.accounting.life import Reservation

logger = logging.getLogger("flwr_kld")

_REMEMBERED = 64
"""Rounds that are kept apart; older ones are folded into the weights, so that state stays small."""


@dataclass(frozen=True)
class _Kept(Model, what="the predictor's state in the ledger"):
    rounds: NotNegative
    taken: NotNegative
    learnt: dict[str, Any]


class PrivatePredictor(Monitor[list[Participant], PredictorReport]):
    """Ask a cohort for one locally private report each, once a round, and learn from them.

    Parameters
    ----------
    predictor : BayesMixture
        Hypotheses, what a report costs, and what was learnt.
    cohort : Cohort
        Whom to ask; by default everybody connected. Each report costs its client ε: with a
        `RotatingCohort` a client pays once in a turn.
    population : Population
        Says which clients there are.
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
    entry = Kind.ROUND
    asks = "predictor's round"

    def __init__(
        self,
        predictor: BayesMixture,
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
        form = "BayesMixture(Hypotheses({…}), epsilon=1.0)"
        instance("predictor", predictor, BayesMixture, form)
        name = text("name", name)  # it is known by it in the ledger
        super().__init__(
            cohort=cohort,
            population=population,
            min_clients=min_clients,
            timeout=timeout,
            ledger=ledger,
            budget=budget,
        )
        first = predictor.query_of(0, "", context)
        predictor.query(first, context)  # built now: a context without laws fails here
        self.predictor = predictor
        self.context = context
        self.name = name
        self.rounds = self.taken = 0
        """Rounds asked, and reports taken, over all runs."""
        self._version = 0
        if self.ledger is not None:
            self._restore(self.ledger)

    def check(self, grid: Grid) -> PredictorReport:
        """Run one round now.

        Raises
        ------
        CheckFailed
            If too few clients are there or report.
        LedgerError
            If the ledger does not let the round start. Nothing was asked.
        """
        report = self._run(grid, self._next_key)
        if self.ledger is not None:
            self._version += 1
        return report

    def _draw(self, chosen: list[Participant], present: list[Participant]) -> list[Participant]:
        return chosen

    def _charges(self, asked: list[Participant]) -> list[Charge]:
        cost = Cost.claimed(LOCAL, self.predictor.guarantee)
        return [Charge(cost, Clients(map(str, asked)))]

    def _ask(
        self, grid: Grid, opening: Opening, asked: list[Participant], spent: Spent | None
    ) -> Settled[PredictorReport]:
        self.rounds += 1
        domain = self.predictor.hypotheses.domain.fingerprint
        exchange = PredictorExchange(self.predictor, self.rounds, self.context, domain)
        exchange.run(grid, asked, self.timeout)
        require_clients(len(exchange.intake), self.min_clients, "reported", dict(exchange.left_out))
        for batch in exchange.intake.batches():
            self.predictor.update(batch)
        self.predictor.settle(self.rounds - _REMEMBERED)
        self.taken += len(exchange.intake)
        report = self._report(opening, len(asked), exchange, spent)
        return Settled(report, report, [self._state()])

    def _report(
        self, opening: Opening, asked: int, exchange: PredictorExchange, spent: Spent | None
    ) -> PredictorReport:
        predictor, leader, taken = self.predictor, self.predictor.leader, len(exchange.intake)
        bound = predictor.risk_bound(self.rounds, taken, self.context)
        return PredictorReport(
            name=self.name,
            round=self.rounds,
            started=opening.started,
            reading=Learnt(
                weights=self._named(predictor.weights),
                mixture=self._named(predictor.mixture),
                leader=leader.name,
                log_odds=leader.log_odds,
                swing=leader.swing,
                outlasts=leader.outlasts,
                risk_bound=None if bound is None else float(bound[leader.index]),
                reports=self.taken,
                refuted=predictor.refuted,
            ),
            guarantee=predictor.guarantee,
            cohort=self._seen(asked, taken, exchange.left_out),
            cost=self._cost(opening, spent, epsilon=predictor.epsilon),
        )

    def _named(self, values: Floats) -> dict[str, float]:
        """Return values [K] by the candidates' names."""
        return dict(zip(self.predictor.hypotheses.names, values.tolist(), strict=True))

    # ------------------------------------------------------------------------ the ledger's part

    @property
    def _next_key(self) -> str:
        return round_key(self.name, self.rounds + 1)

    def _fail(self, reservation: Reservation | None, error: Exception) -> None:
        """Close a round without reports; its number is used up, and remembered as such."""
        super()._fail(reservation, error)
        if self.ledger is not None:
            self._version = self.ledger.keep_state(self._state()).version

    def _state(self) -> Remembered:
        kept = _Kept(self.rounds, self.taken, self.predictor.state())
        return Remembered(f"predictor/{self.name}", vars(kept), self._version)

    def _restore(self, ledger: Ledger) -> None:
        """Go on where the ledger's last settled round ended; a round that broke off is skipped."""
        state = ledger.state(f"predictor/{self.name}")
        if state is not None:
            self._version = state.version
            kept = _Kept.from_file(state.value)
            self.rounds, self.taken = kept.rounds, kept.taken
            self.predictor.restore(kept.learnt)
        while (entry := ledger.check(self._next_key, population=self.budget)) and not entry.refused:
            self.rounds += 1

    def metrics(self, report: PredictorReport) -> MetricRecord:
        """Return a report's ``predictor.*`` metrics."""
        weights = {f"predictor.weight.{name}": w for name, w in report.reading.weights.items()}
        return MetricRecord(
            {
                **weights,
                "predictor.log_odds": report.reading.log_odds,
                "predictor.taken": report.cohort.survivors,
                "predictor.asked": report.cohort.asked,
                "predictor.epsilon": report.guarantee.epsilon,
            }
        )

    def summary(self) -> None:
        """Log what will be done."""
        names = ", ".join(self.predictor.hypotheses.names)
        logger.info("predictor over %s at epsilon %g a report", names, self.predictor.epsilon)
