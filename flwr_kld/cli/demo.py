"""``flwr-kld demo``: handwriters on Ray whose data drift from the fifth check on, and a table."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import typer
from rich.box import SIMPLE
from rich.console import Console
from rich.table import Table

from flwr_kld.cli.demo_table import check_flights, require_flights
from flwr_kld.cli.exit_codes import ExitCode
from flwr_kld.report import CheckSeries
from flwr_kld.report.report import Report
from flwr_kld.report.series import Point

_NEEDED = ("ray", "sklearn", "flwr_datasets", "psutil", "matplotlib", "jinja2")
_WRITERS, _NODES, _CHECKS, _DRIFT_FROM, _COHORT = 800, 21, 8, 5, 400
_THRESHOLD = 0.15
_MODELS = 4
_TIMEOUT = 300.0
_FIRST_USE = (
    "[dim]Secure sums: the demo's clients made their keys on first use and believed the server's "
    "list of them; a deployment pins it.[/]"
)


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
    out = out.resolve()
    out.mkdir(parents=True, exist_ok=True)
    console = Console()
    console.print(
        f"[bold]{_WRITERS} simulated handwriters[/] on {_NODES - 1} Flower nodes, and an "
        f"aggregator (Ray); {_COHORT} asked in each check, in two halves; from check {_DRIFT_FROM} "
        f"on, mostly 1 and 7. Tolerated: {_THRESHOLD} nats."
    )
    points, models = _run(out, console)
    if len(points) < _CHECKS or len(models) < _MODELS:
        console.print(f"[red]The run ended early: see {out / 'flower.log'}[/]")
        raise typer.Exit(ExitCode.ERROR)
    checks = CheckSeries(points, drift_from=_DRIFT_FROM, models=models)
    console.print(checks.table(title="KL(reference ‖ clients)"))
    console.print(_models_table(models), *_who_saw_what(models), sep="\n")
    console.print(_FIRST_USE)
    title = "Private drift checks on handwriting"
    subtitle = "Simulation with real handwriting on Ray; the noise is not seeded"
    files = [out / name for name in ("report.html", "history.png", "checks.csv", "checks.json")]
    for file in files:
        checks.save(file, title=title, subtitle=subtitle)
    CheckSeries(models).save(out / "models.csv")
    files += [out / "models.csv", *check_flights(out, console)]
    for file in files:
        console.print(f"  {file}")


def _run(out: Path, console: Console) -> tuple[list[Point[Report]], list[Point[Report]]]:
    """Run the app; return its checks, and the one in each trust model after them."""
    from flwr_kld.messages.sealing import AggregatorKey
    from flwr_kld.simulations import APP  # an extra
    from flwr_kld.simulations.local_superlink import local_superlink
    from flwr_kld.simulations.progress import follow, read_checks
    from flwr_kld.simulations.simulated_monitor import CHECKS_FILE
    from flwr_kld.simulations.trust_models import MODELS_FILE
    from flwr_kld.simulations.virtual_clients import AGGREGATOR_KEY

    for name in (CHECKS_FILE, MODELS_FILE):
        (out / name).unlink(missing_ok=True)
    config = {
        "writers": _WRITERS, "nodes": _NODES, "checks": _CHECKS, "drift-from": _DRIFT_FROM,
        "cohort": _COHORT, "threshold": _THRESHOLD, "compare-models": True, "out": out,
    }  # fmt: skip
    key = out / "aggregator.key"
    key.unlink(missing_ok=True)
    AggregatorKey.generate().save(key)
    with (
        local_superlink(out / "flower.log", {AGGREGATOR_KEY: str(key)}) as superlink,
        superlink.run(APP, nodes=_NODES, config=config) as run,
    ):
        try:
            checks = follow(run, out / CHECKS_FILE, _CHECKS, timeout=_TIMEOUT, console=console)
        finally:
            run.kill()
            key.unlink()
    return checks, read_checks(out / MODELS_FILE)


def _models_table(models: Sequence[Point[Report]]) -> Table:
    table = Table(
        title="The trust models on the same clients, after the drift",
        caption="nats, ± s.d.; bytes for each client, down and up",
        box=SIMPLE, padding=(0, 1, 0, 0), pad_edge=False, show_edge=False,
    )  # fmt: skip
    table.add_column("trust", no_wrap=True)
    for name in ("population", "truth", "cohort", "ε", "delivered", "bytes", "seconds"):
        table.add_column(name, justify="right", no_wrap=True)
    for model in models:
        if report := model.report:
            of_cohort = report.reading.of_cohort
            table.add_row(
                f"{report.protection.trust}\n+ {report.protection.aggregation}",
                str(report.reading.of_population or "none"),
                _nats(model.population_truth),
                _nats(None if of_cohort is None else of_cohort.value),
                f"{report.guarantee.epsilon:g}",
                f"{report.cost.epsilon:.3g}",
                f"{(report.cost.bytes_down or 0) + (report.cost.bytes_up or 0):,.0f}",
                f"{report.cost.seconds:.1f}",
            )
    return table


def _nats(value: float | None) -> str:
    return "–" if value is None else f"{value:.3f}"


def _who_saw_what(models: Sequence[Point[Report]]) -> Iterator[str]:
    for report in (model.report for model in models):
        if report:
            how = report.protection
            yield f"  [bold]{how.trust} + {how.aggregation}[/]: {report.protection.sight.exact}"
