"""A publishable reference from a federation's present: one noised histogram of all symbols.

It protects one record (or client) at the stated ε, as a check does. To protect every group of
people at once, draw exemplars where the data are: ``flwr_kld.integral``.
"""

from __future__ import annotations

import secrets
import time
from datetime import UTC, datetime

import numpy as np
from flwr.serverapp import Grid

from flwr_kld.accounting import Kind, Ledger
from flwr_kld.accounting.kept_reference import kept_as
from flwr_kld.arguments import whole
from flwr_kld.counts import NoisyCounts
from flwr_kld.domain import Domain
from flwr_kld.integral import reference_from_counts
from flwr_kld.privacy import SystemBits
from flwr_kld.query import Partition
from flwr_kld.reference import Reference
from flwr_kld.report import ReferenceReport
from flwr_kld.strategies.aggregation import Aggregation
from flwr_kld.strategies.asking import Asking, Published, require
from flwr_kld.strategies.cohort import Cohort, UniformCohort
from flwr_kld.strategies.compatibility import require_pair, usual_aggregation
from flwr_kld.strategies.exchange import by_reason
from flwr_kld.strategies.halves import Part
from flwr_kld.strategies.monitor import check_timeout
from flwr_kld.strategies.population import Nodes, Population
from flwr_kld.strategies.spending import Spending
from flwr_kld.trust import Trust
from flwr_kld.trust.trust_model import require_counts


class ReferenceFromClients:
    """Ask a cohort for its histogram once, and publish a reference made of it.

    Parameters
    ----------
    domain : Domain
        What records mean. Every symbol gets a cell of its own.
    trust : Trust
        Who adds the noise, and how much; releases counts.
    aggregation, cohort, population, min_clients, timeout, ledger, budget
        As in `KLDrift`.

    Raises
    ------
    ValueError
        If the arguments contradict each other, before anything is asked.
    """

    def __init__(
        self,
        domain: Domain,
        trust: Trust,
        *,
        aggregation: Aggregation | None = None,
        cohort: Cohort | None = None,
        population: Population | None = None,
        min_clients: int = 2,
        timeout: float = 600.0,
        ledger: Ledger | str | None = None,
        budget: str = "default",
    ) -> None:
        if not isinstance(domain, Domain):
            raise ValueError(
                f"ReferenceFromClients needs a Domain, got a {type(domain).__name__}: say what "
                "records mean, such as Labels([…])"
            )
        aggregation = aggregation or usual_aggregation(trust)
        require_pair(trust, aggregation)
        require_counts(trust)
        self.domain, self.trust, self.aggregation = domain, trust, aggregation
        self.cohort = cohort or UniformCohort()
        self.population = population or Nodes()
        self.timeout = check_timeout(timeout)
        self.ledger = Ledger(ledger) if isinstance(ledger, str) else ledger
        self.budget = budget
        least = max(whole("min_clients", min_clients, least=1), trust.least_clients)
        self._asking = Asking(trust, aggregation, least, SystemBits())
        self._generator = np.random.default_rng()

    def build(self, grid: Grid, key: str | None = None) -> tuple[Reference, ReferenceReport]:
        """Ask now.

        Parameters
        ----------
        key : str, optional
            Idempotency key: with a ledger it runs once, and `kept_reference` reads the reference
            from the ledger, wherever it is needed.

        Raises
        ------
        CheckFailed
            If too few clients are there or reply; what the ledger reserved is spent.
        LedgerError
            If the ledger does not let it start. Nothing was asked.
        """
        check = secrets.token_hex(8)
        key = key or f"reference/{check}"
        began, started = time.perf_counter(), datetime.now(UTC).isoformat(timespec="seconds")
        present = self.population.present(grid, self.timeout)
        present = self.aggregation.clients(present, grid, self.timeout)
        require(len(present), self._asking.least, "are connected")
        if self.ledger is not None:
            self.cohort.recall(self.ledger.rotation(self.budget), present)
        part = Part(self.cohort.draw(present, self._generator), self.cohort.select())
        flat = Reference.from_counts(self.domain, np.ones(self.domain.size))
        plan = Partition(max(self.domain.size, 16)).draw(flat, self._generator)
        with Spending(
            self.ledger, self.budget, self.trust, key, [part], kind=Kind.REFERENCE
        ) as spending:
            published = self._asking.publish(
                grid,
                part.participants,
                plan.over(part.selection),
                check=check,
                group="1",
                timeout=self.timeout,
            )
            reference, report = self._made(published, started, time.perf_counter() - began)
            spending.settle(report, [published], [kept_as(reference, key, self.budget)])
        return reference, report

    def _made(
        self, published: Published, started: str, seconds: float
    ) -> tuple[Reference, ReferenceReport]:
        counts = published.values
        if not isinstance(counts, NoisyCounts):
            raise TypeError("a reference is made of counts")
        reference, event = reference_from_counts(counts), counts.event
        return reference, ReferenceReport(
            reference=reference.fingerprint,
            domain=self.domain.fingerprint,
            started=started,
            trust=self.trust.name,
            aggregation=self.aggregation.name,
            mechanism=event.mechanism,
            adjacency=str(event.guarantee.adjacency),
            unit=str(event.guarantee.unit),
            epsilon=self.trust.guarantee.epsilon,
            delta=self.trust.guarantee.delta,
            delivered=event.guarantee.epsilon if event.delivered is None else event.delivered,
            asked=published.asked,
            survivors=published.survivors,
            dropouts=by_reason(published.left_out),
            records=counts.records,
            seconds=seconds,
            private=counts.private,
        )
