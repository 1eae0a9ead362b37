"""The strategy that learns, from one label a client, which candidate clients follow."""

from __future__ import annotations

import logging
import struct
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

from flwr.app import ConfigRecord, MetricRecord, RecordDict
from flwr.serverapp import Grid

from flwr_kld.ask.cohort import Cohort, Participant, require_clients
from flwr_kld.common.guesses import suggests
from flwr_kld.common.strict_model import Model, NonNegative
from flwr_kld.kernel.arguments import instance, text
from flwr_kld.ledger import Charge, Cost, Kind
from flwr_kld.ledger.entry import Remembered
from flwr_kld.predictors.bayes_mixture import BayesMixture, Intake, Rejection
from flwr_kld.predictors.laws import Floats
from flwr_kld.report.predictor_report import LOCAL, Learnt, PredictorReport, round_key
from flwr_kld.strategies.cohort_replies import CohortReplies
from flwr_kld.strategies.cohort_strategy import CohortStrategy
from flwr_kld.strategies.exchange import Exchange, by_reason, last_moment
from flwr_kld.strategies.monitor import Monitor
from flwr_kld.strategies.population import Population
from flwr_kld.trust.envelopes import (
    MEMBERS,
    PREDICT_ACTION,
    QUERY,
    REPORT,
    TERMS,
    Members,
)
from flwr_kld.trust.terms import ChannelNoise, Terms

if TYPE_CHECKING:
    from flwr_kld.ledger import Ledger

logger = logging.getLogger("flwr.kld")

_REMEMBERED = 64
"""Rounds that are kept apart; older ones are folded into the weights, so that state stays small."""


@dataclass(frozen=True)
class _Kept(Model, what="the predictor's state in the ledger"):
    rounds: NonNegative
    taken: NonNegative
    learnt: dict[str, Any]


@suggests(
    {"check": "ask(grid)", "predict": "ask(grid).reading"},
    {"epsilon": "PrivatePredictor(BayesMixture(Hypotheses({…}), epsilon=…))"},
)
class PrivatePredictor(CohortStrategy, Monitor):
    """Ask a cohort for one label each, once a round, and learn from them.

    Each label is made private on its client, and no trust in anybody is required.

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
        Public context of the labels that are asked for, where hypotheses depend on one; an
        attribute, which may be changed between rounds. It travels with the question: a client's
        loader finds it as ``context.run_config["drift-context"]``.
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
        instance("context", context, str, "the name of a context that hypotheses depend on")
        form = "BayesMixture(Hypotheses({…}), epsilon=1.0)"
        self.predictor: BayesMixture = instance("predictor", predictor, BayesMixture, form)
        predictor.query(predictor.query_of(0, "", context), context)  # one without laws fails here
        name = text("name", name)  # it is known by it in the ledger
        super().__init__(
            cohort=cohort,
            population=population,
            min_clients=min_clients,
            timeout=timeout,
            ledger=ledger,
            budget=budget,
        )
        self.context = context
        self.name = name
        self.rounds = self.taken = 0
        """Rounds asked, and reports taken, over all runs."""
        self.reports: dict[int, PredictorReport] = {}
        self._version = 0
        if self.ledger is not None:
            self._restore(self.ledger)

    def run_round(self, grid: Grid) -> PredictorReport:
        """Ask, as a round of `start`."""
        return self.ask(grid)

    def ask(self, grid: Grid) -> PredictorReport:
        """Ask a cohort now, and learn from its reports.

        Raises `CheckFailed` if too few clients are there or report; `LedgerError` if the ledger
        does not let the round start. Nothing was asked.
        """
        predictor = self.predictor
        with self._paid_round(self._next_key) as paid:
            chosen, _ = self._draw(grid)
            predictor.hypotheses.at(self.context)  # one without laws fails before it is paid for
            cost = Cost.claimed(LOCAL, predictor.guarantee)
            paid.reserve(Charge(cost, map(str, chosen)), on_failure=self._remember)
            self.rounds += 1
            cohort, intake = self._collect(grid, chosen, paid.check)
            left_out, taken = by_reason(cohort.left_out), len(intake)
            require_clients(taken, self.min_clients, "reported", left_out)
            predictor.update(intake.reports())
            predictor.settle(self.rounds - _REMEMBERED)
            self.taken += taken
            report = PredictorReport(
                name=self.name,
                round=self.rounds,
                started=paid.started,
                reading=self._learnt(),
                guarantee=predictor.guarantee,
                cohort=self._cohort_seen(len(chosen), taken, left_out),
                cost=paid.outlay(predictor.epsilon, cohort.traffic),
            )
            paid.settle(report, [self._state()])
        if self.ledger is not None:
            self._version += 1
        return report

    def _collect(
        self, grid: Grid, chosen: list[Participant], check: str
    ) -> tuple[CohortReplies, Intake]:
        """Ask, wait, and take every sound report."""
        exchange = LabelExchange(
            grid=grid,
            chosen=chosen,
            check=check,
            group=str(self.rounds),
            timeout=self.timeout,
            predictor=self.predictor,
            number=self.rounds,
            context=self.context,
        )
        cohort, intake = CohortReplies(exchange), Intake(self.predictor, self.rounds, self.context)
        for participants, reports in cohort.read():
            for participant, report in zip(participants, reports.into(list), strict=True):
                rejected: Rejection | None = Rejection.IMPOSSIBLE
                if len(report) == struct.calcsize(REPORT):
                    rejected = intake.take(str(participant), *struct.unpack(REPORT, report))
                if rejected is not None:
                    cohort.left_out[participant] = str(rejected)
        return cohort, intake

    def _learnt(self) -> Learnt:
        """Return what was learnt so far."""
        predictor, leader = self.predictor, self.predictor.leader
        return Learnt(
            weights=self._named(predictor.weights),
            mixture=self._named(predictor.mixture),
            leader=leader.name,
            log_odds=leader.log_odds,
            swing=leader.swing,
            outlasts=leader.outlasts,
            reports=self.taken,
            refuted=predictor.refuted,
        )

    def _named(self, values: Floats) -> dict[str, float]:
        """Return values [K] by the candidates' names."""
        return dict(zip(self.predictor.hypotheses.names, values.tolist(), strict=True))

    # ------------------------------------------------------------------------ the ledger's part

    @property
    def _next_key(self) -> str:
        return round_key(self.name, self.rounds + 1)

    def _remember(self) -> None:
        """Remember a round without reports: its number is used up."""
        if self.ledger is not None:
            self._version = self.ledger.store_state(self._state()).version

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


