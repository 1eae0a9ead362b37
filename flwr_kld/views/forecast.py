"""View of a forecast: what a check finds in each column."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar

from flwr_kld.report.words import shortened, shown
from flwr_kld.views.document import Document, rows_of
from flwr_kld.views.panels import Theme

MEANING = {
    "noise": "standard deviation in each count, in records",
    "error": "of the estimated divergence where the threshold is reached, in nats",
    "finds": "smallest drift, spread over all values, that a check reports in 4 cases of 5; – none",
    "excludes": "where nothing drifted, usual drifts from here on; – the check is inconclusive",
}
"""What the heads of its numbers mean."""


class ForecastView(Document):
    """What a `Forecast` looks like."""

    heading: ClassVar[str] = "Forecast of a check"

    def about(self) -> Iterator[str]:
        """Yield nothing: the first line says it."""
        yield from ()

    def table(self) -> tuple[Sequence[str], Sequence[Sequence[str]]]:
        """Return of each column what is found."""
        return ("column", "threshold", *MEANING), [
            (
                shown(one.column or "all"),
                "–" if one.setting.threshold is None else f"{one.setting.threshold:g}",
                f"{one.noise:.3g}",
                f"{one.error:.3f}",
                *("–" if nats is None else f"{nats:.3f}" for nats in (one.smallest, one.seen_from)),
            )
            for one in self.report.by_column
        ]

    def notes(self) -> Iterator[str]:
        """Yield what the heads mean."""
        for head, words in MEANING.items():
            yield f"{head.capitalize()}: {words}."

    def numbers(self) -> Iterator[Mapping[str, Any]]:
        """Yield a row for each column."""
        for one in self.report.by_column:
            yield one.to_dict()

    def draw(self, figure: Any, theme: Theme, *, narrow: bool) -> None:
        """Draw from where on drifts of each column are found."""
        columns = self.report.by_column
        names = [shortened(shown(one.column or "all"), 15 if narrow else 40) for one in columns]
        with rows_of(figure, names, theme, narrow=narrow) as (axes, places):
            for marker, colour, what in (
                ("o", theme.estimate, "finds drifts from"), ("|", theme.bound, "excludes from"),
            ):  # fmt: skip
                of = [one.smallest if marker == "o" else one.seen_from for one in columns]
                known = [(x, y) for x, y in zip(of, places, strict=True) if x is not None]
                if known:
                    axes.plot(
                        *zip(*known, strict=True), color=colour, marker=marker, linestyle="none",
                        label=what,
                    )  # fmt: skip
            threshold = columns[0].setting.threshold
            if threshold is not None:
                axes.axvline(threshold, color=theme.threshold, linestyle="--", label="threshold")
            axes.set_xlim(left=0)
            axes.set_xlabel("divergence  [nats]")
