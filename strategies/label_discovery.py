"""Labels that nobody listed: what clients' records hold in a column, beside its own list."""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING

import numpy as np
from flwr.serverapp import Grid

from flwr_kld.ask.cohort import AskedClients, Cohort
from flwr_kld.ask.noisy import NoisyLabels
from flwr_kld.ask.plan import plan_for_labels
from flwr_kld.ask.unlisted_labels import UnlistedLabels, labels_in
from flwr_kld.infer.label_counts import found_from, interval
from flwr_kld.kernel.arguments import instance
from flwr_kld.ledger import Kind
from flwr_kld.reference import Reference
from flwr_kld.report.discovery_report import Discovered, DiscoveryReport, FoundLabel
from flwr_kld.strategies.aggregation import fitting
from flwr_kld.strategies.count_strategy import CountStrategy
from flwr_kld.strategies.population import Population
from flwr_kld.table.table import Table
from flwr_kld.trust import Trust
from flwr_kld.trust.trust_model import require_trust
from flwr_kld.trust.trusted import ForLabels

if TYPE_CHECKING:
    from flwr_kld.ledger import Ledger


class LabelDiscovery(CountStrategy):
    """Ask a cohort which labels, that a column does not list, many of its records have.

    One exchange. Clients send the server, or an aggregator, each unlisted label with the number of
    their records that have it; those whose noised count exceeds all that the noise can be are
    shown. Whoever is trusted with the labels sees rare ones, too. The follow-up of a check that
    says "27 % other".

    Parameters
    ----------
    reference : Reference or Table
        What clients' records mean.
    column : str
        A feature of the table with `Labels`.
    trust : Trusted or TrustedAggregator
        Who adds the noise, and how much; for single records, with a delta, which is the probability
        that a label of one record is shown.
    cohort, population, min_clients, timeout, ledger, budget
        As in `KLDrift`.

    Raises
    ------
    ValueError
        If the table has no such column, or one that lists no labels; or the trust model is another
        one.
    """

    entry = Kind.DISCOVERY

    def __init__(
        self,
        reference: Reference | Table,
        column: str,
        trust: Trust,
        *,
        cohort: Cohort | None = None,
        population: Population | None = None,
        min_clients: int = 2,
        timeout: float = 600.0,
        ledger: Ledger | str | None = None,
        budget: str = "default",
    ) -> None:
        instance("reference", reference, Reference | Table, "a Reference, or its Table")
        if isinstance(reference, Table):
            reference = Reference.from_counts(reference, np.ones(reference.size))
        instance("column", column, str, "the name of a column of the table")
        labels_in(reference.domain, column)
        require_trust(trust)
        self.reference, self.column = reference, column
        trust = ForLabels(trust)
        super().__init__(
            trust,
            fitting(trust, None),
            cohort=cohort,
            population=population,
            min_clients=min_clients,
            timeout=timeout,
            ledger=ledger,
            budget=budget,
        )

    def ask(self, grid: Grid, key: str | None = None) -> DiscoveryReport:
        """Ask now; parameters and errors are those of `Statistics.ask`."""
        with self._paid_round(key or f"{self.entry}/{secrets.token_hex(8)}") as paid:
            chosen, _ = self._draw(grid)
            plan = plan_for_labels(self.reference, UnlistedLabels(self.column))
            measured = self._measure(paid, grid, AskedClients(chosen), plan)
            labels = measured.values
            if not isinstance(labels, NoisyLabels):
                raise TypeError("a question for labels is answered with labels")
            noise = labels.event.noise
            found = (
                FoundLabel(name, float(count), *map(float, interval(noise, count)))
                for name, count in labels.counts.items()
            )
            reading = Discovered(self.column, tuple(found), noise.reach + 1, found_from(noise))
            report = DiscoveryReport(reading=reading, **self._envelope(paid, measured))
            self._settle(paid, report, measured)
            return report
