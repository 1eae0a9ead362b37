"""Checks over time: their columns, their table, their page."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from itertools import compress
from operator import attrgetter
from pathlib import Path
from typing import Any, ClassVar

from flwr_kld._extras import require
from flwr_kld.arguments import whole
from flwr_kld.inference.verdict import Outcome
from flwr_kld.report.check_plot import draw_checks
from flwr_kld.report.panels import Theme
from flwr_kld.report.reading import Reading
from flwr_kld.report.render import add_up, pictures, render
from flwr_kld.report.report import Report
from flwr_kld.report.series import Point, Rows, Series
from flwr_kld.report.sight import views, who_saw_what
from flwr_kld.report.words import alarm_lines, evidence, guarantees, how_sure

_ROOM = 1.15
"""Length of a gauge over the largest number on it."""
_PATHS = {
    "check": "check", "theta": "reading.theta",
    "estimator": "reading.estimator", "target": "reading.target", "sampling": "reading.sampling",
    "monte_carlo": "reading.monte_carlo", "privacy": "reading.privacy", "note": "reading.note",
    "trust": "protection.trust", "aggregation": "protection.aggregation",
    "mechanism": "protection.mechanism", "adjacency": "guarantee.adjacency",
    "unit": "guarantee.unit", "epsilon": "guarantee.epsilon", "delta": "guarantee.delta",
    "delivered": "cost.epsilon", "noise": "protection.noise", "private": "protection.private",
    "asked": "cohort.asked", "survivors": "cohort.survivors", "records": "reading.records",
    "cells": "compared.cells", "domain": "compared.domain", "reference": "compared.reference",
    "plan": "compared.plan", "seconds": "cost.seconds", "bytes_down": "cost.bytes_down",
    "bytes_up": "cost.bytes_up", "key": "key", "ledger_population": "cost.population",
    "epsilon_left": "cost.left", "epsilon_budget": "cost.budget", "outcome": "outcome",
    "lower_bound": "lower_bound", "upper_limit": "upper_limit",
}  # fmt: skip
_COLUMNS: dict[str, Callable[[Report], Any]] = {
    "population_estimate": lambda r: r.reading.of_population and r.reading.of_population.value,
    "population_deviation": lambda r: r.reading.of_population and r.reading.of_population.deviation,
    "cohort_estimate": lambda r: r.reading.of_cohort and r.reading.of_cohort.value,
    "cohort_deviation": lambda r: r.reading.of_cohort and r.reading.of_cohort.deviation,
    "drawn_from": attrgetter("reading.drawn_from"),
    "counted": attrgetter("reading.counted"),
    **{name: attrgetter(path) for name, path in _PATHS.items()},
    "decided_population": lambda r: r.verdict and r.verdict.population,
    "threshold": lambda r: r.verdict and r.verdict.threshold,
    "resolve": lambda r: r.verdict and r.verdict.resolve,
    "evidence": lambda r: r.verdict and r.verdict.evidence,
    "alarm_at": lambda r: r.verdict and r.verdict.alarm_at,
    "outside_share": lambda r: r.reading.outside and r.reading.outside.share,
    "outside_lower": lambda r: r.verdict and r.verdict.outside_lower,
}
"""What files have a column of, and where a report holds it."""


class CheckSeries(Series[Report]):
    """Checks of one monitor.

    Above, in nats, their plot has the population's estimates with two standard deviations either
    way, the cohort's beside them, the lower bound and the upper limit of each decision, the
    threshold, alarms, checks that failed or have not ended, and the truth where a simulation knows
    it.

    Parameters
    ----------
    points : Iterable[Point or Report or None]
        In order. Reports alone are numbered from 1; None stands for a check without a number.
    drift_from : int, optional
        Number of the first check with a drift that a simulation injected.
    models : Iterable[Point]
        One check in each trust model, to be shown side by side on the page.

    Raises
    ------
    ValueError
        If `drift_from` is not the number of a check.
    """

    _of = Report
    what: ClassVar[str] = "check"
    heading: ClassVar[str] = "Drift checks"

    def __init__(
        self,
        points: Iterable[Point[Report] | Report | None],
        *,
        drift_from: int | None = None,
        models: Iterable[Point[Report]] = (),
    ) -> None:
        super().__init__(points)
        self.drift_from = None if drift_from is None else whole("drift_from", drift_from, least=1)
        self.models = tuple(models)

    def to_html(self, *, title: str = "", subtitle: str = "") -> str:
        """Return a self-contained page: the last decision first.

        Raises
        ------
        ImportError
            If jinja2 or matplotlib is not installed; names the extra.
        """
        from flwr_kld.report.explanation.cells import pattern_svg

        markupsafe = require("markupsafe", extra="plots")
        shown = next((c for c in reversed(self.points) if c.report), None)
        last, reports = shown and shown.report, self.reports

        def draw(file: Path, dark: bool, narrow: bool) -> None:
            self.plot(file, dark=dark, narrow=narrow)

        return render(
            "page.html.j2",
            title=title or self.heading,
            subtitle=subtitle,
            checks=self.points,
            shown=shown,
            last=last,
            missing=self.points[-1] if self.points and not self.points[-1].report else None,
            gauge=last and Gauge.of_report(last),
            plots=pictures(draw) if reports else [],
            views=last and views(last),
            truths=any(c.population_truth is not None for c in self.points),
            highest=-math.log(last.reading.theta) if last and last.reading.theta else None,
            alarm_lines=alarm_lines,
            evidence=evidence,
            guarantees=guarantees,
            how_sure=how_sure,
            decided=any(r.verdict for r in reports),
            ledger=any(r.cost.left is not None for r in reports),
            reasons=add_up(r.cohort.dropouts for r in reports),
            models=[c for c in self.models if c.report],
            seen=who_saw_what,
            picture=lambda symbol: markupsafe.Markup(pattern_svg(symbol, side=72)),
        )

    def _columns(self) -> Mapping[str, Callable[[Report], Any]]:
        return _COLUMNS

    def _rows(self) -> Rows:
        reports = self.reports
        decided = any(report.verdict for report in reports)
        known = any(report.reading.of_population for report in reports)
        ledger = any(report.cost.left is not None for report in reports)
        columns = {
            "check": True,
            "key": any(report.key for report in reports),
            "decision": decided,
            "population": known,
            "truth": any(c.population_truth is not None for c in self.points),
            "bounds": decided,
            "cohort": not known or not any(report.key for report in reports),
            "ε": not ledger,
            "ε left": ledger,
            "clients": True,
        }
        thresholds = sorted({r.verdict.threshold for r in reports if r.verdict})
        caption = "KL(reference ‖ clients) in nats: estimates ± s.d."
        if known:
            caption += " of the population that the clients were drawn from"
        if columns["cohort"]:
            caption += f"{' and' if known else ''} of the cohort's own records"
        if decided:
            levels = sorted({r.verdict.level for r in reports if r.verdict})
            sure = ", ".join(f"{100 * level:g} %" for level in levels)
            caption += (
                f"; bounds: the population's is at least–at most, with probability {sure} each"
            )
        caption += "; ε left of the budget then in force" if ledger else "; ε of a check"
        if thresholds:
            caption += f"; threshold {', '.join(f'{t:g}' for t in thresholds)}"
        return Rows(
            columns={name: name in ("key", "decision") for name, shown in columns.items() if shown},
            rows=[list(compress(_cells(c), columns.values())) for c in self.points],
            marked=[
                c.report is not None and c.report.outcome is Outcome.DRIFT for c in self.points
            ],
            caption=caption,
        )

    def _draw(self, axes: Any, theme: Theme, *, narrow: bool) -> None:
        draw_checks(axes, self.points, theme, self.drift_from)


def _cells(check: Point[Report]) -> tuple[str, ...]:
    report = check.report
    if report is None:
        ended = "none" if check.ended else "not ended"
        truth = _nats(check.population_truth)
        return (str(check.number), "", ended, "none", truth, "–", "none", "–", "–", "–")
    reading = report.reading
    return (
        str(check.number),
        report.key or "",
        report.outcome or "–",
        str(reading.of_population or "none"),
        _nats(check.population_truth),
        "–".join(_nats(bound) for bound in (report.lower_bound, report.upper_limit)),
        _cohorts(reading),
        f"{report.cost.epsilon:.3g}",
        report.cost.rest,
        f"{report.cohort.survivors}/{report.cohort.asked}",
    )


def _cohorts(reading: Reading) -> str:
    """Write the cohort's estimate: in brief, where there is one of the population."""
    own = reading.of_cohort
    if own is None or reading.of_population is None:
        return str(own or "none")
    return _nats(own.value)


