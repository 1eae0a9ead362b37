"""What boosting needs of a learner: tell the data from the present model, a little."""

from __future__ import annotations

from typing import Protocol

from flwr_kld.integral.base import Floats


class WeakLearnerError(RuntimeError):
    """A weak learner failed. Says in which round, never with which data."""


class Classifier(Protocol):
    """A function from points to the log odds that they come from the data."""

    def __call__(self, features: Floats) -> Floats:
        """Return one number for each point; features [n, d], numbers [n]."""
        ...


class WeakLearner(Protocol):
    """Learns to tell two weighted sets of the same points apart."""

    def fit(self, features: Floats, target: Floats, model: Floats, records: int) -> Classifier:
        """Fit a classifier."""
        # Shapes: features [n, d], target [n], model [n].
        ...
