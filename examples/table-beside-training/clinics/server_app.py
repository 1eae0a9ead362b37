"""FedAvg, and after every fifth round a drift check of all columns."""

from flwr.app import Context
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import FedAvg

from clinics.task import TABLE, new_model, patients, to_arrays
from flwr_kld import Reference, Report
from flwr_kld.strategies import KLDrift, Retrain, Trusted, WithDriftChecks

app = ServerApp()
reference = Reference.from_frame(TABLE, patients(seed=2024, rows=50_000))  # a public survey, say


def tell(server_round: int, report: Report) -> None:
    print(f"after round {server_round}: {report.outcome}")
    for name, column in report.columns.items():
        print(f"  {name}: {column.verdict.outcome}, {column.reading.of_population} nats")


@app.main()
def main(grid: Grid, context: Context) -> None:
    monitor = KLDrift(reference, Trusted(epsilon=1.0, delta=1e-6), threshold=0.05)
    training = FedAvg(fraction_evaluate=0.0)
    strategy = WithDriftChecks(
        training, monitor, every=5, on_report=tell, on_drift=Retrain(rounds=5), suggest=False
    )
    result = strategy.start(
        grid, to_arrays(new_model()), num_rounds=int(context.run_config["rounds"])
    )
    last = max(result.train_metrics_clientapp)
    print(f"accuracy {result.train_metrics_clientapp[last]['accuracy']:.2f}")
