"""An app that trains, with the one call that lets it answer drift checks.

All numbers are dyadic, so sums are exact in whatever order replies arrive.
"""

from pathlib import Path

import numpy as np
from flwr.app import Array, ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp

from flwr_kld import Labels
from flwr_kld.clients import answer_drift_queries

EXAMPLES = (1, 1, 2)
app = ClientApp()


@app.train()
def train(message: Message, context: Context) -> Message:
    node = int(context.node_config["partition-id"])
    if ledger := str(context.run_config["ledger"]):
        with Path(ledger).with_suffix(".trained").open("a") as file:
            print(message.content["config"]["server-round"], file=file)
    weights = message.content["arrays"]["weights"].numpy()
    step = np.array([1.0, node, -node, 3.0]) - weights
    metrics = MetricRecord({"loss": float(step @ step), "num-examples": EXAMPLES[node]})
    arrays = ArrayRecord({"weights": Array(weights + step / 2)})
    return Message(RecordDict({"arrays": arrays, "metrics": metrics}), reply_to=message)


def my_records(context: Context) -> list[str]:
    return ["walk", "walk", "bus", "car"] * 25


answer_drift_queries(app, my_records, Labels(["bus", "car", "train", "walk"]))
