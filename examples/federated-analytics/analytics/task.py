"""The table: what is public about it, and where a node reads it."""

import numpy as np

from flwr_kld import Binned, Labels, Table

TABLE = Table(
    {
        "age": Binned.uniform(0, 100, 50),
        "height_cm": Binned.uniform(140, 210, 70),
        "weight_kg": Binned.uniform(40, 160, 60),
        "blood_group": Labels(["0", "A", "B", "AB"]),
    }
)


def query_database(node: int) -> dict[str, np.ndarray]:
    """Stand in for the database of a node: replace this by your own query."""
    rng = np.random.default_rng(node)
    people = 2_000 + 1_000 * node  # nodes differ in their size, and in their people
    height = rng.normal(168 + 2 * (node % 3), 9, people)
    weight = rng.normal(24 + node % 2, 3.5, people) * (height / 100) ** 2
    return {
        "age": rng.normal(44 + 3 * node, 17, people).clip(0, 99.9),
        "height_cm": height,
        "weight_kg": np.where(rng.random(people) < 0.03, np.nan, weight),
        "blood_group": rng.choice(["0", "A", "B", "AB"], people, p=[0.41, 0.43, 0.11, 0.05]),
    }
