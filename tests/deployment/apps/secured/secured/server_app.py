"""Runs named checks one after the other, each when the test lets it; a JSON line for each.

The test and this app take turns by files in the folder `control`: ``<name>.ready`` from here,
``<name>.go`` from there.
"""

import json
import time
from collections.abc import Iterator
from pathlib import Path

from flwr.app import Context
from flwr.serverapp import Grid, ServerApp

from flwr_kld import Labels, Reference
from flwr_kld.errors import CheckFailed
from flwr_kld.secure_sum import Roster
from flwr_kld.strategies import Distributed, KLDrift, Nodes, Participant, SecureSum, Trusted

PATIENCE, IMPATIENCE = 90.0, 25.0
"""Seconds to wait for replies: where all that are asked will answer, and where one will not."""
reference = Reference.from_counts(Labels(["bus", "car", "train", "walk"]), [310, 250, 120, 320])
app = ServerApp()


class EverybodySeen(Nodes):
    """Whoever was connected at some time: also nodes that stopped are asked."""

    def __init__(self) -> None:
        self._seen: set[Participant] = set()

    def present(self, grid: Grid, timeout: float) -> list[Participant]:
        self._seen.update(super().present(grid, timeout))
        return sorted(self._seen, key=lambda participant: participant.node)


def checks(roster: Roster) -> Iterator[tuple[str, KLDrift]]:
    """The checks by name, in order; a further trust model is a further line."""
    clients, summing = EverybodySeen(), SecureSum(roster=roster)
    shares = Distributed(epsilon=3.0, min_survivors=3)

    def monitor(
        trust: Trusted | Distributed,
        aggregation: SecureSum | None = None,
        timeout: float = PATIENCE,
    ) -> KLDrift:
        return KLDrift(
            reference, trust, aggregation=aggregation, population=clients, timeout=timeout
        )

    yield "trusted", monitor(Trusted(epsilon=3.0))
    yield "stopped-before", monitor(shares, summing)
    yield "killed-during", monitor(shares, summing, IMPATIENCE)


@app.main()
def main(grid: Grid, context: Context) -> None:
    config = context.run_config
    control = Path(str(config["control"]))
    while len(list(grid.get_node_ids())) < int(config["clients"]):
        time.sleep(0.2)
    for name, monitor in checks(Roster.from_json(Path(str(config["roster"])).read_text())):
        (control / f"{name}.ready").touch()
        while not (control / f"{name}.go").exists():
            time.sleep(0.05)
        try:
            found = monitor.check(grid).to_dict()
        except CheckFailed as error:
            found = {"failed": str(error)}
        print("CHECK", json.dumps({"name": name, **found}))
