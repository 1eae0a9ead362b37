"""The strategy: one private drift check a round."""

from __future__ import annotations

import logging
import math
from collections.abc import Mapping
from dataclasses import replace

from flwr.app import MetricRecord
from flwr.serverapp import Grid

from flwr_kld.accounting import Charge, Kind, Ledger
from flwr_kld.accounting.budget import Spent
from flwr_kld.arguments import real, whole
from flwr_kld.check.decider import Alarm, Decided, Decider
from flwr_kld.check.report_parts import (
    compared,
    epsilon_delivered,
    metrics,
    protection,
    read,
)
from flwr_kld.cohort.charges import charges, delivered
from flwr_kld.cohort.cohort import Cohort, Participant
from flwr_kld.cohort.halves import Part, halves
from flwr_kld.counts.private_counts import LARGEST_CLIENT
from flwr_kld.inference.contradictions import impossible_estimate
from flwr_kld.inference.decision import contradicted, hold_to_estimates
from flwr_kld.inference.estimators.registry import ESTIMATORS, Estimator
from flwr_kld.inference.estimators.score import check_theta, check_threshold
from flwr_kld.inference.recent_checks import RecentChecks
from flwr_kld.privacy.bits import SeededBits, SystemBits
from flwr_kld.query.partition import Partition
from flwr_kld.query.plan import Plan, QueryPlan
from flwr_kld.query.selection import EVERYTHING
from flwr_kld.reference import Reference
from flwr_kld.report.explanation.candidates import require_candidates
from flwr_kld.report.report import Reading, Report
from flwr_kld.strategies.aggregation import Aggregation, fitting
from flwr_kld.strategies.exchange import by_reason
from flwr_kld.strategies.monitor import Monitor
from flwr_kld.strategies.population import Population
from flwr_kld.strategies.publisher import Publisher
from flwr_kld.strategies.round import Opening, Settled
from flwr_kld.trust import Trust
from flwr_kld.trust.trust_model import require_counts, require_known_sizes

logger = logging.getLogger("flwr_kld")


