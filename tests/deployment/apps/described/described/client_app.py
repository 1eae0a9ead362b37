"""A clinic that answers whatever is asked of its table."""

from flwr.app import Context
from flwr.clientapp import ClientApp

from flwr_kld import Binned, Labels, Table
from flwr_kld.clients import answer_drift_queries, node_records

TABLE = Table({"age": Binned.uniform(0, 100, 20), "job": Labels(["baker", "nurse", "teacher"])})


def ids(context: Context):
    return node_records(context)["id"]


app = ClientApp()
answer_drift_queries(app, node_records, TABLE, record_ids=ids, discover={"job"})
