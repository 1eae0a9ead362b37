"""A predictor's rounds as a terminal shows them."""

from __future__ import annotations

from collections.abc import Sequence

from rich.box import SIMPLE
from rich.markup import escape
from rich.table import Table

from flwr_kld.report import Round
from flwr_kld.report.words import left_of


def rounds_table(rounds: Sequence[Round], *, title: str = "") -> Table:
    """Return rounds as a table, oldest first."""
    caption = (
        "nats; lies that the leader outlasts; ε of a round, and left of the budget then in force"
    )
    table = Table(
        title=escape(title), caption=caption, box=SIMPLE, padding=(0, 1, 0, 0), pad_edge=False
    )
    for name in ("round", "leader", "weight", "log-odds", "lies", "ε", "left", "reports"):
        table.add_column(name, justify="left" if name == "leader" else "right", overflow="fold")
    for one in rounds:
        table.add_row(*map(escape, _cells(one)))
    return table


def _cells(one: Round) -> tuple[str, ...]:
    report = one.report
    if report is None:
        return (str(one.number), "none" if one.ended else "not ended", *["–"] * 6)
    return (
        str(one.number),
        report.leader,
        f"{report.weights[report.leader]:.1%}",
        f"{report.log_odds:.2f}",
        f"{report.outlasts:,}",
        f"{report.epsilon:.3g}",
        left_of(report.epsilon_left, report.epsilon_budget),
        f"{report.taken}/{report.asked}",
    )
