"""A small federation of people whose fruit and juice are checked together, for tests of tables."""

from functools import lru_cache

import numpy as np
from federation import FRUIT
from flwr.app import Context
from flwr.clientapp import ClientApp

from flwr_kld import Reference, Table
from flwr_kld.clients import FirstUse, answer_drift_queries

TABLE = Table({"fruit": FRUIT, "juice": ["yes", "no"]}, interactions=[("fruit", "juice")])
FRUITS, JUICES = [0.4, 0.3, 0.2, 0.1], [0.7, 0.3]
REFERENCE = Reference.from_counts(
    TABLE,
    {
        "fruit": [*FRUITS, 0, 0],
        "juice": [*JUICES, 0, 0],
        "fruit × juice": np.outer([*FRUITS, 0, 0], [*JUICES, 0, 0]).ravel(),
    },
)
"""Nobody has missing values, and who likes juice does not depend on the fruit."""


@lru_cache(maxsize=128)
def drawn(node: int, each: int, fruits: tuple[float, ...], juices: tuple[float, ...]):
    rng = np.random.default_rng(node)
    return {
        "fruit": rng.choice(FRUIT.names, each, p=fruits),
        "juice": rng.choice(["yes", "no"], each, p=juices),
    }


def rows(
    context: Context,
    each: int = 100,
    fruits: tuple[float, ...] = tuple(FRUITS[::-1]),
    juices: tuple[float, ...] = tuple(JUICES),
) -> dict[str, np.ndarray]:
    """A node's rows: by default the fruit has drifted, and the juice has not."""
    return drawn(context.node_id, each, fruits, juices)


def table_app(records=rows, table: Table = TABLE, **options: object) -> ClientApp:
    app = ClientApp()
    answer_drift_queries(app, records, table, **{"secure_sum": FirstUse(), **options})
    return app
