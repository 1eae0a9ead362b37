"""A hospital: its operator names key and roster when the SuperNode is started, not this app."""

import numpy as np
from flwr.app import Context
from flwr.clientapp import ClientApp

from flwr_kld import Binned
from flwr_kld.clients import PinnedByNode, answer_drift_queries

STAYS = Binned([1, 2, 3, 5, 8, 13, 21])  # days in hospital
app = ClientApp()


def my_stays(context: Context) -> np.ndarray:
    rng = np.random.default_rng(int(context.node_config["hospital"]))
    return rng.gamma(2, 3, size=2000)  # replace this by a query of your own


answer_drift_queries(app, my_stays, STAYS, secure_sum=PinnedByNode())
