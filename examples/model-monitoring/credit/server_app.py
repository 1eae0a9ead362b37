"""Train on from a model of public loans; after every fifth round, compare clients with these."""

import numpy as np
from flwr.app import Array, ArrayRecord, Context
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import FedAvg

from credit.task import TABLE, improve, loans, predict
from flwr_kld import Reference, Report
from flwr_kld.strategies import KLDrift, Trusted, WithDriftChecks

app = ServerApp()


def tell(server_round: int, report: Report) -> None:
    print(f"after round {server_round}:")
    for name, column in report.columns.items():
        print(f"  {name}: {column.verdict.outcome}, {column.reading.of_population} nats")
    fit = report.columns["prediction × label"].calibration
    print(f"  accuracy {fit.accuracy.value:.0%}, calibration error {fit.error.value:.2f}")


@app.main()
def main(grid: Grid, context: Context) -> None:
    public = loans(seed=2024, rows=20_000)
    weights = improve(np.zeros(3), public, steps=300)
    public["prediction"] = predict(weights, public)
    reference = Reference.from_frame(TABLE, public, floor=1e-4)  # no combination is impossible
    monitor = KLDrift(reference, Trusted(epsilon=1.0, delta=1e-6), threshold=0.05)
    training = FedAvg(fraction_evaluate=0.0)
    strategy = WithDriftChecks(training, monitor, every=5, on_report=tell, show_model=True)
    arrays = ArrayRecord({"weights": Array(weights)})
    strategy.start(grid, arrays, num_rounds=int(context.run_config["rounds"]))