def _nats(value: float | None) -> str:
    return "–" if value is None else f"{value:z.3f}"


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
    """The scale of one check, from 0 nats; all but the cohort's estimate is the population's.

    Parameters
    ----------
    threshold : Mark
        Beyond it, a lower bound is a drift.
    bound, limit : Mark or None
        Lower bound and upper limit; None if there is none. The limit may lie beyond the scale.
    estimate : Mark or None
        The population's, or the cohort's where that is all; None if there is none.
    of : str
        Whose estimate that is.
    error : tuple[float, float]
        Two standard deviations either way of the estimate, in per cent.
    """

    threshold: Mark
    bound: Mark | None
    limit: Mark | None
    estimate: Mark | None
    of: str
    error: tuple[float, float]

    @classmethod
    def of_report(cls, report: Report) -> Gauge | None:
        """Lay out a report's numbers; None if it decided nothing."""
        verdict = report.verdict
        if verdict is None:
            return None
        told = next(iter(report.reading.estimates), None)
        low, middle, high = (
            (told.value - 2 * told.deviation, told.value, told.value + 2 * told.deviation)
            if told
            else (0.0, 0.0, 0.0)
        )
        numbers = (verdict.threshold, report.lower_bound or 0.0, high)
        highest = max(*numbers, 1e-9)

        def place(nats: float) -> float:
            return 100 * min(max(nats / (_ROOM * highest), 0.0), 1.0)

        def mark(nats: float) -> Mark:
            at = place(nats)
            return Mark(nats, at, "start" if at < 20 else "end" if at > 80 else "middle")

        bound, limit = report.lower_bound, report.upper_limit
        return cls(
            threshold=mark(verdict.threshold),
            bound=None if bound is None else mark(bound),
            limit=None if limit is None else mark(limit),
            estimate=mark(middle) if told else None,
            of=told.of if told else "",
            error=(place(low), place(high)),
        )
