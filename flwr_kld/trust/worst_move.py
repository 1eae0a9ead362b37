"""How far one protected unit moves the vector that a client is about to count.

The client computes this itself, from the message alone: what a server claims to protect must not
move further than the noise hides.
"""

from __future__ import annotations

from flwr_kld.errors import QueryRefused
from flwr_kld.kernel.count import sums_move
from flwr_kld.kernel.promise import Adjacency, Clip, Moves, Unit
from flwr_kld.messages.terms import NoiseShares, Terms


def worst_move(terms: Terms) -> Moves:
    """Return the worst move of exactly what a client counts by these terms, in counts."""
    # A record that changes its value leaves one cell and enters another. One that comes or goes
    # moves one cell, unless a uniform sample of the records is counted (``terms.clip``): then
    # another record takes its place, and two cells move. In a table each column moves so, by as
    # many steps as it is allotted. A whole client's vector is bounded by its clip, or by nothing.
    if terms.allotment is None:
        return sums_move(terms.columns)  # in steps, which clients compute from what is claimed
    adjacency = terms.guarantee.adjacency
    if terms.guarantee.unit is Unit.CLIENT:
        if isinstance(terms.noise, NoiseShares):
            clip = terms.noise.clip
        else:
            clip = Clip(terms.clip) if terms.clip else None
        if clip is None:
            raise QueryRefused("the server claims client-level privacy, but clips nobody's records")
        return terms.allotment.client_moves(clip, adjacency)
    moving = Adjacency.REPLACE_ONE if terms.clip else adjacency
    return terms.allotment.record_moves(moving)


def hidden_move(terms: Terms) -> Moves:
    """Return the move that the noise hides at the claimed epsilon, in counts."""
    # Where a server or an aggregator adds the noise, that is what `Trusted` calibrates for: the
    # adjacency's move of a record, or a client of at most ``terms.clip`` records that comes or
    # goes.
    share = terms.share()
    if share is not None:
        return share.moves
    if terms.allotment is None:
        return sums_move(terms.columns)
    if terms.guarantee.unit is Unit.CLIENT:
        return terms.allotment.client_moves(Clip(terms.clip), Adjacency.ADD_REMOVE)
    return terms.allotment.record_moves(terms.guarantee.adjacency)


def require_move(terms: Terms) -> None:
    """Refuse terms whose worst move is not the one that their noise hides."""
    if (
        isinstance(terms.noise, NoiseShares)
        and not terms.adds_scores
        and terms.clip
        and terms.guarantee.adjacency is not Adjacency.REPLACE_ONE
    ):
        raise QueryRefused("the server clips records twice: by the terms, and by their noise")
    try:
        hidden = worst_move(terms) == hidden_move(terms)
    except ValueError as error:
        raise QueryRefused(f"no noise share serves these terms: {error}") from None
    if not hidden:
        raise QueryRefused(
            "what this client would count moves further than the claimed noise hides: "
            f"{terms.guarantee}, at most {terms.clip} records"
        )
