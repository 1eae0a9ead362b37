"""Nights of standing sessions, as a server that forgets nothing asks for them."""

from flwr_kld.messages.terms import MARK, Night


def a_night(
    session: str, number: int, nights: int, moves: int = 2, released: int = 0, branch: int = 0
) -> Night:
    """Return a night; those of another `branch` have other marks."""
    marks = "".join(f"{branch + n:0{MARK}x}" for n in range(1, number + 1))
    return Night(session, number, nights, moves, marks, released)
