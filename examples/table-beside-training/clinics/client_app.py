"""A clinic: it trains, and one call more lets it answer drift checks."""

from flwr.app import Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp

from clinics.task import TABLE, features, from_arrays, patients, to_arrays
from flwr_kld.clients import answer_drift_queries

app = ClientApp()


def my_patients(context: Context):
    clinic = int(context.node_config["partition-id"])
    return patients(clinic, rows=2000, weight_gain=float(context.run_config["weight-gain"]))


@app.train()
def train(message: Message, context: Context) -> Message:
    inputs, labels = features(my_patients(context))
    model = from_arrays(message.content["arrays"])
    model.partial_fit(inputs, labels)
    metrics = {"accuracy": model.score(inputs, labels), "num-examples": len(labels)}
    content = RecordDict({"arrays": to_arrays(model), "metrics": MetricRecord(metrics)})
    return Message(content, reply_to=message)


answer_drift_queries(app, my_patients, TABLE)
