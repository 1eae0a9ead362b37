"""A node that holds one writer's partition of FEMNIST."""

from flwr.app import Context
from flwr.clientapp import ClientApp

from flwr_kld import BlockPatterns
from flwr_kld.clients import answer_drift_queries
from flwr_kld.clients.handwriting import load_femnist

PATTERNS = BlockPatterns(faint=0.02, crop=True)  # which of a character's 4×4 blocks are background
app = ClientApp()


def my_images(context: Context):
    writer = int(context.node_config["partition-id"])
    return load_femnist([writer], dataset=context.run_config["dataset"]).images


answer_drift_queries(app, my_images, PATTERNS)
