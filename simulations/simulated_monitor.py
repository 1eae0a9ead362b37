"""The ServerApp of a simulation: monitor a scenario, and write down the truth beside each check.

With a predictor, writers say after each check which kind of drift they follow.
"""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args

import numpy as np
from flwr.app import ArrayRecord, Context, MetricRecord
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import Result

from flwr_kld.common.errors import CheckFailed
from flwr_kld.common.json_text import json_text
from flwr_kld.predictors import BayesMixture, Hypotheses
from flwr_kld.reference import Reference
from flwr_kld.simulations.scenario import Drift, Scenario
from flwr_kld.strategies import (
    Alarm,
    HostedClients,
    KLDrift,
    PrivatePredictor,
    RotatingCohort,
    Trusted,
)

CHECKS_FILE = "checks.jsonl"
"""One line a round: the report (absent if the check failed), the truth about the population and
about the cohort in nats, and the predictor's report if there is one."""
_NODES_TIMEOUT = 120.0


def simulated_monitor() -> ServerApp:
    """Build the app; its run config is that of ``simulations/drift_app/pyproject.toml``."""
    app = ServerApp()

    @app.main()
    def main(grid: Grid, context: Context) -> None:
        config = context.run_config
        _wait_for_nodes(grid, int(config["nodes"]))
        run_monitor(grid, config)

    return app


def run_monitor(grid: Grid, config: dict[str, Any]) -> Result:
    """Run all checks of a simulation on any grid."""
    scenario = Scenario.from_run_config(config)
    scenario.require(int(config["cohort"]))
    predictor = _predictor(scenario, config) if config["predictor"] else None
    threshold = float(config["threshold"])
    monitor = KLDrift(
        scenario.reference,
        Trusted(epsilon=float(config["epsilon"])),
        cells=int(config["cells"]),
        cohort=RotatingCohort(int(config["cohort"])),
        population=HostedClients(),
        threshold=threshold or None,
        alarm=Alarm(horizon=int(config["checks"])) if threshold else None,
    )
    out = Path(str(config["out"])) / CHECKS_FILE
    out.parent.mkdir(parents=True, exist_ok=True)
    with out.open("w", buffering=1) as file:

        def note(server_round: int, _: ArrayRecord) -> MetricRecord | None:
            """Flower calls this after each round (and before the first, as round 0)."""
            if server_round == 0:
                return None
            truths = scenario.truths(monitor.counted, monitor.checks)
            report = monitor.reports.get(server_round)
            line = {"round": server_round, **truths, "report": report and report.to_dict()}
            if predictor is not None:
                line["predictor"] = predictor.ask(grid).to_dict()
            file.write(json_text(line) + "\n")
            return MetricRecord({f"kld.{name}": value for name, value in truths.items()})

        return monitor.start(grid, num_rounds=int(config["checks"]), evaluate_fn=note)


def _predictor(scenario: Scenario, config: dict[str, Any]) -> PrivatePredictor:
    """Return a predictor over every kind of drift, which asks as many writers as a check."""
    candidates = {drift: _candidate(scenario, drift) for drift in get_args(Drift)}
    return PrivatePredictor(
        BayesMixture(Hypotheses(candidates), epsilon=float(config["epsilon"])),
        cohort=RotatingCohort(int(config["cohort"])),
        population=HostedClients(),
    )


def _candidate(scenario: Scenario, drift: Drift) -> Reference:
    """Return the public Π, or what virtual writers write after a drift: others than the clients."""
    if drift == "none":
        return scenario.reference
    others = replace(
        scenario,
        writers=scenario.reference_writers,
        drift=drift,
        drift_from=1,
        seed=scenario.seed + 1,
    )
    domain = scenario.domain
    symbols = (domain.encode(others.write(member, 1).images) for member in others.members)
    counts = sum(np.bincount(own, minlength=domain.size) for own in symbols)
    return Reference.from_counts(domain, np.asarray(counts))


def _wait_for_nodes(grid: Grid, nodes: int) -> None:
    """Wait until the simulated nodes have registered, which is after the ServerApp has started."""
    give_up = time.monotonic() + _NODES_TIMEOUT
    while len(list(grid.get_node_ids())) < nodes:
        if time.monotonic() > give_up:
            raise CheckFailed(
                f"fewer than {nodes} Flower nodes came up within {_NODES_TIMEOUT:.0f} s: set "
                "'nodes' in the run config to the federation's number of SuperNodes"
            )
        time.sleep(0.1)
