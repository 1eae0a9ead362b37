"""Whom a release touches: parts of which each person is in one, so that they compose in parallel.

Proof note: ``docs/proofs/composition.md``.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from flwr_kld.accounting.cost import Cost
from flwr_kld.errors import damaged
from flwr_kld.kernel.arguments import instance, keep, one_line, several, text, whole

_MOST_BUCKETS = 1 << 20


@dataclass(frozen=True)
class Clients:
    """Some of the clients; a person's records are at one of them.

    Parameters
    ----------
    names : tuple[str, ...]
        Stable and opaque. A client that comes back under another name has another budget.

    Raises
    ------
    ValueError
        If there is none, or one twice.
    """

    names: tuple[str, ...]
    family = "clients"

    def __init__(self, names: Iterable[str]) -> None:
        keep(self, names=tuple(text("a client's name", name) for name in several("names", names)))
        if not self.names or len(set(self.names)) < len(self.names):
            raise ValueError("name at least one client, and each once")


@dataclass(frozen=True)
class RecordBuckets:
    """Records, at all clients, whose public keyed hash falls into some buckets.

    The hash must be of what identifies a record, not of its content: a record that changes its
    value stays in its bucket. Only for budgets that protect records.

    Parameters
    ----------
    key : str
        Public; names the hash.
    modulus : int
        Number of buckets.
    residues : tuple[int, ...]
        Which of them, in [0, modulus).

    Raises
    ------
    ValueError
        If there is none, one twice, or one out of range.
    """

    key: str
    modulus: int
    residues: tuple[int, ...]

    def __init__(self, key: str, modulus: int, residues: Iterable[int]) -> None:
        modulus = whole("modulus", modulus, least=1, most=_MOST_BUCKETS)
        most = modulus - 1
        keep(
            self,
            key=one_line("key", key),
            modulus=modulus,
            residues=tuple(
                whole("a residue", r, least=0, most=most) for r in several("residues", residues)
            ),
        )
        if not self.residues or len(set(self.residues)) < len(self.residues):
            raise ValueError("name at least one bucket, and each once")

    @property
    def family(self) -> str:
        """One hash cuts the records once; another key or modulus cuts them independently."""
        return f"records {self.modulus} {self.key}"


@dataclass(frozen=True)
class Everyone:
    """The whole population."""

    family = "everyone"


Parts = Clients | RecordBuckets | Everyone


@dataclass(frozen=True)
class Charge:
    """One release of a check, and whom it touches.

    A check whose two halves are asked different things has two charges; one that asks the same
    people twice has two as well.
    """

    cost: Cost
    parts: Parts

    def __post_init__(self) -> None:
        instance("cost", self.cost, Cost, "a Cost, such as Cost.claimed(…)")
        instance("parts", self.parts, Parts, "whom it touches: Clients([…]) or Everyone()")


def pack(members: NDArray[np.int64]) -> bytes:
    """Write sorted numbers compactly."""
    return zlib.compress(np.diff(members, prepend=0).astype("<u4").tobytes())


def unpack(packed: bytes) -> NDArray[np.int64]:
    """Read what `pack` wrote."""
    try:
        steps = np.frombuffer(zlib.decompress(packed), dtype="<u4")
    except (zlib.error, ValueError):
        steps = np.empty(0)
    if not len(steps):
        raise damaged("a list of people")
    return np.cumsum(steps, dtype=np.int64)
