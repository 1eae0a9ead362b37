"""A node that hosts two hundred writers; each is sampled and counted as a client of its own."""

from flwr.app import Context
from flwr.clientapp import ClientApp

from flwr_kld.clients import host_drift_queries
from handwriting.task import DOMAIN, images

WRITERS = 200
app = ClientApp()


def my_writers(context: Context) -> range:
    first = WRITERS * int(context.node_config["partition-id"])
    return range(first, first + WRITERS)


def my_images(context: Context, writer: int):
    return images(writer, slant=float(context.run_config["slant"]))


host_drift_queries(app, my_images, hosted=my_writers, domain=lambda _: DOMAIN)