@dataclass(frozen=True, kw_only=True)
class LabelExchange(Exchange):
    """A question for one privatised label of each client."""

    action: ClassVar[str] = PREDICT_ACTION
    predictor: BayesMixture
    number: int  # Of the round
    context: str
    _queries: dict[int, ConfigRecord] = field(default_factory=dict, init=False)

    @cached_property
    def terms(self) -> Terms:
        """What all clients are told."""
        return Terms(
            check=self.check,
            domain=self.predictor.hypotheses.domain.fingerprint,
            plan="predictor",
            cells=[1],
            wire=b"\0",  # of no cells; Flower counts no empty bytes
            noise=ChannelNoise(),
            guarantee=self.predictor.guarantee,
            most_records=self.predictor.guarantee.most_records,
            asked=len(self.chosen),
            until=last_moment(self.timeout),
        )

    def content(self, members: Sequence[Participant]) -> RecordDict:
        """Return one node's question, each member's query by number, and those queries."""
        which = {
            str(p.member): self.predictor.query_of(self.number, str(p), self.context)
            for p in members
        }
        queries = {f"{QUERY}.{number}": self._query(number) for number in set(which.values())}
        return RecordDict(
            {
                TERMS: self._terms,
                MEMBERS: ConfigRecord(Members([p.member for p in members]).to_config()),
                QUERY: ConfigRecord({**which}),
                **queries,
            }
        )

    @cached_property
    def _terms(self) -> ConfigRecord:
        return ConfigRecord(self.terms.to_config())

    def _query(self, number: int) -> ConfigRecord:
        """Return a query that names the round's context: one for all who are asked it."""
        if number not in self._queries:
            query = replace(self.predictor.query(number, self.context), context=self.context)
            self._queries[number] = ConfigRecord({**query.to_config()})
        return self._queries[number]
