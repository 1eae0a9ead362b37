"""The strategy: one private drift check a round."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
from flwr.app import ArrayRecord, ConfigRecord, MetricRecord
from flwr.serverapp import Grid

from flwr_kld.ask.cohort import AskedClients, Cohort, Participant, draws
from flwr_kld.ask.partition import Partition
from flwr_kld.ask.period import Period, SinceLastCheck
from flwr_kld.common.guesses import suggests
from flwr_kld.infer.alarm import Alarm, require_each
from flwr_kld.infer.estimators.score import check_threshold
from flwr_kld.kernel.arguments import instance
from flwr_kld.ledger import Kind
from flwr_kld.planner.allotment import allot
from flwr_kld.reference import Reference
from flwr_kld.report.conclusions import Conclusions
from flwr_kld.report.entries import last_period
from flwr_kld.report.node_comparison import to_return
from flwr_kld.report.parts import compared, metrics
from flwr_kld.report.report import Report
from flwr_kld.strategies.aggregation import Aggregation, fitting
from flwr_kld.strategies.count_strategy import CountStrategy
from flwr_kld.strategies.exchange import first_replies
from flwr_kld.strategies.monitor import Monitor
from flwr_kld.strategies.population import Population
from flwr_kld.strategies.report_signer import signer_of
from flwr_kld.table.table import Table
from flwr_kld.trust import Trust
from flwr_kld.trust.envelopes import PUBLISHED_REPORT, REPORT_ACTION
from flwr_kld.trust.trust_model import require_trust

if TYPE_CHECKING:
    from flwr_kld.ledger import Ledger

logger = logging.getLogger("flwr.kld")


@suggests(
    {"run": "check(grid)", "start": "check(grid)"},
    {
        "delta": "trust=Trusted(epsilon=…, delta=…)",
        "epsilon": "trust=Trusted(epsilon=…, delta=…)",
        "on_drift": "act on the report that check(grid) returns",
    },
)
class KLDrift(CountStrategy, Monitor):
    """Estimate KL(reference || clients) privately, once a round.

    Parameters
    ----------
    reference : Reference
        The public Π; of a table, all its columns are checked together.
    trust : Trust
        Trust model and privacy guarantee of each check: `Trusted`, `TrustedAggregator`,
        `TwoAggregators`, or `Distributed`, which needs `SecureSum`.
    aggregation : Aggregation
        How counts become a sum: `PlainSum` (default), or `SecureSum`, under which the server never
        sees a client's counts. With aggregators, always `SealedSum` or `SplitSum`.
    cells : int
        Cells that each column is counted in, at least 16 and besides those outside the reference:
        heavy symbols have one each, light ones are sampled, the rest is in bins.
    cohort : Cohort
        Whom to ask; by default everybody connected.
    population : Population
        Who there is; by default each Flower node is a client.
    most_records : int, optional
        Records that one client may count when it is asked, a public number. A client with more
        counts a uniform sample of them. `PlainSum` and `SealedSum` leave out a client that reports
        more; under `SecureSum` only the total shows it. Where whole clients are protected,
        `WholeClients` has the limit. By default all records count, and the report says whether one
        client alone could have made a verdict.
    min_clients : int
        With fewer clients in the sum, the check fails and nothing is released. At least 1.
    timeout : float
        Seconds to wait for replies.
    threshold : float or Mapping[str, float], optional
        Nats of D_θ that are tolerated, less than the 4.6 that it can be: in each column of a table
        that has no threshold of its own (`Table`), or by column, whatever the table says. With it,
        or a table's own, each check decides, at the same cost.
    period : Period or SinceLastCheck, optional
        The records that are counted, by their time in a column: those of a period, or those since
        the period of the last check of this monitor or ledger. Where single
        records are protected, how many of them lie in the period is then estimated, not public. By
        default all records.
    alarm : Alarm, optional
        How checks decide; `Alarm()` by default, and only with a threshold.
    ledger : Ledger or str, optional
        Budgets and history, or its database's URL. With it a check is reserved before anybody is
        asked about records, settled after the last reply, and refused where the budget is short.
    budget : str
        Name of the population whose budget is charged.
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
        cells: int = 1000,
        cohort: Cohort | None = None,
        population: Population | None = None,
        most_records: int | None = None,
        min_clients: int = 2,
        timeout: float = 600.0,
        threshold: float | Mapping[str, float] | None = None,
        period: Period | SinceLastCheck | None = None,
        alarm: Alarm | None = None,
        ledger: Ledger | str | None = None,
        budget: str = "default",
    ) -> None:
        instance("reference", reference, Reference, "a Reference, such as Reference.from_csv(file)")
        require_trust(trust)
        aggregation = fitting(trust, aggregation)
        thresholds = _thresholds(reference, threshold)
        if thresholds is None and alarm is not None:
            raise ValueError("alarm= needs threshold=, the divergence in nats that is tolerated")
        plan = Partition(cells)
        alarm = alarm or Alarm()
        instance("alarm", alarm, Alarm, "an Alarm, such as Alarm(rate=0.05)")
        tolerated = None if thresholds is None else alarm.tolerated(thresholds)
        allowed = {name: nats + alarm.resolution for name, nats in (thresholds or {}).items()}
        usual = plan.draw(reference, np.random.default_rng(0))
        trust = trust.over(reference.domain.per_record)
        if period is not None:
            instance(
                "period", period, Period | SinceLastCheck, "a Period, or SinceLastCheck('visited')"
            )
            limited = most_records or trust.guarantee.most_records
            if trust.source == "two-aggregators" and not limited:
                raise ValueError(
                    "how many records a client has in a period is not public: TwoAggregators(…) "
                    "needs most_records=, at most which a client proves to count"
                )
        super().__init__(
            trust.over(allot(trust, usual, allowed, drawn=draws(cohort))),
            aggregation,
            most_records=most_records,
            cohort=cohort,
            population=population,
            min_clients=min_clients,
            timeout=timeout,
            ledger=ledger,
            budget=budget,
        )
        self._session.refuse(period=period)
        self.period = period
        self._last_period: Period | None = None
        self.tolerated = tolerated
        self.alarm = alarm
        self.reference = reference
        self.cells = plan.cells
        self.reports: dict[int, Report] = {}
        self.checks = 0
        """Number of checks that clients were asked for; messages carry it as their group id."""
        self.counted: list[Participant] = []
        """Clients that the last check counted."""
        self._conclusions = Conclusions(
            reference, tolerated, alarm,
            adds_up=isinstance(period, SinceLastCheck) and not draws(cohort),
        )  # fmt: skip

    def run_round(self, grid: Grid, model: ArrayRecord | None = None) -> Report:
        """Check, as a round of `start` or of another strategy."""
        return self.check(grid, model=model)

    def check(
        self, grid: Grid, key: str | None = None, *, model: ArrayRecord | None = None
    ) -> Report:
        """Run one check now.

        Parameters
        ----------
        key : str, optional
            Idempotency key of a scheduled check, say its date: with a ledger it runs once.
        model : ArrayRecord, optional
            What clients predict with, where columns are a model's predictions; not in a standing
            session.

        Raises
        ------
        ValueError
            If the trust model's release does not serve the cells, or a model is shown in a standing
            session; nothing was asked.
        CheckFailed
            If too few clients are there or reply, or they hold no records. Nothing is released;
            but what the ledger reserved is spent, unless all clients refused (`NobodyAnswered`),
            and a client's guard counts every check that it answered.
        LedgerError
            If the ledger does not let the check start: the budget is short, or the key has run.
            Nothing was asked.
        """
        self._session.refuse(model=model)
        signer = signer_of(self.trust)
        with self._paid_round(key) as paid:
            chosen, present = self._draw(grid)
            self._recall()
            period = self.period
            if isinstance(period, SinceLastCheck):
                period = period.next(self._last_period)
            generator = signer.generator(self._session.generator(self._generator))
            plan = Partition(self.cells).draw(self.reference, generator)
            plan = plan.allotted(self.trust.allotment).of(period)
            clients = AskedClients(chosen, drawn=len(chosen) < len(present))
            self.checks += 1
            measured = self._measure(paid, grid, clients, plan, group=str(self.checks), model=model)
            self.counted, self._last_period = measured.counted, period
            while True:
                evidence = signer.evidence(measured, self._conclusions, self.cells)
                columns, states = self._conclusions.conclude(measured, self.budget)
                report = Report(
                    check=paid.check,
                    key=paid.key,
                    period=period,
                    compared=compared(measured.published.plan),
                    columns=columns,
                    **self._envelope(paid, measured),
                )
                report = signer.signed(report, evidence)
                if self._settle(paid, report, measured, states, repeatable=True):
                    return report
                self._recall()  # evidence of a check that was settled meanwhile

    def return_report(self, grid: Grid, report: Report) -> int:
        """Send the last check's report to the nodes that it counted, at no further epsilon.

        A node whose config names a folder under ``drift-reports`` stores it there, where
        ``flwr-kld report --mine`` reads it. It is one more exchange of messages. What is about one
        client alone stays here: who refused and why, how many records the largest has, evidence.

        Parameters
        ----------
        report : Report
            What `check` returned.

        Returns
        -------
        int
            Nodes that replied within `timeout`. They do not say whether they store reports.
        """
        text = to_return(report).to_json()
        content = {PUBLISHED_REPORT: ConfigRecord({PUBLISHED_REPORT: text})}
        nodes = sorted({client.node for client in self.counted})
        answers = first_replies(grid, nodes, REPORT_ACTION, self.timeout, content)
        return sum(not reply.has_error() for _, reply in answers)

    def _recall(self) -> None:
        """Read the evidence and the last period that the ledger remembers."""
        if self.ledger is not None:
            self._conclusions.recall(self.ledger, self.budget)
            if isinstance(self.period, SinceLastCheck):
                self._last_period = last_period(self.ledger, self.budget, self.period.column)

    def metrics(self, report: Report) -> MetricRecord:
        """Return a report's ``kld.*`` metrics."""
        return MetricRecord(metrics(report))

    def summary(self) -> None:
        """Log what will be done."""
        logger.info(
            "drift checks against reference %s: %s, %s cells",
            self.reference.fingerprint[:12],
            self.trust,
            self.cells,
        )


def _thresholds(
    reference: Reference, said: float | Mapping[str, float] | None
) -> dict[str, float] | None:
    """Return each column's threshold: what is said, or what the table has; None if neither."""
    domain, columns = reference.domain, reference.columns
    own = domain.thresholds if isinstance(domain, Table) else {}
    if said is None and not own:
        return None
    if isinstance(said, Mapping):
        require_each("threshold", said, columns)
        own = said
    elif said is not None and not columns.keys() - own:
        raise ValueError(
            f"threshold={said!r} has no effect: the table has a threshold for each column; leave "
            "it out, or give a mapping of columns to thresholds"
        )
    elif said is None and (bare := [name for name in columns if name not in own]):
        raise ValueError(
            f"the table has thresholds, but none for {bare[0]!r}: give threshold= for the columns "
            "without one, or a threshold at the top of the data dictionary"
        )
    return {
        name: check_threshold(own.get(name, said))  # type: ignore[arg-type]
        for name in columns
    }
