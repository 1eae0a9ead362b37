"""Loans: their table, and a logistic regression that predicts which will fail."""

import numpy as np

from flwr_kld import Binned, Labels, Table

TABLE = Table(
    {
        "income": Binned.uniform(0, 100, 10),
        "debt": Binned.uniform(0, 50, 10),
        "prediction": Binned.uniform(0, 1, 10),
        "label": Labels(["paid", "failed"]),
    },
    interactions=[("prediction", "label")],
)


def loans(seed: int, rows: int, crisis: float = 0.0) -> dict[str, np.ndarray]:
    """Stand in for a bank's table of loans: replace this by your own query."""
    rng = np.random.default_rng(seed)
    income, debt = rng.gamma(6, 8, rows), rng.gamma(4, 5, rows)
    failed = rng.random(rows) < sigmoid((debt - 20) / 5 - (income - 48) / 20 - 1 + crisis)
    label = np.where(failed, "failed", "paid")
    return {"income": income, "debt": debt, "label": label}


def predict(weights: np.ndarray, table: dict[str, np.ndarray]) -> np.ndarray:
    """Return the probability that each loan fails, shape [rows]."""
    return sigmoid(inputs(table) @ weights)


def improve(weights: np.ndarray, table: dict[str, np.ndarray], steps: int) -> np.ndarray:
    """Descend the mean log loss."""
    x, failed = inputs(table), table["label"] == "failed"
    for _ in range(steps):
        weights = weights - 0.5 * x.T @ (sigmoid(x @ weights) - failed) / len(x)
    return weights


def inputs(table: dict[str, np.ndarray]) -> np.ndarray:
    ones = np.ones(len(table["income"]))
    return np.column_stack([(table["income"] - 48) / 20, (table["debt"] - 20) / 10, ones])


def sigmoid(x: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-np.clip(x, -500, 500)))
