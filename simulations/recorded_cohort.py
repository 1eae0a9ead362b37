"""A cohort that a simulation can tell the truth about."""

from __future__ import annotations

import numpy as np

from flwr_kld.strategies import Participant, RotatingCohort


class RecordedCohort(RotatingCohort):
    """Remembers the last draw."""

    last: list[Participant]

    def draw(self, present: list[Participant], generator: np.random.Generator) -> list[Participant]:
        """Pick from those present, in rotation."""
        self.last = super().draw(present, generator)
        return self.last
