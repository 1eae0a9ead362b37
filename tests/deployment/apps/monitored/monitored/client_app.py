"""One app that answers drift checks, secure sums and a predictor."""

from flwr.app import Context
from flwr.clientapp import ClientApp

from flwr_kld import Labels
from flwr_kld.clients import FirstUse, answer_drift_queries, answer_predictor_queries

USUAL = {"bus": 310, "car": 250, "train": 120, "walk": 320}
MOVED = {"bus": 100, "car": 120, "train": 580, "walk": 200}
labels = Labels(sorted(USUAL))
app = ClientApp()


def records(context: Context) -> list[str]:
    """A thousand trips, the same number of each kind on every node."""
    counts = MOVED if context.run_config["moved"] else USUAL
    return [name for name, n in counts.items() for _ in range(n)]


answer_drift_queries(app, records, labels, secure_sum=FirstUse())
answer_predictor_queries(app, records, labels)
