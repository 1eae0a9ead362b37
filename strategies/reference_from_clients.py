"""A publishable reference from a federation's present: one noised histogram of all symbols.

It protects one record (or client) at the stated ε, as a check does. To protect every group of
people at once, draw exemplars where the data are: ``flwr_kld.integral``.
"""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING

import numpy as np
from flwr.serverapp import Grid

from flwr_kld.accounting import Charge, Kind
from flwr_kld.accounting.budget import Spent
from flwr_kld.accounting.kept_reference import kept_as
from flwr_kld.check.report_parts import epsilon_delivered, protection
from flwr_kld.cohort.charges import charges, delivered
from flwr_kld.cohort.cohort import Cohort, Participant
from flwr_kld.cohort.halves import Part
from flwr_kld.domain.base import Domain
from flwr_kld.integral import reference_from_counts
from flwr_kld.kernel.arguments import instance
from flwr_kld.kernel.law import SystemBits
from flwr_kld.query.noisy import NoisyCounts
from flwr_kld.query.partition import Partition
from flwr_kld.query.plan import QueryPlan
from flwr_kld.reference import Reference
from flwr_kld.report.reference_report import Made, ReferenceReport
from flwr_kld.strategies.aggregation import Aggregation, fitting
from flwr_kld.strategies.exchange import by_reason
from flwr_kld.strategies.population import Population
from flwr_kld.strategies.publisher import Counting, Publisher
from flwr_kld.strategies.round import Opening, Settled
from flwr_kld.trust import Trust
from flwr_kld.trust.trust_model import require_trust

if TYPE_CHECKING:
    from flwr_kld.accounting import Ledger

_Asked = tuple[Part, QueryPlan]


class ReferenceFromClients(Counting[_Asked, tuple[Reference, ReferenceReport]]):
    """Ask a cohort for its histogram once, and publish a reference made of it.

    Parameters
    ----------
    domain : Domain
        What records mean. Every symbol gets a cell of its own.
    trust : Trust
        Who adds the noise, and how much; releases counts.
    aggregation, cohort, population, min_clients, timeout, ledger, budget
        As in `KLDrift`.
    """

    entry = Kind.REFERENCE

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
        instance("domain", domain, Domain, "a Domain, such as Labels(['bus', 'car'])")
        require_trust(trust)
        if trust.nights > 1:
            raise ValueError("a reference is asked for once: give the trust model without Standing")
        trust = trust.over(domain.per_record)
        aggregation = fitting(trust, aggregation)
        self.domain, self.trust, self.aggregation = domain, trust, aggregation
        super().__init__(
            cohort=cohort,
            population=population,
            min_clients=min_clients,
            timeout=timeout,
            ledger=ledger,
            budget=budget,
        )
        least = max(self.min_clients, trust.min_clients)
        self._publisher = Publisher(trust, aggregation, least, SystemBits())

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
        return self._run(grid, key or f"reference/{secrets.token_hex(8)}")

    def _draw(self, chosen: list[Participant], present: list[Participant]) -> _Asked:
        part = Part(chosen, self.cohort.select())
        flat = Reference.from_counts(self.domain, np.ones(self.domain.size))
        return part, Partition(max(self.domain.size, 16)).draw(flat, self._generator)

    def _charges(self, asked: _Asked) -> list[Charge]:
        return charges(self.trust, [asked[0]])

    def _ask(
        self, grid: Grid, opening: Opening, asked: _Asked, spent: Spent | None
    ) -> Settled[tuple[Reference, ReferenceReport]]:
        part, plan = asked
        published = self._publisher.publish(
            grid,
            part.participants,
            plan.over(part.selection),
            check=opening.check,
            group="1",
            timeout=self.timeout,
        )
        counts = published.values
        if not isinstance(counts, NoisyCounts):
            raise TypeError("a reference is made of counts")
        reference = reference_from_counts(counts)
        report = ReferenceReport(
            started=opening.started,
            reading=Made(reference.fingerprint, self.domain.fingerprint, counts.records),
            guarantee=self.trust.guarantee,
            protection=protection(
                counts,
                self.trust,
                self.aggregation.name,
                hides_parts=self.aggregation.hides_parts,
            ),
            one_client=published.one_client,
            cohort=self._seen(published.asked, published.survivors, by_reason(published.left_out)),
            cost=self._cost(
                opening,
                spent,
                epsilon=epsilon_delivered(counts.event),
                bytes_down=published.bytes_down,
                bytes_up=published.bytes_up,
            ),
        )
        states = [kept_as(reference, str(opening.key), self.budget)]
        costs = delivered(self.trust, [part], [published.survivors])
        return Settled((reference, report), report, states, costs)
