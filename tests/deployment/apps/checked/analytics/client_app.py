import numpy as np
from flwr.app import Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp

from analytics.task import COLUMNS, query_database
from flwr_kld import Binned, Table
from flwr_kld.clients import answer_drift_queries

app = ClientApp()


def patients(context: Context) -> dict[str, np.ndarray]:
    return query_database(str(context.node_config["database"]), COLUMNS)


@app.query()
def query(message: Message, context: Context) -> Message:
    means = {name: float(np.nanmean(column)) for name, column in patients(context).items()}
    return Message(RecordDict({"means": MetricRecord(means)}), reply_to=message)


least, most = [20, 16, 90, 50, 45, 40], [90, 44, 180, 110, 110, 220]  # public
edges = np.linspace(least, most, 15).T
table = Table({name: Binned(cut) for name, cut in zip(COLUMNS, edges, strict=True)})
answer_drift_queries(app, patients, table)
