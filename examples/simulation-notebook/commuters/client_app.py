"""A client: its records follow the drift that the run config sets."""

from flwr.app import Context
from flwr.clientapp import ClientApp

from commuters.task import MODES, commutes
from flwr_kld.clients import answer_drift_queries

app = ClientApp()


def my_commutes(context: Context) -> list[str]:
    client = int(context.node_config["partition-id"])
    return commutes(client, float(context.run_config["less-cycling"]))


answer_drift_queries(app, my_commutes, MODES)
