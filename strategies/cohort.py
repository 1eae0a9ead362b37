"""Who is asked in a check."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from flwr_kld.errors import CheckFailed


@dataclass(frozen=True, order=True)
class Participant:
    """One client: a Flower node, or one of the virtual clients that a simulated node hosts."""

    node: int
    member: int = 0


class Cohort(Protocol):
    """A rule that picks the participants of a check."""

    def draw(self, present: list[Participant], generator: np.random.Generator) -> list[Participant]:
        """Pick from those present, who are in a fixed order."""
        ...


def _check_size(size: int | None) -> None:
    if size is not None and size < 1:
        raise ValueError(f"a cohort needs at least one client, got {size}: an empty cohort")


@dataclass(frozen=True)
class UniformCohort:
    """A fresh uniform sample for each check.

    The same client may be asked again in the next check, and then spends again.

    Parameters
    ----------
    size : int, optional
        Number of clients; by default everybody present.
    """

    size: int | None = None

    def __post_init__(self) -> None:
        _check_size(self.size)

    def draw(self, present: list[Participant], generator: np.random.Generator) -> list[Participant]:
        """Pick from those present."""
        if self.size is None or self.size >= len(present):
            return present
        return [present[i] for i in generator.choice(len(present), self.size, replace=False)]


class RotatingCohort:
    """Round-robin: whoever was asked longest ago, or never, is asked next.

    Among n clients that stay, any ``n // size`` checks in a row have disjoint cohorts, so that
    they compose in parallel: together they cost each client what one check costs. Clients queue in
    a random, public order, so that nobody is asked twice more than another.

    A node that reconnects under a new id counts as never asked, and the queue lives as long as
    this object: on a deployment without node authentication, or over restarts, it promises less.

    Parameters
    ----------
    size : int
        Number of clients in a check.
    """

    def __init__(self, size: int) -> None:
        _check_size(size)
        self.size = size
        self._last_asked: dict[Participant, int] = {}
        self._asked = 0

    def draw(self, present: list[Participant], generator: np.random.Generator) -> list[Participant]:
        """Pick from those present and remember that they were asked.

        Raises
        ------
        CheckFailed
            If fewer than `size` are present: a smaller cohort would break the rotation's promise.
        """
        if len(present) < self.size:
            raise CheckFailed(
                f"the rotating cohort needs {self.size} clients and {len(present)} are connected: "
                "wait for more or lower its size"
            )
        last = np.array([self._last_asked.get(p, -1) for p in present])
        longest_ago = np.lexsort((generator.random(len(present)), last))
        chosen = [present[i] for i in longest_ago[: self.size]]
        self._last_asked.update({p: self._asked + i for i, p in enumerate(chosen)})
        self._asked += len(chosen)
        return chosen
