"""How many failures chance makes: bounds that a statistical test computes and does not choose."""

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike
from scipy.stats import binom

ERROR = 1e-6
"""How often a bound is exceeded by chance. A test that asks fifty of them fails at 5e-5."""


def most(runs: int, rate: float, error: float = ERROR) -> int:
    """Failures of so many runs at most, if each fails at this rate."""
    return int(binom.isf(error, runs, rate))


def hold(held: Sequence[ArrayLike], level: float = 0.95) -> bool:
    """Whether intervals, one or several in each run, hold the truth as often as they say."""
    return bool((np.sum(~np.asarray(held, bool), axis=0) <= most(len(held), 1 - level)).all())


def gaussian_delta(mu: float, epsilon: float) -> float:
    """Delta of a Gaussian that moves by mu deviations (Balle and Wang 2018, Theorem 8)."""

    def upper(x):
        return math.erfc(x / math.sqrt(2)) / 2

    return upper(epsilon / mu - mu / 2) - math.exp(epsilon) * upper(epsilon / mu + mu / 2)
