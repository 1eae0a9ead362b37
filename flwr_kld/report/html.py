"""A self-contained HTML page about a series of checks: the decision first."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from flwr_kld._extras import require
from flwr_kld.report.gauge import Gauge
from flwr_kld.report.history import Check
from flwr_kld.report.plot import plot_history
from flwr_kld.report.sight import views, who_saw_what

_TEMPLATES = Path(__file__).parent / "page"
_DARK, _NARROW = "(prefers-color-scheme: dark)", "(max-width: 40rem)"


@dataclass(frozen=True)
class _Plot:
    """One rendering of the history.

    Parameters
    ----------
    media : str
        Media query under which a browser takes it.
    data : str
        The SVG, as a ``data:`` address.
    """

    media: str
    data: str


def save_html(
    checks: Sequence[Check],
    path: Path,
    *,
    title: str,
    subtitle: str = "",
    drift_from: int | None = None,
    budget: float | None = None,
    models: Sequence[Check] = (),
) -> None:
    """Write the page.

    Parameters
    ----------
    checks : Sequence[Check]
        In order.
    drift_from : int, optional
        Number of the first check with a drift that a simulation injected.
    budget : float, optional
        Epsilon of the budget's window, in nats.
    models : Sequence[Check]
        One check in each trust model, to be shown side by side.

    Raises
    ------
    ImportError
        If jinja2 or matplotlib is not installed; names the extra.
    """
    from flwr_kld.explain import pattern_svg  # brings scipy.stats, which clients do without

    jinja2 = require("jinja2", extra="plots")
    markupsafe = require("markupsafe", extra="plots")
    environment = jinja2.Environment(loader=jinja2.FileSystemLoader(_TEMPLATES), autoescape=True)
    environment.filters.update(nats=_nats, at_least=_at_least, percent=_percent, sentence=_sentence)
    shown = next((c for c in reversed(checks) if c.report), None)
    last = shown and shown.report
    reports = [c.report for c in checks if c.report]
    page = environment.get_template("page.html.j2").render(
        title=title,
        subtitle=subtitle,
        checks=checks,
        shown=shown,
        last=last,
        failed=checks[-1] if checks and not checks[-1].report else None,
        gauge=last and Gauge.of(last),
        plots=_plots(checks, drift_from, budget) if checks else [],
        views=last and views(last),
        truths=any(c.truth is not None for c in checks),
        decided=any(r.verdict for r in reports),
        ledger=any(r.epsilon_left is not None for r in reports),
        reasons=_reasons(checks),
        budget=budget,
        models=[c for c in models if c.report],
        seen=who_saw_what,
        when=_when,
        picture=lambda symbol: markupsafe.Markup(pattern_svg(symbol, side=72)),
    )
    path.write_text(page, encoding="utf-8")


def _plots(checks: Sequence[Check], drift_from: int | None, budget: float | None) -> list[_Plot]:
    """Draw the history for every kind of screen; the first is for the rest."""
    plots = []
    with TemporaryDirectory() as folder:
        picture = Path(folder) / "history.svg"
        for media, dark, narrow in (
            ("", False, False),
            (f"{_DARK} and {_NARROW}", True, True),
            (_DARK, True, False),
            (_NARROW, False, True),
        ):
            plot_history(
                checks, picture, drift_from=drift_from, budget=budget, dark=dark, narrow=narrow
            )
            data = base64.b64encode(picture.read_bytes()).decode()
            plots.append(_Plot(media, f"data:image/svg+xml;base64,{data}"))
    return plots


def _reasons(checks: Sequence[Check]) -> list[tuple[str, int]]:
    """Add up the clients left out, by reason."""
    total: dict[str, int] = {}
    for check in checks:
        for reason, clients in (check.report.dropouts if check.report else {}).items():
            total[reason] = total.get(reason, 0) + clients
    return list(total.items())


def _nats(value: Any) -> str:
    return "–" if value is None else f"{value:.3f}"


def _at_least(bound: float | None) -> str:
    """Write a lower bound: a negative one says no more than 0, which all divergences reach."""
    return _nats(bound if bound is None else max(bound, 0.0))


def _percent(share: float) -> str:
    return f"{share:.2%}" if share >= 0.001 else f"{share:.2g}"


def _sentence(words: str) -> str:
    """Start with a capital and end with a full stop."""
    return words[:1].upper() + words[1:] + ("" if words.endswith((".", "!", "?")) else ".")


def _when(started: str) -> str:
    return f"{datetime.fromisoformat(started).astimezone(UTC):%Y-%m-%d %H:%M}"
