"""A node: one call lets it answer, with counts, to whoever keeps its rows hidden."""

from flwr.app import Context
from flwr.clientapp import ClientApp

from analytics.task import TABLE, query_database
from flwr_kld.clients import answer_drift_queries

app = ClientApp()


def people(context: Context):
    return query_database(int(context.node_config["partition-id"]))


answer_drift_queries(app, people, TABLE)
