"""What a federation's data look like, asked once: a strategy beside `KLDrift`."""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING

from flwr.serverapp import Grid

from flwr_kld.ask.cohort import AskedClients, Cohort, draws
from flwr_kld.ask.plan import each_symbol
from flwr_kld.common.errors import CheckFailed
from flwr_kld.kernel.arguments import instance
from flwr_kld.ledger import Kind
from flwr_kld.planner.allotment import allot
from flwr_kld.report.description import described, reference_of
from flwr_kld.report.statistics_report import StatisticsReport
from flwr_kld.report.stored_reference import reference_state
from flwr_kld.strategies.aggregation import Aggregation, fitting
from flwr_kld.strategies.count_strategy import CountStrategy
from flwr_kld.strategies.population import Population
from flwr_kld.table.base import Domain
from flwr_kld.table.rounded_table import rounded
from flwr_kld.trust import Trust
from flwr_kld.trust.standing import Standing
from flwr_kld.trust.trust_model import require_trust

if TYPE_CHECKING:
    from flwr_kld.ledger import Ledger


MANY = 40
"""Drawn clients from which on a description is about their population; of fewer, one client may
change what it says."""


def counted(domain: Domain, trust: Trust) -> Domain:
    """Return what is counted of a domain's records: its numbers at grid points within their bins.

    In a standing session as they are: a record would change with its coins, night by night.
    """
    return domain if isinstance(trust, Standing) else rounded(domain)


class Statistics(CountStrategy):
    """Ask a cohort once what its data look like, column by column.

    One release of noised counts tells of each column how many records have a value, which are
    missing or 'other', the histogram, of numbers mean, standard deviation and deciles, each with an
    interval; `Table(interactions=…)` adds cross-tables and `Table(by=…)` the same by group. What
    was released can serve as a `Reference`, at no further cost; with a ledger, `kept_reference`
    reads it wherever it is needed.

    Intervals are about the clients that are asked, whose records only the noise blurs; or, if a
    cohort of 40 or more is drawn, about the population that it was drawn from.

    Parameters
    ----------
    domain : Domain
        What records mean, usually a `Table`. Every symbol is counted by itself.
    trust : Trust
        Who adds the noise, and how much; releases counts.
    aggregation, cohort, population, most_records, min_clients, timeout, ledger, budget
        As in `KLDrift`.
    """

    entry = Kind.STATISTICS

    def __init__(
        self,
        domain: Domain,
        trust: Trust,
        *,
        aggregation: Aggregation | None = None,
        cohort: Cohort | None = None,
        population: Population | None = None,
        most_records: int | None = None,
        min_clients: int = 2,
        timeout: float = 600.0,
        ledger: Ledger | str | None = None,
        budget: str = "default",
    ) -> None:
        instance("domain", domain, Domain, "a Domain, such as Labels(['bus', 'car'])")
        require_trust(trust)
        plan = each_symbol(counted(domain, trust))
        trust = trust.over(domain.per_record)
        trust = trust.over(allot(trust, plan, {}, drawn=draws(cohort)))
        self.domain = domain
        self._plan = plan.allotted(trust.allotment)
        super().__init__(
            trust,
            fitting(trust, aggregation),
            most_records=most_records,
            cohort=cohort,
            population=population,
            min_clients=min_clients,
            timeout=timeout,
            ledger=ledger,
            budget=budget,
        )

    def ask(self, grid: Grid, key: str | None = None) -> StatisticsReport:
        """Ask now.

        Parameters
        ----------
        key : str, optional
            Idempotency key: with a ledger it runs once.

        Raises
        ------
        CheckFailed
            If too few clients are there or reply; what the ledger reserved is spent, unless all of
            them refused.
        LedgerError
            If the ledger does not let it start. Nothing was asked.
        """
        with self._paid_round(key or f"{self.entry}/{secrets.token_hex(8)}") as paid:
            chosen, present = self._draw(grid)
            drawn = MANY <= len(chosen) < len(present) and self.trust.allotment.alike > 0
            measured = self._measure(paid, grid, AskedClients(chosen, drawn), self._plan)
            if (why := measured.contradiction()) is not None:
                raise CheckFailed(f"the published numbers contradict each other: {why}")
            columns = described(measured)
            reference = reference_of(measured, columns)
            report = StatisticsReport(
                whom=measured.drawn_from,
                records=measured.published.records,
                columns=columns,
                domain=self.domain.fingerprint,
                reference=reference.fingerprint,
                **self._envelope(paid, measured),
            )
            kept = reference_state(reference, paid.name, self.budget)
            self._settle(paid, report, measured, [kept])
            return report
