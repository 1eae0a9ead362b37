"""A self-contained HTML page about a series of checks: the decision first."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from flwr_kld._extras import require
from flwr_kld.report.gauge import Gauge
from flwr_kld.report.history import Check
from flwr_kld.report.plot import plot_history
from flwr_kld.report.render import add_up, pictures, render
from flwr_kld.report.sight import views, who_saw_what


def save_html(
    checks: Sequence[Check],
    path: Path,
    *,
    title: str,
    subtitle: str = "",
    drift_from: int | None = None,
    models: Sequence[Check] = (),
) -> None:
    """Write the page.

    Parameters
    ----------
    checks : Sequence[Check]
        In order.
    drift_from : int, optional
        Number of the first check with a drift that a simulation injected.
    models : Sequence[Check]
        One check in each trust model, to be shown side by side.

    Raises
    ------
    ImportError
        If jinja2 or matplotlib is not installed; names the extra.
    """
    from flwr_kld.report.explanation import (
        pattern_svg,  # brings scipy.stats, which clients do without
    )

    markupsafe = require("markupsafe", extra="plots")
    shown = next((c for c in reversed(checks) if c.report), None)
    last = shown and shown.report
    reports = [c.report for c in checks if c.report]

    def draw(file: Path, dark: bool, narrow: bool) -> None:
        plot_history(checks, file, drift_from=drift_from, dark=dark, narrow=narrow)

    page = render(
        "page.html.j2",
        title=title,
        subtitle=subtitle,
        checks=checks,
        shown=shown,
        last=last,
        missing=checks[-1] if checks and not checks[-1].report else None,
        gauge=last and Gauge.of(last),
        plots=pictures(draw) if reports else [],
        views=last and views(last),
        truths=any(c.truth is not None for c in checks),
        decided=any(r.verdict for r in reports),
        ledger=any(r.epsilon_left is not None for r in reports),
        reasons=add_up(r.dropouts for r in reports),
        models=[c for c in models if c.report],
        seen=who_saw_what,
        picture=lambda symbol: markupsafe.Markup(pattern_svg(symbol, side=72)),
    )
    path.write_text(page, encoding="utf-8")
