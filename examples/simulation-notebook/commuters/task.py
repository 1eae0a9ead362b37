"""How people commute: what is public, and what a client holds."""

import numpy as np

from flwr_kld import Labels, Reference

MODES = Labels(["bike", "bus", "car", "walk"])
USUAL = np.array([0.4, 0.2, 0.25, 0.15])
REFERENCE = Reference.from_probabilities(MODES, USUAL)


def law(less_cycling: float) -> np.ndarray:
    """Return how people commute after some cyclists took the bus instead, shape [4]."""
    return USUAL + USUAL[0] * less_cycling * np.array([-1, 1, 0, 0])


def commutes(client: int, less_cycling: float, records: int = 100) -> list[str]:
    """Return one client's records."""
    rng = np.random.default_rng(client)
    return rng.choice(MODES.names, size=records, p=law(less_cycling)).tolist()
