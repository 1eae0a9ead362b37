"""Where estimate, lower bound and threshold lie on one scale, in per cent of its width."""

from __future__ import annotations

from dataclasses import dataclass

from flwr_kld.report.report import Report

_ROOM = 1.15
"""Length of the scale over the largest number on it."""


@dataclass(frozen=True)
class Mark:
    """A number on the scale.

    Parameters
    ----------
    nats : float
        The number.
    at : float
        Its place, in per cent.
    anchor : str
        SVG ``text-anchor`` that keeps its label inside the picture.
    """

    nats: float
    at: float
    anchor: str


@dataclass(frozen=True)
class Gauge:
    """The scale of one check, from 0 nats.

    Parameters
    ----------
    threshold : Mark
        Beyond it, a lower bound is a drift.
    bound : Mark or None
        Lower confidence bound; None if there is none.
    estimate : Mark or None
        None if there is none.
    error : tuple[float, float]
        Two standard deviations either way of the estimate, in per cent.
    """

    threshold: Mark
    bound: Mark | None
    estimate: Mark | None
    error: tuple[float, float]

    @classmethod
    def of(cls, report: Report) -> Gauge | None:
        """Lay out a report's numbers; None if it decided nothing."""
        verdict = report.verdict
        if verdict is None:
            return None
        reading = report.reading
        error = 2 * reading.error
        numbers = (verdict.threshold, report.lower_bound or 0.0, (reading.estimate or 0.0) + error)
        highest = max(*numbers, 1e-9)

        def place(nats: float) -> float:
            return 100 * min(max(nats / (_ROOM * highest), 0.0), 1.0)

        def mark(nats: float) -> Mark:
            at = place(nats)
            return Mark(nats, at, "start" if at < 20 else "end" if at > 80 else "middle")

        bound, estimate = report.lower_bound, reading.estimate
        return cls(
            threshold=mark(verdict.threshold),
            bound=None if bound is None else mark(bound),
            estimate=None if estimate is None else mark(estimate),
            error=(0.0, 0.0)
            if estimate is None
            else (place(estimate - error), place(estimate + error)),
        )
