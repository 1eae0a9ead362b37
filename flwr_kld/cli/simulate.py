"""``flwr-kld simulate``: checks on simulated handwriters, before anything real is spent."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Literal

import typer

from flwr_kld.cli.demo import require_simulation
from flwr_kld.cli.options import AsJson
from flwr_kld.cli.output import messages, print_json, results, say
from flwr_kld.cli.show import failures
from flwr_kld.report import CheckSeries
from flwr_kld.report.report import Report
from flwr_kld.report.series import Point

_RESULTS = "checks.jsonl"


def simulate(
    *,
    out: Annotated[Path, typer.Option(help="Folder for the results.")] = Path("out/simulation"),
    source: Annotated[
        str, typer.Option(help="digits, femnist, an .npz file, or a LEAF folder.")
    ] = "digits",
    writers: Annotated[
        int, typer.Option(min=0, help="Virtual writers; 0 for the source's real ones.")
    ] = 400,
    records: Annotated[int, typer.Option(min=1, help="Images of each virtual writer.")] = 100,
    nodes: Annotated[int, typer.Option(min=1, help="Flower nodes that host the writers.")] = 20,
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
    cells: Annotated[int, typer.Option(min=16, help="Number of cells of the query.")] = 1000,
    epsilon: Annotated[float, typer.Option(help="Epsilon of each check, in nats.")] = 1.0,
    estimator: Annotated[str, typer.Option(help="Name of the estimator.")] = "posterior_counts",
    theta: Annotated[float, typer.Option(min=0, max=1, help="θ of the skewed divergence.")] = 0.01,
    seed: Annotated[int, typer.Option(help="Seed of the data; the noise is never seeded.")] = 1,
    timeout: Annotated[float, typer.Option(min=1, help="Seconds allowed for all checks.")] = 900.0,
    as_json: AsJson = False,
) -> None:
    """Run drift checks on a local Flower simulation; write table, plot and page."""
    require_simulation()
    from flwr_kld.simulations.scenario import Scenario  # an extra

    out = out.resolve()
    out.mkdir(parents=True, exist_ok=True)
    (out / _RESULTS).unlink(missing_ok=True)
    config = {
        "source": source, "writers": writers, "records": records, "nodes": nodes, "checks": checks,
        "cohort": cohort, "drift": drift, "drift-from": drift_from, "cells": cells,
        "epsilon": float(epsilon), "estimator": estimator, "theta": float(theta), "seed": seed,
        "threshold": float(threshold), "out": str(out),
    }  # fmt: skip
    Scenario.from_run_config(config).require(cohort)
    first = drift_from if drift != "none" and drift_from <= checks else None
    points = _run(config, out, nodes=nodes, checks=checks, timeout=timeout)
    found, title = CheckSeries(points, drift_from=first), f"{checks} simulated checks"
    if len(found) < checks:
        raise RuntimeError(f"the run ended after {len(found)} checks: see {out / 'flower.log'}")
    files = [out / name for name in ("report.html", "history.png", "checks.csv", "checks.json")]
    for file in files:
        found.save(file, title=title)
    if as_json:
        print_json(json.loads(found.to_json()))
    else:
        results.print(found.table(title=title))
        results.print(*failures(found), sep="\n")
    for file in files:
        say(f"  {file}")


def _run(
    config: dict[str, object], out: Path, *, nodes: int, checks: int, timeout: float
) -> list[Point[Report]]:
    """Run the app on a SuperLink of its own and follow what it writes down."""
    from flwr_kld.simulations import APP  # an extra
    from flwr_kld.simulations.local_superlink import local_superlink
    from flwr_kld.simulations.progress import follow

    with (
        local_superlink(out / "flower.log") as superlink,
        superlink.run(APP, nodes=nodes, config=config) as run,
    ):
        try:
            return follow(run, out / _RESULTS, checks, timeout=timeout, console=messages)
        finally:
            run.kill()
