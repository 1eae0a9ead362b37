"""A node: `drift-records` in its node config says where its records are, a file or a database."""

from flwr.clientapp import ClientApp

from flwr_kld import Binned, Labels, Table
from flwr_kld.clients import answer_drift_queries, node_records

TRIPS = Table({"mode": Labels(["bus", "car", "train", "walk"]), "km": Binned([1, 2, 5, 10, 20])})

app = ClientApp()
answer_drift_queries(app, node_records, TRIPS)
