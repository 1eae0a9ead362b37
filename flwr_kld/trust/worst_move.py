"""How far one protected unit moves the vector that a client is about to count.

The client computes this itself, from the message alone: what a server claims to protect must not
move further than the noise hides.
"""

from __future__ import annotations

from flwr_kld.errors import QueryRefused
from flwr_kld.kernel.count import sums_move
from flwr_kld.kernel.promise import Adjacency, Clip, Moves, Unit
from flwr_kld.messages.question import Question
from flwr_kld.messages.sum_terms import NoiseTerms


def worst_move(question: Question, noise: NoiseTerms | None) -> Moves:
    """Return the worst move of exactly what a client counts for a question, in counts.

    A record that changes its value leaves one cell and enters another. One that comes or goes moves
    one cell, unless a uniform sample of the records is counted (``question.clip``): then another
    record takes its place, and two cells move. In a table each column moves so. A whole client's
    vector is bounded by its clip, or by nothing.
    """
    if question.adds_scores:
        return sums_move(question.columns)  # in steps, which clients compute from what is claimed
    adjacency = question.guarantee.adjacency
    if question.guarantee.unit is Unit.CLIENT:
        clip = noise.clipped if noise else Clip(question.clip) if question.clip else None
        if clip is None:
            raise QueryRefused("the server claims client-level privacy, but clips nobody's records")
        return clip.moves(adjacency, question.columns)
    moving = Adjacency.REPLACE_ONE if question.clip else adjacency
    return moving.table_shifts(question.columns)


def hidden_move(question: Question, noise: NoiseTerms | None) -> Moves:
    """Return the move that the noise of a question hides at the claimed epsilon, in counts.

    Where a server or an aggregator adds the noise, that is what `Trusted` calibrates for: the
    adjacency's move of a record, or a client of at most ``question.clip`` records that comes or
    goes.
    """
    if noise is not None:
        return noise.event().moves
    if question.adds_scores:
        return sums_move(question.columns)
    if question.guarantee.unit is Unit.CLIENT:
        return Clip(question.clip).moves(Adjacency.ADD_REMOVE, question.columns)
    return question.guarantee.adjacency.table_shifts(question.columns)


def hold_to_move(question: Question, noise: NoiseTerms | None) -> None:
    """Refuse a question whose worst move is not the one that its noise hides."""
    if noise is not None and noise.columns != question.columns:  # before noise is calibrated
        raise QueryRefused("the noise is for another number of columns than the question has")
    if (
        noise is not None
        and not question.adds_scores
        and question.clip
        and question.guarantee.adjacency is not Adjacency.REPLACE_ONE
    ):
        raise QueryRefused("the server clips records by the question, and the noise by its terms")
    try:
        hidden = worst_move(question, noise) == hidden_move(question, noise)
    except ValueError as error:
        raise QueryRefused(f"no noise share serves these terms: {error}") from None
    if not hidden:
        raise QueryRefused(
            "what this client would count moves further than the claimed noise hides: "
            f"{question.guarantee}, at most {question.clip} records"
        )
