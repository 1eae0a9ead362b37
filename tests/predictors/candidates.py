"""Small hypotheses for the tests."""

import numpy as np
from numbered import Numbered

from flwr_kld.predictors import Hypotheses
from flwr_kld.predictors.laws import Laws
from flwr_kld.reference import Reference


def random_laws(hypotheses: int, labels: int, seed: int = 0) -> Laws:
    return Laws(np.random.default_rng(seed).dirichlet(np.ones(labels), hypotheses))


def named(table, *, floor: float = 0.0) -> Hypotheses:
    """Constant hypotheses f0, f1, … with these laws, [K, M]."""
    domain = Numbered(np.shape(table)[1])
    laws = {f"f{j}": Reference.from_probabilities(domain, law) for j, law in enumerate(table)}
    return Hypotheses(laws, floor=floor)


COUNTER_EXAMPLE = np.array([[2, 5, 5, 0, 0, 0], [0, 0, 0, 2, 5, 5]]) / 12
"""For which the paper's N' <= K M fails: N' = 14 > 12."""
