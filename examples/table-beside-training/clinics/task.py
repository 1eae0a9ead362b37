"""The table, the model, and how its parameters travel."""

import numpy as np
from flwr.app import Array, ArrayRecord
from sklearn.linear_model import SGDClassifier

from flwr_kld import Binned, Labels, Table

TABLE = Table(
    {
        "age": Binned.uniform(20, 90, 14),
        "bmi": Binned.uniform(16, 44, 14),
        "smoker": Labels(["no", "yes"]),
        "diabetes": Labels(["no", "yes"]),
    }
)


def patients(seed: int, rows: int, weight_gain: float = 0.0) -> dict[str, np.ndarray]:
    """Stand in for the database of a clinic: replace this by your own query."""
    rng = np.random.default_rng(seed)
    age, bmi = rng.normal(55, 12, rows), rng.normal(27, 4, rows) + weight_gain
    smoker = rng.random(rows) < 0.2
    risk = (age - 55) / 12 + (bmi - 27) / 4 + smoker - 1
    ill = rng.random(rows) < 1 / (1 + np.exp(-risk))
    yes_or_no = np.array(["no", "yes"])
    return {
        "age": age,
        "bmi": bmi,
        "smoker": yes_or_no[smoker.astype(int)],
        "diabetes": yes_or_no[ill.astype(int)],
    }


def features(table: dict[str, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """Return inputs, shape [rows, 3], and labels, shape [rows]."""
    inputs = [(table["age"] - 55) / 12, (table["bmi"] - 27) / 4, table["smoker"] == "yes"]
    return np.column_stack(inputs), table["diabetes"] == "yes"


def new_model() -> SGDClassifier:
    model = SGDClassifier(loss="log_loss", learning_rate="constant", eta0=0.01)
    model.classes_ = np.array([False, True])
    model.coef_, model.intercept_ = np.zeros((1, 3)), np.zeros(1)
    return model


def to_arrays(model: SGDClassifier) -> ArrayRecord:
    return ArrayRecord({"coef": Array(model.coef_), "intercept": Array(model.intercept_)})


def from_arrays(arrays: ArrayRecord) -> SGDClassifier:
    model = new_model()
    model.coef_, model.intercept_ = arrays["coef"].numpy(), arrays["intercept"].numpy()
    return model
