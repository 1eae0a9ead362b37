"""Who is asked in a check, and for which of their records."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from flwr_kld.errors import CheckFailed
from flwr_kld.query import EVERYTHING, Selection


@dataclass(frozen=True, order=True)
class Participant:
    """One client: a Flower node, or one of the virtual clients that a simulated node hosts."""

    node: int
    member: int = 0

    def __str__(self) -> str:
        return f"{self.node}:{self.member}"


class Cohort(Protocol):
    """A rule that picks the participants of a check."""

    def draw(self, present: list[Participant], generator: np.random.Generator) -> list[Participant]:
        """Pick from those present, who are in a fixed order."""
        ...

    def select(self) -> Selection:
        """Which of their records those just drawn are asked for."""
        ...

    def state(self) -> dict[str, Any]:
        """Return what the next draw depends on, JSON-able: a ledger keeps it over restarts."""
        ...

    def restore(self, state: Mapping[str, Any]) -> None:
        """Take up where `state` was returned."""
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

    def select(self) -> Selection:
        """All records."""
        return EVERYTHING

    def state(self) -> dict[str, Any]:
        """Nothing: each draw is fresh."""
        return {}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Take nothing."""


class RotatingCohort:
    """Round-robin: whoever was asked longest ago, or never, is asked next.

    Among n clients that stay, any ``n // size`` checks in a row have disjoint cohorts, so that
    they compose in parallel: together they cost each client what one check costs. Clients queue in
    a random, public order, so that nobody is asked twice more than another.

    A node that reconnects under a new id counts as never asked: on a deployment without node
    authentication it promises less. With a ledger the queue outlives the process.

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

    def select(self) -> Selection:
        """All records."""
        return EVERYTHING

    def state(self) -> dict[str, Any]:
        """Return the queue."""
        return {"asked": self._asked, "last": {str(p): n for p, n in self._last_asked.items()}}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Take up a queue."""
        if state:
            self._asked = int(state["asked"])
            places = ((text.split(":"), int(n)) for text, n in state["last"].items())
            self._last_asked = {Participant(int(n), int(m)): at for (n, m), at in places}


class RotatingRecords:
    """Everybody is asked in every check, for another bucket of their records each time.

    For few clients with many records (hospitals, banks). Buckets are public keyed hashes of record
    ids, so any `buckets` checks in a row touch different records: together they cost a record what
    one check costs, as long as it keeps its id (``answer_drift_queries(…, record_ids=…)``).

    Parameters
    ----------
    buckets : int
        Number of buckets, at least 2.
    key : str
        Keys the hash; to be kept for as long as budgets run over the same records.
    """

    def __init__(self, buckets: int, key: str = "records") -> None:
        if buckets < 2:
            raise ValueError(f"records rotate through at least 2 buckets, got {buckets}")
        self.buckets, self.key = buckets, key
        Selection(key, buckets)  # refuses what no selection can be
        self._checks = 0

    def draw(self, present: list[Participant], generator: np.random.Generator) -> list[Participant]:
        """Pick everybody."""
        return present

    def select(self) -> Selection:
        """Return the next bucket."""
        bucket, self._checks = self._checks % self.buckets, self._checks + 1
        return Selection(self.key, self.buckets, (bucket,))

    def state(self) -> dict[str, Any]:
        """Return the number of checks."""
        return {"checks": self._checks}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Take up the count."""
        self._checks = int(state.get("checks", 0))
