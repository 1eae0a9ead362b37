"""Samplers that choose the clients of a check."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol, Self, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from flwr_kld.common.errors import CheckFailed
from flwr_kld.kernel.arguments import integer, set_fields


class _Place(NamedTuple):
    node: int
    member: int


class Participant(_Place):  # a tuple: many are made, and each is a key of several dictionaries
    """One client: a Flower node, or one of the virtual clients that a simulated node hosts."""

    __slots__ = ()

    def __new__(cls, node: int, member: int = 0) -> Self:
        """Take whole numbers of any type."""
        if type(node) is not int or type(member) is not int:
            node, member = integer("node", node), integer("member", member)
        return tuple.__new__(cls, (node, member))

    def __str__(self) -> str:
        return f"{self.node}:{self.member}"


@dataclass(frozen=True)
class AskedClients:
    """Who is asked in a check."""

    participants: list[Participant]
    drawn: bool = False  # Whether they are a part of those who are connected


LastAsked = Callable[[Sequence[str]], NDArray[np.int64]]
"""Returns the number of the last check that asked each client, or 0; a ledger remembers them."""


@runtime_checkable
class Cohort(Protocol):
    """A rule that picks the participants of a check."""

    def draw(self, present: list[Participant], generator: np.random.Generator) -> list[Participant]:
        """Pick from those present, who are in a fixed order."""
        ...

    def recall(self, last_asked: LastAsked, present: list[Participant]) -> None:
        """Take up the rotation that a ledger remembers, before a draw from those present."""
        ...


def _check_size(size: int) -> int:
    return integer("size", size, least=1, unit="clients")


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
        if self.size is not None:
            set_fields(self, size=_check_size(self.size))

    def draw(self, present: list[Participant], generator: np.random.Generator) -> list[Participant]:
        """Pick from those present."""
        if self.size is None or self.size >= len(present):
            return present
        return [present[i] for i in generator.choice(len(present), self.size, replace=False)]

    def recall(self, last_asked: LastAsked, present: list[Participant]) -> None:
        """Take nothing up: each draw is fresh."""


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
        self.size = _check_size(size)
        self._last_asked: dict[Participant, int] = {}
        self._asked = 0

    def draw(self, present: list[Participant], generator: np.random.Generator) -> list[Participant]:
        """Pick from those present and remember that they were asked.

        Raises `CheckFailed` if fewer than `size` are present: a smaller cohort would break the
        rotation's promise.
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

    def recall(self, last_asked: LastAsked, present: list[Participant]) -> None:
        """Take up the queue that a ledger remembers."""
        last = last_asked([str(p) for p in present]).tolist()
        self._last_asked = dict(zip(present, last, strict=True))
        self._asked = max(last, default=0) + 1


def require_clients(
    clients: int, least: int, what: str, dropouts: dict[str, int] | None = None
) -> None:
    """Fail a check with too few clients."""
    if clients < least:
        why = "; ".join(f"{n}: {reason}" for reason, n in (dropouts or {}).items())
        raise CheckFailed(
            f"{clients} clients {what} and {least} are needed" + (f" ({why})" if why else "")
        )


def draws(cohort: Cohort | None) -> bool:
    """Whether a rule may ask a part of those who are connected."""
    return cohort is not None and not (isinstance(cohort, UniformCohort) and cohort.size is None)