class KLDrift(Monitor[tuple[list[Part], QueryPlan], Report]):
    """Estimate KL(reference || clients) privately, once a round.

    Parameters
    ----------
    reference : Reference
        The public Π.
    trust : Trust
        Trust model and privacy guarantee of each check: `Trusted`, `TrustedAggregator`, or
        `Distributed`, which needs `SecureSum`.
    aggregation : Aggregation
        How counts become a sum: `PlainSum` (default), or `SecureSum`, under which the server never
        sees a client's counts. With `TrustedAggregator`, always `SealedSum`.
    plan : Plan
        What to ask; by default a partition into 1,000 cells.
    cohort : Cohort
        Whom to ask; by default everybody connected.
    population : Population
        Who there is; by default each Flower node is a client.
    estimator : str or Estimator
        A name in ``flwr_kld.inference.estimators.ESTIMATORS``, or an estimator with options of
        its own, such as ``functools.partial(paper, lam=0.1)``.
    theta : float
        θ of D_θ, in [0, 1); 0 is plain KL, which is finite only where every symbol of Π was seen.
    most_records : int, optional
        Records that one client may count when it is asked, a public number; by default any. A
        client with more counts a uniform sample of them. `PlainSum` and `SealedSum` leave out a
        client that reports more; under `SecureSum` only the total shows it. Needs replace-one
        adjacency: where presence is hidden, whoever reaches the limit would show it.
    min_clients : int
        With fewer clients in the sum, the check fails and nothing is released. At least 1.
    timeout : float
        Seconds to wait for replies.
    threshold : float, optional
        Nats of D_θ that are tolerated. With it each check decides: its cohort is split in two
        disjoint halves, which are asked different things, so that it costs the same.
    outside : float, optional
        Share of the records, in [0, 1), that may lie where the reference has no mass ('other',
        'missing', never seen) before a check says drift; D_θ does not see them. By default
        ``1 - e^-threshold``: a larger one has a KL divergence above the threshold by itself.
    alarm : Alarm, optional
        How checks decide; `Alarm()` by default, and only with a threshold.
    candidates : Mapping[str, Reference], optional
        Named distributions that clients might have drifted to: reports weigh them.
    ledger : Ledger or str, optional
        Budgets and history, or its database's URL. With it a check is reserved before the first
        message, settled after the last, and refused where the budget is short.
    budget : str
        Name of the population whose budget is charged.
    seed : int, optional
        Simulations only: makes cohorts and plans reproducible, and under `Trusted` the *noise*;
        reports then say ``private: false``. Noise of clients or an aggregator is never seeded.

    Raises
    ------
    ValueError
        If an argument is out of range, before anything is asked.
    """

    kind = "kld"
    entry = Kind.CHECK
    asks = "drift check"

    def __init__(
        self,
        reference: Reference,
        trust: Trust,
        *,
        aggregation: Aggregation | None = None,
        plan: Plan | None = None,
        cohort: Cohort | None = None,
        population: Population | None = None,
        estimator: str | Estimator = "posterior_counts",
        theta: float = 0.01,
        most_records: int | None = None,
        min_clients: int = 2,
        timeout: float = 600.0,
        threshold: float | None = None,
        outside: float | None = None,
        alarm: Alarm | None = None,
        candidates: Mapping[str, Reference] | None = None,
        ledger: Ledger | str | None = None,
        budget: str = "default",
        seed: int | None = None,
    ) -> None:
        if not isinstance(reference, Reference):
            raise ValueError(
                f"KLDrift needs a Reference to compare clients with, got a "
                f"{type(reference).__name__}: make one, say Reference.from_counts(domain, counts)"
            )
        if seed is not None:
            seed = whole("seed", seed, least=0)
        aggregation = fitting(trust, aggregation)
        if not callable(estimator) and estimator not in ESTIMATORS:
            raise ValueError(f"unknown estimator {estimator!r}: choose from {sorted(ESTIMATORS)}")
        theta = check_theta(theta)
        if threshold is None and alarm is not None:
            raise ValueError("an alarm needs a threshold: the nats that are tolerated")
        if threshold is None and outside is not None:
            raise ValueError("outside needs a threshold: without one nothing is decided")
        if threshold is not None:
            threshold = check_threshold(threshold)
            require_counts(trust)
            usual = -math.expm1(-threshold)
            outside = usual if outside is None else real("outside", outside, least=0, below=1)
        if most_records is not None:
            most_records = whole("most_records", most_records, least=1, most=LARGEST_CLIENT)
            require_known_sizes(trust)
        if candidates is not None:
            require_candidates(candidates, reference)
        super().__init__(
            cohort=cohort,
            population=population,
            min_clients=min_clients,
            timeout=timeout,
            ledger=ledger,
            budget=budget,
            seed=seed,
        )
        self.candidates = candidates
        self.threshold = threshold
        self.outside = outside
        self.alarm = alarm or Alarm()
        self.reference = reference
        self.trust = trust
        self.aggregation = aggregation
        self.plan = plan or Partition()
        self.estimator = estimator
        self.theta = theta
        self.most_records = most_records
        self.checks = 0
        """Number of checks that clients were asked for; messages carry it as their group id."""
        self.counted = Part([], EVERYTHING)
        """Clients and records that the last check's estimate is about."""
        bits = SystemBits() if seed is None else SeededBits(seed)
        self._decider = (
            None
            if threshold is None or outside is None
            else Decider(threshold, outside, self.alarm, theta, reference)
        )
        least = max(self.min_clients, trust.least_clients)
        self._publisher = Publisher(trust, aggregation, least, bits, most_records or 0)

    def check(self, grid: Grid, key: str | None = None) -> Report:
        """Run one check now.

        Parameters
        ----------
        key : str, optional
            Idempotency key of a scheduled check, say its date: with a ledger it runs once.

        Raises
        ------
        ValueError
            If the trust model's release does not serve the plan; nothing was asked.
        CheckFailed
            If too few clients are there or reply, or they hold no records. Nothing is released;
            but what the ledger reserved is spent, and a client's guard counts every check that it
            answered.
        LedgerError
            If the ledger does not let the check start: the budget is short, or the key has run.
            Nothing was asked.
        """
        return self._run(grid, key)

    @property
    def _least(self) -> int:
        return self._publisher.least

    def _present(self, grid: Grid) -> list[Participant]:
        return self.aggregation.clients(super()._present(grid), grid, self.timeout)

    def _recall(self, ledger: Ledger, present: list[Participant]) -> None:
        super()._recall(ledger, present)
        if self._decider is not None:
            self._decider.recall(ledger, self.budget)

    def _draw(
        self, chosen: list[Participant], present: list[Participant]
    ) -> tuple[list[Part], QueryPlan]:
        parts = self._parts(chosen)
        plan = self.plan.draw(self.reference, self._generator)
        self.trust.prepare(plan, len(present))
        self.checks += 1
        return parts, plan

    def _charges(self, asked: tuple[list[Part], QueryPlan]) -> list[Charge]:
        return charges(self.trust, asked[0])

    def _ask(
        self,
        grid: Grid,
        opening: Opening,
        asked: tuple[list[Part], QueryPlan],
        spent: Spent | None,
    ) -> Settled[Report]:
        parts, plan = asked
        measured = self._publisher.measure(
            grid, parts, plan,
            check=opening.check, group=str(self.checks), timeout=self.timeout,
            theta=self.theta, threshold=self.threshold or 0.0, outside=self.outside or 0.0,
            recent=self._decider.recent if self._decider else RecentChecks(),
        )  # fmt: skip
        self.counted = measured.counted
        contradiction = measured.contradiction(self.most_records or 0)
        decided = (
            Decided(None)
            if self._decider is None
            else self._decider.decide(measured, self.budget, contradiction)
        )
        reading = read(
            measured.published,
            estimator=self.estimator,
            theta=self.theta,
            candidates=self.candidates,
            design_effect=decided.design_effect,
        )
        decided, note = self._doubt(decided, reading, contradiction)
        drawn_from, counted = measured.estimated(self.trust.most_records or self.most_records or 0)
        published = measured.published
        down, up = measured.traffic
        report = Report(
            check=opening.check,
            key=opening.key,
            started=opening.started,
            reading=replace(reading, note=note, drawn_from=drawn_from, counted=counted),
            guarantee=self.trust.guarantee,
            protection=protection(
                published,
                self.trust,
                self.aggregation.name,
                hides_parts=self.aggregation.hides_parts,
            ),
            cohort=self._seen(measured.asked, measured.survivors, by_reason(measured.left_out)),
            compared=compared(published.plan),
            cost=self._cost(
                opening,
                spent,
                epsilon=max(map(epsilon_delivered, measured.events)),
                bytes_down=down,
                bytes_up=up,
            ),
            verdict=decided.verdict,
        )
        costs = delivered(self.trust, parts, measured.summed)
        return Settled(report, report, decided.states, costs)

    def _doubt(
        self, decided: Decided, reading: Reading, contradiction: str | None
    ) -> tuple[Decided, str | None]:
        """Hold the verdict against the estimate; return it with what a reader must know."""
        estimate, note = reading.estimate, reading.note
        if contradiction is None:
            contradiction = impossible_estimate(estimate, reading.privacy, reading.theta)
        verdict = decided.verdict
        if contradiction is not None:
            note = f"the published numbers contradict each other: {contradiction}"
            if verdict is not None:
                verdict = contradicted(verdict.threshold, verdict.level, contradiction)
            return replace(decided, verdict=verdict, states=()), note
        if verdict is None:
            return decided, note
        excluded = verdict.threshold + self.alarm.resolution
        held = hold_to_estimates(verdict, estimate, excluded, reading.outside)
        return replace(decided, verdict=held), note if held is verdict else held.reason

    def _parts(self, chosen: list[Participant]) -> list[Part]:
        """Whom each exchange of a check asks."""
        selection = self.cohort.select()
        if self.threshold is None:
            return [Part(chosen, selection)]
        least, unit = self._publisher.least, self.trust.guarantee.unit
        return list(halves(chosen, selection, least, unit, self._generator))

    def ask(self, grid: Grid) -> Report:
        """Run one check now, under no key."""
        return self.check(grid)

    def metrics(self, report: Report) -> MetricRecord:
        """Return a report's ``kld.*`` metrics."""
        return MetricRecord(metrics(report))

    def summary(self) -> None:
        """Log what will be done."""
        logger.info(
            "drift checks against reference %s: %s, %s",
            self.reference.fingerprint[:12],
            self.trust,
            self.plan,
        )
