"""A self-contained HTML page about a predictor: what clients follow, and how surely."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from flwr_kld.report.predictor_history import Round
from flwr_kld.report.predictor_plot import plot_rounds
from flwr_kld.report.render import add_up, pictures, render
from flwr_kld.report.sight import LOCAL_VIEWS


def save_predictor_html(
    rounds: Sequence[Round],
    path: Path,
    *,
    title: str,
    subtitle: str = "",
) -> None:
    """Write the page.

    Parameters
    ----------
    rounds : Sequence[Round]
        In order.

    Raises
    ------
    ImportError
        If jinja2 or matplotlib is not installed; names the extra.
    """
    shown = next((r for r in reversed(rounds) if r.report), None)
    reports = [r.report for r in rounds if r.report]

    def draw(file: Path, dark: bool, narrow: bool) -> None:
        plot_rounds(rounds, file, dark=dark, narrow=narrow)

    page = render(
        "predictor.html.j2",
        title=title,
        subtitle=subtitle,
        rounds=rounds,
        shown=shown,
        last=shown and shown.report,
        missing=rounds[-1] if rounds and not rounds[-1].report else None,
        plots=pictures(draw) if rounds else [],
        views=LOCAL_VIEWS,
        bounded=any(r.risk_bound is not None for r in reports),
        ledger=any(r.epsilon_left is not None for r in reports),
        reasons=add_up(r.rejected for r in reports),
    )
    path.write_text(page, encoding="utf-8")
