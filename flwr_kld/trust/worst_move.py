"""How far what a check protects moves the vector that a client counts, at most.

The client computes this itself, from the message alone: what a server claims to protect must not
move further than the noise hides.
"""

from __future__ import annotations

from flwr_kld.common.errors import QueryRefused
from flwr_kld.kernel.promise import Moves
from flwr_kld.trust.terms import Terms


def worst_move(terms: Terms) -> Moves:
    """Return the worst move of exactly what a client counts by these terms, in counts."""
    # A record that changes its value leaves one cell and enters another, in each column of a table
    # by as many steps as that is allotted. A whole client adds at most the records that it counts.
    if terms.guarantee.protects == "record":
        return terms.allotment.record_moves()
    if not terms.most_records:
        raise QueryRefused("the server claims to protect whole clients, but counts all records")
    return terms.allotment.client_moves(terms.most_records)


def hidden_move(terms: Terms) -> Moves:
    """Return the move that the noise hides at the claimed epsilon, in counts."""
    # Where a server or an aggregator adds the noise, that is what `Trusted` calibrates for.
    share = terms.share()
    if share is not None:
        return share.moves
    if most_records := terms.guarantee.most_records:
        return terms.allotment.client_moves(most_records)
    return terms.allotment.record_moves()


def require_move(terms: Terms) -> None:
    """Refuse terms whose worst move is not the one that their noise hides."""
    try:
        hidden = worst_move(terms) == hidden_move(terms)
    except ValueError as error:
        raise QueryRefused(f"no noise share serves these terms: {error}") from None
    if not hidden:
        raise QueryRefused(
            "what this client would count moves further than the claimed noise hides: "
            f"{terms.guarantee}, at most {terms.most_records} records"
        )
