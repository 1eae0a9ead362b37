"""Draws from private data that protect everybody in it at once.

Examples
--------
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

from flwr_kld.integral.base import FiniteBase, GaussianCells
from flwr_kld.integral.fit import mbde, mollify
from flwr_kld.integral.mollifier import Mollifier, project
from flwr_kld.integral.sampler import Sampler

__all__ = [
    "FiniteBase",
    "GaussianCells",
    "Mollifier",
    "Sampler",
    "mbde",
    "mollify",
    "project",
]
