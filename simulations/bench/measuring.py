"""What all benches measure by: rows, CPU time side by side with a peer's, and two yardsticks.

Seconds are of the processor, medians. Each stands beside the time of an X25519 exchange and of a
pass of NumPy over eight megabytes in the same minute: divided by these, figures from two machines,
or from a busy one and an idle one, can be compared.
"""

from __future__ import annotations

import multiprocessing
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from statistics import median
from typing import Any, TypeVar

import numpy as np
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

_EXCHANGES, _PASSES = 40, 4
_CLIENTS = 100
"""Whose bare operations are timed."""
_NUMBERS = np.ones(1_000_000)

Timed = Callable[[], float]
"""Runs something once and returns its CPU seconds."""
_T = TypeVar("_T")


@dataclass(frozen=True)
class Row:
    """One line of the table."""

    bench: str  # Which bench, and what it measured
    what: str
    seconds: float  # CPU, median
    x25519: float  # CPU seconds of the yardsticks, medians of the same run
    numpy: float
    size: int | None = None  # Where something grows: how much of it there is
    peer: str | None = None  # What it is compared with, in the same run
    peer_seconds: float | None = None  # CPU of the peer, median
    megabytes: float | None = None  # Most memory that the process had, where that was measured

    @property
    def ratio(self) -> float | None:
        """How many times as long the peer takes."""
        return None if self.peer_seconds is None else self.peer_seconds / self.seconds


def cpu(run: Callable[[], object]) -> Timed:
    """Time a function by the processor."""

    def timed() -> float:
        began = time.process_time()
        run()
        return time.process_time() - began

    return timed


def in_a_process(run: Callable[..., _T], *arguments: Any) -> _T:
    """Run a function in a process of its own, whose memory nothing else has filled."""
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
        return pool.submit(run, *arguments).result()


def x25519_seconds() -> float:
    """CPU seconds of a key exchange."""
    own, peer = X25519PrivateKey.generate(), X25519PrivateKey.generate().public_key()
    return cpu(lambda: [own.exchange(peer) for _ in range(_EXCHANGES)])() / _EXCHANGES


def public_key_seconds(*, exchanges: int, verifications: int, signatures: int, keys: int) -> float:
    """CPU seconds of bare X25519 and Ed25519 operations: nothing else, hardly any Python."""
    text, signer, own = bytes(96), Ed25519PrivateKey.generate(), X25519PrivateKey.generate()
    signature, verifier = signer.sign(text), signer.public_key()
    other = X25519PrivateKey.generate().public_key()

    def each(number: int, operation: Callable[[], object]) -> float:
        return cpu(lambda: [operation() for _ in range(number * _CLIENTS)])() / _CLIENTS

    return (
        each(exchanges, lambda: own.exchange(other))
        + each(verifications, lambda: verifier.verify(signature, text))
        + each(signatures, lambda: signer.sign(text))
        + each(keys, X25519PrivateKey.generate)
    )


def numpy_seconds() -> float:
    """CPU seconds of adding up a million floats."""
    return cpu(lambda: [_NUMBERS.sum() for _ in range(_PASSES)])() / _PASSES


def measured(
    bench: str,
    what: str,
    ours: Timed,
    *,
    repeats: int,
    size: int | None = None,
    peer: str | None = None,
    theirs: Timed | None = None,
) -> Row:
    """Run both in turn, with the yardsticks between them, and take medians."""
    runs = [
        (ours(), theirs() if theirs else 0.0, x25519_seconds(), numpy_seconds())
        for _ in range(repeats)
    ]
    own, other, x25519, numpy = map(median, zip(*runs, strict=True))
    return Row(
        bench, what, own, x25519, numpy,
        size=size, peer=peer, peer_seconds=other if theirs else None,
    )  # fmt: skip


def exponents(rows: Sequence[Row]) -> tuple[float, float]:
    """Return the exponent fitted to how seconds grow with size, and that of the last step."""
    size = np.log([row.size or 1 for row in rows])
    seconds = np.log([row.seconds for row in rows])
    last = (seconds[-1] - seconds[-2]) / (size[-1] - size[-2])
    return float(np.polyfit(size, seconds, 1)[0]), float(last)
