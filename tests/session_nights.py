"""Nights of standing sessions, as a server that forgets nothing asks for them."""

import os
import time

from flwr_kld.trust.terms import MARK, Night

_DAY = 24 * 60 * 60
TOMORROW = int(
    os.environ.setdefault("FLWR_KLD_TOMORROW", str((int(time.time()) // _DAY + 2) * _DAY))
)
"""A last moment that is not over while the tests run, and the same in processes that they start."""


def a_night(
    session: str,
    number: int,
    nights: int,
    moves: int = 2,
    released: int = 0,
    branch: int = 0,
    until: int | None = None,
) -> Night:
    """Return a night; those of another `branch` have other marks."""
    marks = "".join(f"{branch + n:0{MARK}x}" for n in range(1, number + 1))
    return Night(session, number, nights, moves, marks, until or TOMORROW, released)
