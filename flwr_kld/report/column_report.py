"""What a check says of one column of a table. Everything in it is public."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from flwr_kld.inference.decision import ranked
from flwr_kld.inference.figures.calibration import Calibration
from flwr_kld.inference.figures.figures import Figures
from flwr_kld.inference.segments import Segment
from flwr_kld.inference.verdict import Outcome, Verdict
from flwr_kld.report.explanation.histogram import Histogram
from flwr_kld.report.reading import Estimated, Reading


@dataclass(frozen=True)
class ColumnReport:
    """One column of a table."""

    reading: Reading  # What the published numbers say of it
    verdict: Verdict | None = None  # The decision on it; None if no threshold was given
    # What moved most in it: ``"lower, 17 % → 24 % below 82 (22–26 %)"``. None if nothing moved
    # beyond chance, which is said of all columns together with probability 95 %.
    sentence: str | None = None
    histogram: Histogram | None = None  # The clients' fractions beside the reference's
    # How far the two lie apart, as other tools measure it. Like the histogram, None where there are
    # no counts, or too much noise in them for an estimate.
    figures: Figures | None = None
    # Of a pair of columns that are a prediction and its outcome: how well they fit
    calibration: Calibration | None = None
    # Of a column by segment: each of them, that with the largest lower limit first
    segments: tuple[Segment, ...] = ()

    @property
    def outcome(self) -> Outcome | None:
        """The decision's outcome, if one was made."""
        return None if self.verdict is None else self.verdict.outcome

    @property
    def drifted(self) -> bool:
        """Whether the decision was drift; False is not "no drift": see `outcome`."""
        return self.outcome is Outcome.DRIFT

    @property
    def estimate(self) -> Estimated | None:
        """The population's estimate where there is one, else the cohort's; None if none is."""
        return self.reading.told


def in_rank(columns: Mapping[str, ColumnReport]) -> dict[str, ColumnReport]:
    """Sort columns: those that moved most first, by their verdicts if there are any."""
    verdicts = {name: one.verdict for name, one in columns.items() if one.verdict is not None}
    others = sorted(columns.keys() - verdicts.keys(), key=lambda n: (-_size(columns[n]), n))
    return {name: columns[name] for name in (*ranked(verdicts), *others)}


def _size(column: ColumnReport) -> float:
    told = column.reading.told
    return 0.0 if told is None else told.value
