"""A small federation of people who like fruit, for tests of the strategy."""

from collections.abc import Callable, Sequence

import numpy as np
from flwr.app import Context, Message
from flwr.clientapp import ClientApp

from flwr_kld import Labels, Reference
from flwr_kld.clients import answer_drift_queries
from flwr_kld.simulations.in_process_grid import InProcessGrid

FRUIT = Labels(["apple", "banana", "cherry", "durian"])
REFERENCE = Reference.from_probabilities(FRUIT, [0.4, 0.3, 0.2, 0.1])
SHARES = (0.1, 0.2, 0.3, 0.4, 0.0, 0.0)
"""Of each fruit, of other records and of missing ones."""
FAR = 12
"""Standard deviations of its noise that an estimate is off with probability 4e-8 at most:
e^(-12 √2) for Laplace noise, less for Gaussian noise and for sums."""


def basket(context: Context, each: int = 100, shares: Sequence[float] = SHARES) -> list[str]:
    """A node's records: `each` in all, in the same shares on every node, in an order of its own."""
    counts = (np.array(shares) * each).astype(int)
    records = [
        name
        for name, n in zip(FRUIT.names, counts[: len(FRUIT.names)], strict=True)
        for _ in range(n)
    ]
    return np.random.default_rng(context.node_id).permutation(records).tolist()


def app_of(records: Callable[[Context], object] = basket, **options: object) -> ClientApp:
    app = ClientApp()
    answer_drift_queries(app, records, FRUIT, **options)
    return app


def grid_of(
    app: ClientApp | None = None,
    nodes: int = 20,
    lose: Callable[[Message], bool] | None = None,
) -> InProcessGrid:
    return InProcessGrid(app or app_of(), nodes, lose=lose)
