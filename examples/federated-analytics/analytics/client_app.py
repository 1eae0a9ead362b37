"""A node: one call lets it answer, with counts, to whoever keeps its rows hidden."""

from flwr.app import Context
from flwr.clientapp import ClientApp

from analytics.task import TABLE, query_database
from flwr_kld.clients import answer_drift_queries, node_records

app = ClientApp()


def people(context: Context):
    """Make up the people of a simulated node; read what a SuperNode's configuration names."""
    if "drift-records" in context.node_config:
        return node_records(context)
    return query_database(int(context.node_config["partition-id"]))


answer_drift_queries(app, people, TABLE)
