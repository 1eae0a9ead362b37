"""Draws from private data that protect everybody in it at once.

>>> import numpy as np
>>> from flwr_kld import Labels
>>> from flwr_kld.integral import FiniteBase, Mollifier, Sampler, mollify
>>> base = FiniteBase.uniform(Labels(["bus", "car", "train", "walk"]))
>>> trips = np.random.default_rng(1).choice(4, size=1000, p=[0.1, 0.7, 0.1, 0.1])
>>> law = mollify(trips, base, Mollifier.symmetric(epsilon=0.5))
>>> sampler = Sampler(law, draws=3)
>>> sampler.event.epsilon
1.5
>>> sampler.draw(3).shape, sampler.left
((3,), 0)
"""

from flwr_kld.integral.accounting import delta_of_draws, epsilon_of_draws
from flwr_kld.integral.base import FiniteBase, GaussianBase
from flwr_kld.integral.fit import mbde, mollify
from flwr_kld.integral.gaussian_cells import GaussianCells
from flwr_kld.integral.integer_box import BoxLaw, IntegerBox
from flwr_kld.integral.mollifier import Mollifier, project
from flwr_kld.integral.network import Network
from flwr_kld.integral.recommend import Recommendation, recommend
from flwr_kld.integral.references import reference_from_counts, reference_from_draws
from flwr_kld.integral.rejection import RejectionLaw
from flwr_kld.integral.sampler import BudgetSpent, IntegralEvent, Sampler
from flwr_kld.integral.tree import Tree
from flwr_kld.integral.weak_learner import WeakLearner, WeakLearnerError

__all__ = [
    "BoxLaw",
    "BudgetSpent",
    "FiniteBase",
    "GaussianBase",
    "GaussianCells",
    "IntegerBox",
    "IntegralEvent",
    "Mollifier",
    "Network",
    "Recommendation",
    "RejectionLaw",
    "Sampler",
    "Tree",
    "WeakLearner",
    "WeakLearnerError",
    "delta_of_draws",
    "epsilon_of_draws",
    "mbde",
    "mollify",
    "project",
    "recommend",
    "reference_from_counts",
    "reference_from_draws",
]
