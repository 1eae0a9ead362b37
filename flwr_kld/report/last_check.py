"""Estimates from a check's public numbers how many records clients have, and how alike they are."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

from flwr_kld.kernel import Guarantee
from flwr_kld.kernel.arguments import instance
from flwr_kld.report.report import Report

_MOST_NAMES = 3
"""Columns that a sentence names."""


@dataclass(frozen=True)
class LastCheck:
    """Clients as a check found them."""

    name: str  # Its key, or else its id, and its date
    clients: int  # That answered
    records: float  # Mean number of a client that it counted
    most_records: int | None  # That one client counted, at most; None if that is not known
    guarantee: Guarantee  # What it promised
    trust: str  # Names of its trust model, and of how its sum was formed
    aggregation: str
    drawn: bool  # Whether they stand for others, whom they were drawn from
    # Design effect in each column; empty if the check did not tell
    design_effects: dict[str, float]

    @classmethod
    def of(cls, report: Report) -> Self:
        """Read a report; one of a table in all its columns."""
        instance("report", report, Report, "a check's Report")
        counts = {n: one.counts for n, one in report.columns.items() if one.counts is not None}
        draws = {one.draws for one in counts.values()}
        clients = max(report.cohort.survivors, 1)
        records = report.reading.records / clients
        return cls(
            f"{report.key or report.check} of {report.started[:10]}",
            clients,
            records,
            report.one_client.most_records,
            report.guarantee,
            report.protection.trust,
            report.protection.aggregation,
            "client" in draws,
            {
                name: one.design_effect
                for name, one in counts.items()
                if one.design_effect is not None and one.draws == "client"
            },
        )

    def effects(self, records: float) -> dict[str, float]:
        """Return each column's design effect where clients have so many records."""
        # What clients have in common adds up with their number: 1 + (m - 1) ρ (Kish 1965, §5.4).
        part = records / self.records
        return {name: 1 + part * (effect - 1) for name, effect in self.design_effects.items()}

    def among(self, clients: int) -> int:
        """Return among how many so many clients are asked, if nothing else is known."""
        return clients + self.drawn

    def __str__(self) -> str:
        most = "" if self.most_records is None else f", at most {self.most_records:,} of one"
        size = f"{self.clients:,} clients of about {self.records:,.0f} records{most}"
        return f"as in the check {self.name}: {size}; {self.guarantee}; {self._alike}"

    @property
    def _alike(self) -> str:
        if not self.drawn:
            return "it was about these clients, so that it does not matter how alike they are"
        if not self.design_effects:
            return (
                "it did not tell how alike the records of a client are: they are taken for "
                "independent"
            )
        order = sorted(self.design_effects.items(), key=lambda one: -one[1])[:_MOST_NAMES]
        others = len(self.design_effects) - len(order)
        rest = f", and at most as much in {others} more" if others else ""
        return f"design effect {', '.join(f'{x:.3g} in {name}' for name, x in order)}{rest}"
