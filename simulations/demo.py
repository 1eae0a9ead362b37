"""``make demo``: a federation of handwriters on Ray, eight checks, drift from the fifth."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from rich.console import Console
from rich.table import Table

from flwr_kld.cli.show import checks_table
from flwr_kld.cli.signals import exit_on_signals
from flwr_kld.messages.sealing import AggregatorKey
from flwr_kld.report import (
    Check,
    plot_history,
    save_csv,
    save_html,
    save_json,
    who_saw_what,
)
from flwr_kld.simulations.following import follow, read_checks
from flwr_kld.simulations.local_superlink import local_superlink
from flwr_kld.simulations.simulated_monitor import CHECKS_FILE
from flwr_kld.simulations.trust_models import MODELS_FILE
from flwr_kld.simulations.virtual_clients import AGGREGATOR_KEY

APP = Path(__file__).parent / "drift_app"
WRITERS, NODES, CHECKS, DRIFT_FROM, COHORT = 800, 21, 8, 5, 400
THRESHOLD = 0.15
MODELS = 4
_TIMEOUT = 300.0
_FIRST_USE = (
    "[dim]Secure sums: the demo's clients made their keys on first use and believed the server's "
    "list of them; a deployment pins it.[/]"
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the demo; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("out/demo"), help="folder for results")
    out: Path = parser.parse_args(arguments).out.resolve()
    out.mkdir(parents=True, exist_ok=True)
    for name in (CHECKS_FILE, MODELS_FILE):
        (out / name).unlink(missing_ok=True)
    console = Console()
    console.print(
        f"[bold]{WRITERS} simulated handwriters[/] on {NODES - 1} Flower nodes, and an aggregator "
        f"(Ray); {COHORT} asked in each check, in two halves; from check {DRIFT_FROM} on, mostly 1 "
        f"and 7. Tolerated: {THRESHOLD} nats."
    )
    config = {
        "writers": WRITERS, "nodes": NODES, "checks": CHECKS, "drift-from": DRIFT_FROM,
        "cohort": COHORT, "threshold": THRESHOLD, "compare-models": True, "out": out,
    }  # fmt: skip
    key = out / "aggregator.key"
    key.unlink(missing_ok=True)
    AggregatorKey.generate().save(key)
    with (
        local_superlink(out / "flower.log", {AGGREGATOR_KEY: str(key)}) as superlink,
        superlink.run(APP, nodes=NODES, config=config) as run,
    ):
        try:
            checks = follow(run, out / CHECKS_FILE, CHECKS, timeout=_TIMEOUT, console=console)
        finally:
            run.kill()
            key.unlink()
    models = read_checks(out / MODELS_FILE)
    if len(checks) < CHECKS or len(models) < MODELS:
        console.print(f"[red]The run ended early: see {out / 'flower.log'}[/]")
        return 4
    console.print(checks_table(checks, title="KL(reference ‖ clients)"))
    console.print(_models_table(models), *_who_saw_what(models), sep="\n")
    console.print(_FIRST_USE)
    title = "Private drift checks on handwriting"
    plot_history(checks, out / "history.png", drift_from=DRIFT_FROM, title=title)
    save_html(
        checks,
        out / "report.html",
        title=title,
        subtitle="Simulation with real handwriting on Ray; the noise is not seeded",
        drift_from=DRIFT_FROM,
        models=models,
    )
    save_csv(checks, out / "checks.csv")
    save_json(checks, out / "checks.json")
    save_csv(models, out / "models.csv")
    for name in ("report.html", "history.png", "checks.csv", "checks.json", "models.csv"):
        console.print(f"  {out / name}")
    return 0


def _models_table(models: Sequence[Check]) -> Table:
    table = Table(title="The trust models on the same clients, after the drift")
    table.add_column("trust + aggregation")
    for name in ("estimate", "truth", "ε", "ε delivered", "bytes", "seconds"):
        table.add_column(name, justify="right")
    for model in models:
        if report := model.report:
            table.add_row(
                f"{report.trust} + {report.aggregation}",
                f"{report.estimate:.3f}",
                f"{model.truth:.3f}",
                f"{report.epsilon:g}",
                f"{report.delivered:.3g}",
                f"{report.bytes_down + report.bytes_up:,.0f}",
                f"{report.seconds:.1f}",
            )
    table.caption = "bytes for each client, down and up"
    return table


def _who_saw_what(models: Sequence[Check]) -> Iterator[str]:
    for report in (model.report for model in models):
        if report:
            yield f"  [bold]{report.trust} + {report.aggregation}[/]: {who_saw_what(report)}"


if __name__ == "__main__":
    with exit_on_signals():
        sys.exit(main())
