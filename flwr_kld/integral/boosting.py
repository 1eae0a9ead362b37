"""Boosting a density out of a public base: ``Q ∝ Q0 e**F``, F a weighted sum of classifiers.

Husain, Cranko and Nock, Algorithm 1, with three corrections: classifiers really are clamped, the
weak learner of round t sees Q_{t-1} (line 4 says Q_t), and Q_{t-1} is weighted exactly where the
paper samples it by Metropolis-Hastings. Everything that has seen data is private.

How much it must gain, Theorems 6 and 7, is corrected too. As printed they are false: the
low-boosting regime of Theorem 6 omits a factor c*, Lemma 15 (its high-boosting regime) needs
c* = ln 2, and (10) uses Γ(x) >= x ln 2, which holds at x = 1 only. Proof note:
``docs/proofs/integral.md``.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from flwr_kld.integral.base import Floats
from flwr_kld.integral.learners import Classifier, WeakLearner, WeakLearnerError
from flwr_kld.integral.mollifier import check_epsilon
from flwr_kld.kernel.arguments import whole
from flwr_kld.kernel.vector import Private

LN_2 = math.log(2)


def mbde_steps(epsilon: float, rounds: int) -> list[float]:
    """Return the paper's step sizes ``(epsilon / (epsilon + 4 ln 2))**t`` (Lemma 10)."""
    epsilon, rounds = check_epsilon(epsilon), whole("rounds", rounds, least=1)
    ratio = epsilon / (epsilon + 4 * LN_2)
    return [ratio**t for t in range(1, rounds + 1)]


class Points(Private):
    """Where boosting looks: points with the mass that the data and the base put on them."""

    __slots__ = ("base", "features", "records", "target")
    _hidden = frozenset({"base", "features", "records", "target"})

    def __init__(self, features: Floats, target: Floats, base: Floats, records: int) -> None:
        self.features, self.target, self.base, self.records = features, target, base, records


class Boosted(Private):
    """The outcome of boosting: F as a function, and F on the points."""

    __slots__ = ("_clamp", "_classifiers", "fitted")
    _hidden = frozenset({"fitted"})

    def __init__(self, clamp: float, size: int) -> None:
        self._clamp = clamp
        self._classifiers: list[tuple[float, Classifier]] = []
        self.fitted: Floats = np.zeros(size)
        """F on the points that it was fitted to, shape [n]."""

    def add(self, step: float, classifier: Classifier, values: Floats) -> None:
        """Take up one round."""
        self._classifiers.append((step, classifier))
        self.fitted = self.fitted + step * values

    def log_ratio(self, features: Floats) -> Floats:
        """F at other points; features [m, d], F [m]."""
        total = np.zeros(len(features))
        for t, (step, classifier) in enumerate(self._classifiers, 1):
            total += step * clamped(classifier, features, self._clamp, t)
        return total


def boost(
    points: Points, learner: WeakLearner, steps: Sequence[float], *, clamp: float = LN_2
) -> Boosted:
    """Fit F = Σ θ_t c_t."""
    boosted = Boosted(clamp, len(points.base))
    for t, step in enumerate(steps, 1):
        model = tilted(points.base, boosted.fitted)
        try:
            classifier = learner.fit(points.features, points.target, model, points.records)
        except ImportError:
            raise  # says which extra is missing, and holds no data
        except Exception as error:
            raise _failure(t, error) from None
        values = clamped(classifier, points.features, clamp, t)
        boosted.add(step, classifier, values)
    return boosted


def tilted(base: Floats, log_ratio: Floats) -> Floats:
    """Return ``Q ∝ Q0 e**F`` on the same points, shape [n]."""
    mass = base * np.exp(log_ratio - log_ratio.max())
    density: Floats = mass / mass.sum()
    return density


def clamped(classifier: Classifier, features: Floats, clamp: float, round_: int) -> Floats:
    """Evaluate a classifier; what is not a number says nothing (0), the rest is clamped."""
    try:
        values = np.asarray(classifier(features), dtype=np.float64).reshape(len(features))
    except Exception as error:
        raise _failure(round_, error) from None
    return np.clip(np.nan_to_num(values, nan=0.0), -clamp, clamp)


def _failure(round_: int, error: Exception) -> WeakLearnerError:
    # The type only: a message may quote the data.
    return WeakLearnerError(f"the weak learner failed in round {round_} ({type(error).__name__})")
