"""The trust models side by side: one check each, on the same clients at the same time."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from flwr.serverapp import Grid

from flwr_kld.codec.model import json_text
from flwr_kld.query.partition import Partition
from flwr_kld.simulations.scenario import Scenario
from flwr_kld.simulations.virtual_clients import simulated_aggregator
from flwr_kld.strategies import (
    Distributed,
    HostedClients,
    KLDrift,
    RotatingCohort,
    SecureSum,
    Trusted,
    TrustedAggregator,
)
from flwr_kld.strategies.aggregation import Aggregation
from flwr_kld.trust import Trust

MODELS_FILE = "models.jsonl"
"""One line a trust model: its report, and the truth about population and cohort in nats."""
_SURVIVORS = 0.8
"""Part of the cohort that distributed noise is sized for."""


def trust_models(epsilon: float, cohort: int) -> Iterator[tuple[Trust, Aggregation | None]]:
    """Yield each model with its aggregation, all at the same epsilon."""
    yield Trusted(epsilon=epsilon), None
    yield Trusted(epsilon=epsilon), SecureSum()
    if aggregator := simulated_aggregator():
        yield TrustedAggregator(epsilon=epsilon, aggregator=aggregator), None
    yield Distributed(epsilon=epsilon, min_clients=int(_SURVIVORS * cohort)), SecureSum()


def compare_models(grid: Grid, config: dict[str, Any], at_check: int) -> None:
    """Run one check in each model and write `MODELS_FILE`."""
    scenario = Scenario.from_run_config(config)
    # As many as a check's estimate is about: half of them where it decides.
    size = int(config["cohort"]) // (2 if float(config["threshold"]) else 1)
    with (Path(str(config["out"])) / MODELS_FILE).open("w", buffering=1) as file:
        for trust, aggregation in trust_models(float(config["epsilon"]), size):
            monitor = KLDrift(
                scenario.reference,
                trust,
                aggregation=aggregation,
                plan=Partition(cells=int(config["cells"])),
                cohort=RotatingCohort(size),
                population=HostedClients(),
                theta=float(config["theta"]),
            )
            monitor.checks = at_check - 1
            report = monitor.check(grid)
            truths = scenario.truths(monitor.counted, at_check, monitor.theta)
            line = {"round": at_check, **truths, "report": report.to_dict()}
            file.write(json_text(line) + "\n")
