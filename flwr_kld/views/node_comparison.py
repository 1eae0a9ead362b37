"""View of a node's own records beside a published report."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, ClassVar

from flwr_kld.report.node_comparison import percent
from flwr_kld.report.words import shortened, shown
from flwr_kld.views.document import Document, rows_of
from flwr_kld.views.files import FORMATS, METRICS
from flwr_kld.views.panels import Theme


class NodeComparisonView(Document):
    """What a `NodeComparison` looks like."""

    heading: ClassVar[str] = "Is it this node?"
    right: ClassVar[tuple[str, ...]] = ("this node", "elsewhere", "reference")
    forms: ClassVar[tuple[str, ...]] = (*FORMATS, METRICS)

    def about(self) -> Iterator[str]:
        """Yield of which check and records it is, and whom it is for."""
        yield f"{self.report.about}."
        yield "PRIVATE: exact numbers of this node's records. They must stay on the node."

    def table(self) -> tuple[Sequence[str], Sequence[Sequence[str]]]:
        """Return of each column which records moved most, and how many they are."""
        return ("column", "this node?", "records", *self.right), [
            (
                shown(name), one.answer or "–", shown(one.records), percent(one.own),
                "–" if one.others is None else "{} % ({} to {})".format(*one.others),
                percent(one.reference),
            )
            for name, one in self.report.columns.items()
        ]  # fmt: skip

    def notes(self) -> Iterator[str]:
        """Yield what the numbers rest on, and what they cost."""
        yield (
            "Elsewhere: the published counts less this node's own, if it was counted, with these "
            "records; with a 95 % interval for their noise. Yes: what moved grew at least twice "
            "as much here."
        )
        yield "Privacy: computed on this node, sent to nobody (ε = 0)."

    def numbers(self) -> Iterator[Mapping[str, Any]]:
        """Yield a row for each column."""
        for name, one in self.report.columns.items():
            yield {"column": name, **asdict(one)}

    def save_metrics(self, file: Path) -> None:
        """Write Prometheus metrics, for this node's own eyes."""
        # Imported here: it needs the extra that writes them.
        from flwr_kld.views.prometheus import save_node_comparison

        save_node_comparison(self.report, file)

    def draw(self, figure: Any, theme: Theme, *, narrow: bool) -> None:
        """Draw the three fractions of each column."""
        columns = self.report.columns
        names = [
            shortened(f"{shown(name)}: {one.records}", 18 if narrow else 45)
            for name, one in columns.items()
        ]
        with rows_of(figure, names, theme, narrow=narrow) as (axes, places):
            for what, marker, colour in (
                ("own", "D", theme.alarm), ("elsewhere", "o", theme.estimate),
                ("reference", "|", theme.threshold),
            ):  # fmt: skip
                of = [asdict(one)[what] for one in columns.values()]
                known = [(100 * x, y) for x, y in zip(of, places, strict=True) if x is not None]
                if known:
                    axes.plot(
                        *zip(*known, strict=True), marker, color=colour,
                        label="this node" if what == "own" else what,
                    )  # fmt: skip
            for one, y in zip(columns.values(), places, strict=True):
                if one.elsewhere_low is not None and one.elsewhere_high is not None:
                    ends = 100 * one.elsewhere_low, 100 * one.elsewhere_high
                    axes.plot(ends, (y, y), color=theme.estimate)
            axes.legend()
            axes.set_xlabel("percent of the records")
