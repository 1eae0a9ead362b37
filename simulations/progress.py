"""What a running simulation has written down so far."""

from __future__ import annotations

import json
import subprocess
import time
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from flwr_kld.report.envelope import Point
from flwr_kld.report.report import Report
from flwr_kld.views import CheckSeries

_POLL = 0.2


def follow(
    run: subprocess.Popen[bytes], file: Path, total: int, *, timeout: float, console: Console
) -> list[Point[Report]]:
    """Show progress until a run ends, or takes more than `timeout` seconds; return its checks."""
    checks: list[Point[Report]] = []
    give_up = time.monotonic() + timeout
    columns = (
        TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn()
    )  # fmt: skip
    with Progress(*columns, console=console) as progress:
        task = progress.add_task("starting Flower and Ray", total=total)
        ended = False
        while not ended and time.monotonic() < give_up:
            ended = run.poll() is not None
            checks = read_checks(file)
            if checks:
                last = checks[-1].report
                said = (
                    f"{last.reading.headline.of} {last.reading.headline} nats"
                    if last
                    else "no number"
                )
                progress.update(
                    task, completed=len(checks), description=f"check {len(checks)}: {said}"
                )
            time.sleep(_POLL)
    return checks


def read_checks(file: Path) -> list[Point[Report]]:
    """Read the whole lines of a file that may still be growing, or not be there yet."""
    if not file.exists():
        return []
    whole = file.read_text().rpartition("\n")[0]
    return [CheckSeries.point_from(json.loads(line)) for line in whole.splitlines()]
