"""The strategy that learns, from one label a client, which candidate clients follow."""

from __future__ import annotations

import hashlib
import logging
import math
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, cast

from flwr.app import ConfigRecord, MetricRecord, RecordDict
from flwr.serverapp import Grid

from flwr_kld.accounting import Charge, Clients, Cost, Kind
from flwr_kld.accounting.budget import Spent
from flwr_kld.accounting.entry import Remembered
from flwr_kld.check.report_parts import epsilon_delivered
from flwr_kld.codec.model import Model, NotNegative
from flwr_kld.cohort.charges import charges, delivered
from flwr_kld.cohort.cohort import Cohort, Participant, require_clients
from flwr_kld.cohort.halves import Part
from flwr_kld.errors import CheckFailed
from flwr_kld.inference.contradictions import contradiction
from flwr_kld.kernel.arguments import instance, text
from flwr_kld.kernel.law import SystemBits
from flwr_kld.kernel.promise import Guarantee
from flwr_kld.messages.envelopes import (
    MEMBERS,
    PREDICT_ACTION,
    QUERY,
    REPORT,
    TERMS,
    Members,
)
from flwr_kld.messages.terms import Terms
from flwr_kld.predictors.bayes_mixture import BayesMixture, Intake, Rejection
from flwr_kld.predictors.counts_mixture import CountsMixture
from flwr_kld.predictors.hypotheses import Hypotheses
from flwr_kld.predictors.laws import Floats
from flwr_kld.query.noisy import NoisyCounts
from flwr_kld.query.plan import each_symbol
from flwr_kld.query.selection import EVERYTHING
from flwr_kld.report.envelope import CohortSeen, Outlay
from flwr_kld.report.predictor_report import LOCAL, Learnt, PredictorReport, round_key
from flwr_kld.strategies.aggregation import Aggregation, fitting
from flwr_kld.strategies.cohort_replies import CohortReplies
from flwr_kld.strategies.exchange import Asking, by_reason
from flwr_kld.strategies.population import Population
from flwr_kld.strategies.publisher import Publisher
from flwr_kld.strategies.round import Monitor, Opening, Settled
from flwr_kld.trust import Trust
from flwr_kld.trust.trust_model import require_known_sizes, require_trust

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


class _Came(NamedTuple):
    """What came of a round."""

    taken: int  # Reports
    answered: int  # Clients
    left_out: Mapping[Participant, str]
    epsilon: float  # As it was delivered
    traffic: tuple[float, float]  # Bytes to and from a client


