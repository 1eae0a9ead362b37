"""A bank: it trains, and its drift checks see what the model of the round predicts."""

import numpy as np
from flwr.app import Array, ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp

from credit.task import TABLE, improve, loans, predict
from flwr_kld.clients import answer_drift_queries

app = ClientApp()


def my_loans(context: Context) -> dict[str, np.ndarray]:
    bank = int(context.node_config["partition-id"])
    return loans(bank, rows=2000, crisis=float(context.run_config["crisis"]))


def with_predictions(context: Context, arrays: ArrayRecord) -> dict[str, np.ndarray]:
    table = my_loans(context)
    return {**table, "prediction": predict(arrays["weights"].numpy(), table)}


@app.train()
def train(message: Message, context: Context) -> Message:
    table = my_loans(context)
    weights = improve(message.content["arrays"]["weights"].numpy(), table, steps=1)
    arrays = ArrayRecord({"weights": Array(weights)})
    metrics = MetricRecord({"num-examples": len(table["label"])})
    return Message(RecordDict({"arrays": arrays, "metrics": metrics}), reply_to=message)


answer_drift_queries(app, with_predictions, TABLE, with_model=True)
