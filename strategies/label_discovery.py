"""Labels that nobody listed: what clients' records hold in a column, beside its own list."""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING

import numpy as np
from flwr.serverapp import Grid

from flwr_kld.accounting import Charge, Kind
from flwr_kld.accounting.budget import Spent
from flwr_kld.check.report_parts import epsilon_delivered, protection
from flwr_kld.cohort.charges import charges, delivered
from flwr_kld.cohort.cohort import Cohort, Participant
from flwr_kld.cohort.halves import Part
from flwr_kld.domain.table import Table
from flwr_kld.domain.tree_code import LENGTHS, POSITIONS, SYMBOLS
from flwr_kld.inference.label_search import Search
from flwr_kld.kernel.arguments import instance
from flwr_kld.kernel.law import SystemBits
from flwr_kld.query.noisy import NoisyCounts
from flwr_kld.query.plan import QueryPlan, each_spelling
from flwr_kld.query.spelling import Spelling, labels_in
from flwr_kld.reference import Reference
from flwr_kld.report.discovery_report import Discovered, DiscoveryReport, FoundLabel
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
_95 = 1.96
"""Standard deviations to both sides."""


class LabelDiscovery(Counting[_Asked, DiscoveryReport]):
    """Ask a cohort which labels, that a column does not list, many of its records have.

    One exchange of histograms of hashes, which the noise protects as it does a table of as many
    columns; names are found in the noised sums, and nobody sees one that few records share.
    Whatever the column lists is left out. The follow-up of a check that says "27 % other".

    Parameters
    ----------
    reference : Reference or Table
        What clients' records mean; nodes that agreed to one reference only need that one.
    column : str
        A feature of the table with `Labels`.
    trust : Trust
        Who adds the noise, and how much; give it a delta, without which the noise is thrice as
        large or more.
    aggregation, cohort, population, min_clients, timeout, ledger, budget
        As in `KLDrift`.

    Raises
    ------
    ValueError
        If the table has no such column, or one that lists no labels.
    """

    entry = Kind.DISCOVERY

    def __init__(
        self,
        reference: Reference | Table,
        column: str,
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
        instance("reference", reference, Reference | Table, "a Reference, or its Table")
        if isinstance(reference, Table):
            reference = Reference.from_counts(reference, np.ones(reference.size))
        instance("column", column, str, "the name of a column of the table")
        labels_in(reference.domain, column)
        require_trust(trust)
        if trust.nights > 1:
            raise ValueError("labels are asked for once: give the trust model without Standing")
        trust = trust.over(POSITIONS)
        aggregation = fitting(trust, aggregation)
        self.reference, self.column, self.trust = reference, column, trust
        self.aggregation = aggregation
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

    def ask(self, grid: Grid, key: str | None = None) -> DiscoveryReport:
        """Ask now.

        Parameters
        ----------
        key : str, optional
            Idempotency key: with a ledger it runs once.

        Raises
        ------
        CheckFailed
            If too few clients are there or reply; what the ledger reserved is spent.
        LedgerError
            If the ledger does not let it start. Nothing was asked.
        """
        return self._run(grid, key or f"discovery/{secrets.token_hex(8)}")

    def _draw(self, chosen: list[Participant], present: list[Participant]) -> _Asked:
        spelling = Spelling(self.column, secrets.token_hex(8))
        return Part(chosen, self.cohort.select()), each_spelling(self.reference, spelling)

    def _charges(self, asked: _Asked) -> list[Charge]:
        return charges(self.trust, [asked[0]])

    def _ask(
        self, grid: Grid, opening: Opening, asked: _Asked, spent: Spent | None
    ) -> Settled[DiscoveryReport]:
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
            raise TypeError("labels are found in counts")
        report = DiscoveryReport(
            started=opening.started,
            reading=_found(counts),
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
        costs = delivered(self.trust, [part], [published.survivors])
        return Settled(report, report, delivered=costs)


def _found(counts: NoisyCounts) -> Discovered:
    """Search the noised histograms."""
    spelling = counts.plan.spelling
    if spelling is None:
        raise TypeError("labels are found in histograms of their spelling")
    sums = counts.values.reshape(POSITIONS, SYMBOLS + 1).astype(np.float64)
    search = Search(sums[:, :SYMBOLS], counts.noise.variance, spelling.salt)
    names = search.run()
    return Discovered(
        spelling.column,
        tuple(
            FoundLabel(name.text, name.records, name.records - wide, name.records + wide)
            for name in names
            for wide in [_95 * name.deviation]
        ),
        records=counts.records - float(sums[:, SYMBOLS].mean()),
        shown_from=search.shown_from,
        found_from={str(length): search.needed(length) for length in LENGTHS},
    )