class PrivatePredictor(Monitor[Part, PredictorReport]):
    """Ask a cohort for one label each, once a round, and learn from them.

    By default each label is made private on its client, and no trust in anybody is required. With
    `trust`, one label of each client is counted, in one noised histogram of all: a small fraction
    of the reports then tells as much, and clients answer as they answer drift checks.

    Parameters
    ----------
    predictor : BayesMixture or Hypotheses
        Hypotheses, what a report costs, and what was learnt; with `trust`, the hypotheses alone.
    trust : Trust, optional
        Who adds the noise to the histogram, and how much: record-level, replace-one.
    aggregation : Aggregation, optional
        As in `KLDrift`; only with `trust`.
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
    """

    kind = "predictor"
    entry = Kind.ROUND
    asks = "predictor's round"

    def __init__(
        self,
        predictor: BayesMixture | Hypotheses,
        *,
        trust: Trust | None = None,
        aggregation: Aggregation | None = None,
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
        self.predictor = _learner(predictor, trust, aggregation, context)
        name = text("name", name)  # it is known by it in the ledger
        super().__init__(
            cohort=cohort,
            population=population,
            min_clients=min_clients,
            timeout=timeout,
            ledger=ledger,
            budget=budget,
        )
        self.trust = trust
        self._publisher: Publisher | None = None
        if trust is not None:
            least = max(self.min_clients, trust.min_clients)
            sums = fitting(trust, aggregation)
            self._publisher = Publisher(trust, sums, least, SystemBits(), most_records=1)
        self.context = context
        self.name = name
        self.rounds = self.taken = 0
        """Rounds asked, and reports taken, over all runs."""
        self._version = 0
        if self.ledger is not None:
            self._restore(self.ledger)

    def check(self, grid: Grid) -> PredictorReport:
        """Run one round now.

        Raises `CheckFailed` if too few clients are there or report; `LedgerError` if the ledger
        does not let the round start. Nothing was asked.
        """
        report = self._run(grid, self._next_key)
        if self.ledger is not None:
            self._version += 1
        return report

    @property
    def _least(self) -> int:
        return self.min_clients if self._publisher is None else self._publisher.least

    def _present(self, grid: Grid) -> list[Participant]:
        present = super()._present(grid)
        if self._publisher is None:
            return present
        return self._publisher.aggregation.clients(present, grid, self.timeout)

    def _prepare(self, grid: Grid, chosen: list[Participant]) -> None:
        if (counting := self._publisher) is not None:
            keys = counting.trust.aggregator_keys
            counting.aggregation.prepare(chosen, grid, self.timeout, self._least, keys)

    def _draw(self, chosen: list[Participant], present: list[Participant]) -> Part:
        select = EVERYTHING if self._publisher is None else self.cohort.select()
        return Part(chosen, select, "record")

    def _charges(self, asked: Part) -> list[Charge]:
        if self._publisher is not None:
            return charges(self._publisher.trust, [asked])
        cost = Cost.claimed(LOCAL, self._guarantee)
        return [Charge(cost, Clients(map(str, asked.participants)))]

    def _ask(
        self, grid: Grid, opening: Opening, asked: Part, spent: Spent | None
    ) -> Settled[PredictorReport]:
        self.rounds += 1
        counting, chosen = self._publisher, asked.participants
        if counting is None:
            came = self._ask_for_labels(grid, opening, chosen)
        else:
            came = self._ask_for_counts(counting, grid, opening, asked)
        self.predictor.settle(self.rounds - _REMEMBERED)
        self.taken += came.taken
        report = self._report(
            opening,
            self._seen(len(chosen), came.answered, by_reason(came.left_out)),
            self._cost(opening, spent, epsilon=came.epsilon, traffic=came.traffic),
        )
        costs = None if counting is None else delivered(counting.trust, [asked], [came.answered])
        return Settled(report, report, [self._state()], costs)

    def _ask_for_labels(self, grid: Grid, opening: Opening, chosen: list[Participant]) -> _Came:
        predictor = cast(BayesMixture, self.predictor)
        exchange = LabelExchange(
            grid=grid,
            chosen=chosen,
            check=opening.check,
            group=str(self.rounds),
            timeout=self.timeout,
            predictor=predictor,
            number=self.rounds,
            context=self.context,
        )
        cohort, intake = CohortReplies(exchange), Intake(predictor, self.rounds, self.context)
        _taken(cohort, intake)
        left_out, taken = cohort.left_out, len(intake)
        require_clients(taken, self.min_clients, "reported", by_reason(left_out))
        predictor.update(intake.reports())
        return _Came(taken, taken, left_out, predictor.epsilon, cohort.traffic)

    def _ask_for_counts(
        self, counting: Publisher, grid: Grid, opening: Opening, asked: Part
    ) -> _Came:
        predictor = cast(CountsMixture, self.predictor)
        published = counting.publish(
            grid,
            asked.participants,
            each_symbol(predictor.hypotheses.domain).over(asked.selection),
            check=opening.check,
            group=str(self.rounds),
            timeout=self.timeout,
        )
        counts = cast(NoisyCounts, published.values)
        why = contradiction(counts, published.survivors, published.most_records)
        if why is not None:
            raise CheckFailed(f"the published numbers contradict each other: {why}")
        held = published.holds_to_limits
        predictor.update(self.rounds, counts, self.context, held=held)
        taken, epsilon = int(counts.records), epsilon_delivered(counts.event)
        return _Came(taken, published.survivors, published.left_out, epsilon, published.traffic)

    @property
    def _guarantee(self) -> Guarantee:
        if self._publisher is not None:
            return self._publisher.trust.guarantee
        return cast(BayesMixture, self.predictor).guarantee

    def _report(self, opening: Opening, cohort: CohortSeen, cost: Outlay) -> PredictorReport:
        predictor, leader = self.predictor, self.predictor.leader
        return PredictorReport(
            name=self.name,
            round=self.rounds,
            started=opening.started,
            reading=Learnt(
                weights=self._named(predictor.weights),
                mixture=self._named(predictor.mixture),
                leader=leader.name,
                log_odds=leader.log_odds,
                swing=leader.swing if math.isfinite(leader.swing) else None,
                outlasts=leader.outlasts,
                reports=self.taken,
                refuted=predictor.refuted,
            ),
            guarantee=self._guarantee,
            cohort=cohort,
            cost=cost,
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
        logger.info("predictor over %s at epsilon %g a report", names, self._guarantee.epsilon)


def _learner(
    told: Any, trust: Trust | None, aggregation: Aggregation | None, context: str
) -> BayesMixture | CountsMixture:
    """Return what learns; a context without laws fails here."""
    if trust is None:
        form = "BayesMixture(Hypotheses({…}), epsilon=1.0), or Hypotheses({…}) with trust="
        predictor: BayesMixture = instance("predictor", told, BayesMixture, form)
        if aggregation is not None:
            raise ValueError("aggregation= needs trust=: reports that are private are not summed")
        predictor.query(predictor.query_of(0, "", context), context)
        return predictor
    form = "Hypotheses({…}): with trust=, the trust model says what a report costs"
    hypotheses: Hypotheses = instance("predictor", told, Hypotheses, form)
    require_trust(trust)
    if trust.nights > 1:
        raise ValueError("a predictor asks anew: give the trust model without Standing")
    require_known_sizes(trust)  # of each client, one record is counted
    hypotheses.at(context)
    return CountsMixture(hypotheses)


@dataclass(frozen=True, kw_only=True)
class LabelExchange(Asking):
    """A question for one privatised label of each client."""

    action: ClassVar[str] = PREDICT_ACTION
    predictor: BayesMixture
    number: int  # Of the round
    context: str

    @cached_property
    def terms(self) -> Terms:
        """What all clients are told."""
        hypotheses = self.predictor.hypotheses
        names = "\n".join(hypotheses.names)
        return Terms(
            check=self.check,
            domain=hypotheses.domain.fingerprint,
            reference=hashlib.sha256(names.encode()).hexdigest(),
            plan="predictor",
            cells=[1],
            wire=b"\0",  # of no cells; Flower counts no empty bytes
            trust=LOCAL,
            guarantee=self.predictor.guarantee,
            asked=len(self.chosen),
        )

    def content(self, members: Sequence[Participant]) -> RecordDict:
        """Return one node's question, each member's query by number, and those queries."""
        which = {
            str(p.member): self.predictor.query_of(self.number, str(p), self.context)
            for p in members
        }
        queries = {
            f"{QUERY}.{number}": ConfigRecord(
                {**self.predictor.query(number, self.context).to_config()}
            )
            for number in set(which.values())
        }
        return RecordDict(
            {
                TERMS: ConfigRecord(self.terms.to_config()),
                MEMBERS: ConfigRecord(Members([p.member for p in members]).to_config()),
                QUERY: ConfigRecord({**which}),
                **queries,
            }
        )


def _taken(cohort: CohortReplies, intake: Intake) -> None:
    """Ask, wait, and take every sound report."""
    for participants, reports in cohort.read():
        for participant, report in zip(participants, reports.into(list), strict=True):
            rejected: Rejection | None = Rejection.IMPOSSIBLE
            if len(report) == struct.calcsize(REPORT):
                rejected = intake.take(str(participant), *struct.unpack(REPORT, report))
            if rejected is not None:
                cohort.refuse(participant, str(rejected))
