"""Runs named checks one after the other, each when the test lets it; a JSON line for each.

The test and this app take turns by files in the folder `control`: ``<name>.ready`` from here,
``<name>.go`` from there.
"""

import json
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from flwr.app import Context
from flwr.serverapp import Grid, ServerApp

from flwr_kld import Labels, Reference
from flwr_kld.ask.cohort import Participant
from flwr_kld.common.errors import CheckFailed
from flwr_kld.secure_sums import Roster
from flwr_kld.strategies import Distributed, KLDrift, SecureSum, Trusted, TrustedAggregator
from flwr_kld.strategies.population import Nodes
from secured.pinned import AGGREGATOR

PATIENCE, IMPATIENCE = 90.0, 25.0
"""Seconds to wait for replies: where all that are asked will answer, and where one will not."""
reference = Reference.from_counts(Labels(["bus", "car", "train", "walk"]), [310, 250, 120, 320])
app = ServerApp()


@dataclass(frozen=True)
class Hospitals:
    """Who was there at first: nodes that stop are asked, the aggregator that comes later is not."""

    at_first: list[Participant]

    def present(self, grid: Grid, timeout: float) -> list[Participant]:
        return self.at_first


def checks(hospitals: Hospitals, roster: Roster) -> Iterator[tuple[str, KLDrift]]:
    """The checks by name, in order."""
    shares = Distributed(epsilon=3.0, min_clients=3)

    def monitor(trust, aggregation=None, timeout: float = PATIENCE) -> KLDrift:
        return KLDrift(
            reference, trust, aggregation=aggregation, population=hospitals, timeout=timeout
        )

    yield "trusted", monitor(Trusted(epsilon=4.0))
    yield "aggregated", monitor(TrustedAggregator(epsilon=3.0, aggregator=AGGREGATOR))
    yield "distributed", monitor(shares, SecureSum(roster=roster), IMPATIENCE)


@app.main()
def main(grid: Grid, context: Context) -> None:
    config = context.run_config
    control = Path(str(config["control"]))
    while len(list(grid.get_node_ids())) < int(config["clients"]):
        time.sleep(0.2)
    hospitals = Hospitals(Nodes().present(grid, PATIENCE))
    roster = Roster.from_json(Path(str(config["roster"])).read_text())
    for name, monitor in checks(hospitals, roster):
        (control / f"{name}.ready").touch()
        while not (control / f"{name}.go").exists():
            time.sleep(0.05)
        try:
            found = monitor.check(grid).to_dict()
        except CheckFailed as error:
            found = {"failed": str(error)}
        print("CHECK", json.dumps({"name": name, **found}))
