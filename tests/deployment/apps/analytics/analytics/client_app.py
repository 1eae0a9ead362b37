import numpy as np
from flwr.app import Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp

from analytics.task import COLUMNS, query_database

app = ClientApp()


def patients(context: Context) -> dict[str, np.ndarray]:
    return query_database(str(context.node_config["database"]), COLUMNS)


@app.query()
def query(message: Message, context: Context) -> Message:
    means = {name: float(np.nanmean(column)) for name, column in patients(context).items()}
    return Message(RecordDict({"means": MetricRecord(means)}), reply_to=message)
