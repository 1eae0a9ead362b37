"""Labels that nobody listed: what clients' records hold in a column, beside its own list."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from flwr_kld.accounting import Kind
from flwr_kld.accounting.entry import Remembered
from flwr_kld.check.measured import Measured
from flwr_kld.cohort.cohort import Cohort, Participant
from flwr_kld.cohort.halves import Part
from flwr_kld.domain.table import Table
from flwr_kld.domain.tree_code import LENGTHS, POSITIONS, SYMBOLS
from flwr_kld.errors import CheckFailed
from flwr_kld.inference.contradictions import contradiction
from flwr_kld.inference.label_counts import found_from, interval
from flwr_kld.inference.label_search import Search
from flwr_kld.kernel.arguments import instance
from flwr_kld.kernel.selection import LONGEST
from flwr_kld.query.noisy import NoisyCounts, NoisyLabels
from flwr_kld.query.plan import QueryPlan, each_spelling
from flwr_kld.query.spelling import Spelling, labels_in
from flwr_kld.reference import Reference
from flwr_kld.report.discovery_report import Discovered, DiscoveryReport, FoundLabel
from flwr_kld.strategies.aggregation import Aggregation, fitting
from flwr_kld.strategies.population import Population
from flwr_kld.strategies.publisher import Question
from flwr_kld.trust import Trust
from flwr_kld.trust.trust_model import require_trust

if TYPE_CHECKING:
    from flwr_kld.accounting import Ledger

_95 = 1.96
"""Standard deviations to both sides."""


class LabelDiscovery(Question[DiscoveryReport]):
    """Ask a cohort which labels, that a column does not list, many of its records have.

    One exchange. Under `Trusted`, and under `TrustedAggregator` with replace-one, if records are
    hidden with a delta, clients tell the server or the aggregator how many of their records have
    which label, and it shows those whose noised count exceeds all that the noise can be. Else, and
    where a secure sum adds up, clients count histograms of hashes, which the noise protects as it
    does a table of as many columns; names are found in the noised sums, of three to four times as
    many records. Whoever may see exact counts (under `Trusted` the server,
    under `TrustedAggregator` the aggregator) can read each client's unlisted labels off them, rare
    ones, too: where nobody may, take `TwoAggregators`. Whatever the column lists is left out. The
    follow-up of a check that says "27 % other".

    Parameters
    ----------
    reference : Reference or Table
        What clients' records mean; nodes that agreed to one reference only need that one.
    column : str
        A feature of the table with `Labels`.
    trust : Trust
        Who adds the noise, and how much; give it a delta, without which far more records are
        needed.
    aggregation, cohort, population, min_clients, timeout, ledger, budget
        As in `KLDrift`.

    Raises
    ------
    ValueError
        If the table has no such column, or one that lists no labels; or no noise serves the
        guarantee.
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
            raise ValueError("labels are asked for anew: give the trust model without Standing")
        self.reference, self.column = reference, column
        aggregation = fitting(trust, aggregation)
        summed = aggregation.hides_parts and not aggregation.adds_noise
        by_text = None if summed else trust.by_text()
        self._by_text = by_text is not None
        super().__init__(
            by_text or trust.over(POSITIONS),
            aggregation,
            cohort=cohort,
            population=population,
            min_clients=min_clients,
            timeout=timeout,
            ledger=ledger,
            budget=budget,
        )

    def _question(self, chosen: list[Participant], present: int) -> tuple[Part, QueryPlan]:
        spelling = Spelling(self.column, None if self._by_text else secrets.token_hex(8))
        return Part(chosen, self.cohort.select()), each_spelling(self.reference, spelling)

    def _told(
        self, measured: Measured, key: str, about: dict[str, Any]
    ) -> tuple[DiscoveryReport, Sequence[Remembered]]:
        if isinstance(measured.first.values, NoisyLabels):
            reading = _shown(measured.first.values, self.column)
        else:
            found, limit = measured.published, measured.first.most_records
            why = contradiction(found, measured.survivors, limit, histograms=POSITIONS)
            if why is not None:
                raise CheckFailed(f"the published numbers contradict each other: {why}")
            reading = _found(found)
        return DiscoveryReport(reading=reading, **about), ()


def _shown(labels: NoisyLabels, column: str) -> Discovered:
    """Say what follows from the labels that were shown."""
    noise = labels.event.noise
    return Discovered(
        column,
        tuple(
            FoundLabel(name, float(count), *map(float, interval(noise, count)))
            for name, count in labels.counts.items()
        ),
        records=None,
        shown_from=float(noise.reach + 1),
        found_from={str(LONGEST): float(found_from(noise))},
    )


def _found(counts: NoisyCounts) -> Discovered:
    """Search the noised histograms."""
    spelling = counts.plan.spelling
    if spelling is None or spelling.salt is None:
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
