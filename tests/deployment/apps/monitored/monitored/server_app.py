"""Makes a reference, or takes the steps that the run config names, all on one ledger.

A step prints a JSON line.
"""

import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from flwr.app import Context
from flwr.serverapp import Grid, ServerApp

from flwr_kld import Reference
from flwr_kld.ledger import Ledger, LedgerError
from flwr_kld.predictors import BayesMixture, Hypotheses
from flwr_kld.strategies import (
    Distributed,
    KLDrift,
    PrivatePredictor,
    SecureSum,
    Statistics,
    Trusted,
)
from flwr_kld.trust import Trust
from monitored.client_app import MOVED, USUAL, labels

EPSILON, REPORT_EPSILON = 1.0, 2.0
"""Of a check or a reference; of a predictor's report."""
THRESHOLD = 0.1
PATIENCE = 90.0
usual, moved = (Reference.from_counts(labels, list(c.values())) for c in (USUAL, MOVED))
app = ServerApp()


@dataclass(frozen=True)
class Steps:
    """What can be done; each method's name is the step's, its argument the step's key."""

    grid: Grid
    ledger: Ledger
    reference: Path

    def check(self, key: str) -> dict:
        """Compare clients with that reference."""
        return self._check(key, Trusted(EPSILON))

    def shares(self, key: str) -> dict:
        """Compare them through a secure sum, to which clients add the noise."""
        return self._check(key, Distributed(EPSILON, min_clients=3), SecureSum())

    def _check(self, key: str, trust: Trust, aggregation: SecureSum | None = None) -> dict:
        monitor = KLDrift(
            Reference.load(self.reference),
            trust,
            aggregation=aggregation,
            threshold=THRESHOLD,
            ledger=self.ledger,
            timeout=PATIENCE,
        )
        return monitor.check(self.grid, key).to_dict()

    def learn(self, _: str) -> dict:
        """One round of the predictor, from where the ledger says that it is."""
        candidates = Hypotheses({"usual": usual, "moved": moved})
        predictor = PrivatePredictor(
            BayesMixture(candidates, REPORT_EPSILON), ledger=self.ledger, timeout=PATIENCE
        )
        before = dict(zip(candidates.names, predictor.predictor.weights.tolist(), strict=True))
        return {"before": before, **predictor.ask(self.grid).to_dict()}


def make_reference(grid: Grid, ledger: Ledger, key: str) -> None:
    """Make a reference of what clients hold; the ledger keeps it."""
    trust = Distributed(EPSILON, min_clients=2)
    statistics = Statistics(labels, trust, aggregation=SecureSum(), ledger=ledger, timeout=PATIENCE)
    statistics.ask(grid, key)


@app.main()
def main(grid: Grid, context: Context) -> None:
    config = context.run_config
    while len(list(grid.get_node_ids())) < int(config["nodes"]):
        time.sleep(0.2)
    ledger = Ledger(str(config["ledger"]))
    if key := str(config["drift-statistics"]):
        make_reference(grid, ledger, key)
        return
    steps = Steps(grid, ledger, Path(str(config["reference"])))
    for step in str(config["steps"]).split():
        name, _, key = step.partition(":")
        take: Callable[[str], dict] = getattr(steps, name)
        try:
            found = take(key)
        except LedgerError as error:
            found = {"refused": type(error).__name__}
        print("STEP", json.dumps({"step": step, "spent": ledger.spent().epsilon, **found}))
