"""What a single client may do to a result, by a lie or because something happened to it alone."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

_LARGE = 0.2
"""Fraction of a half's records from which on one client is worth a note."""
_MANY = 0.01
"""Fraction of all claimed records from which on it is worth a note that they are not counted."""
_NAMED = 5
"""Clients that a sentence names."""


def some_of(clients: Sequence[str]) -> str:
    """Name the first few clients, and count the others."""
    more = len(clients) - _NAMED
    return ", ".join(clients[:_NAMED]) + (f" and {more} more" if more > 0 else "")


@dataclass(frozen=True)
class OneClient:
    """How much of a result one client can be. Everything in it is public."""

    most_records: int | None  # That one client counts at most; None if nothing limits it
    # Clients that claim more, by node and member, and how many records each claims
    over: dict[str, int] = field(default_factory=dict)
    # Fraction of all claimed records that is not counted; None where sizes are not public
    left_out: float | None = None
    # Largest fraction of the records of a half that one client may hold; None if nothing limits it
    share: float | None = None
    # Whether somebody saw each client's numbers, and held them to what one may answer. False of
    # secure and split sums: what follows from them holds if no client lies.
    held: bool = True

    @property
    def note(self) -> str | None:
        """What a reader must know, if anything."""
        return "; ".join(self._notes()) or None

    @property
    def cut(self) -> str | None:
        """Whose records are not all counted, the largest first; None if everybody's are."""
        if not self.over:
            return None
        largest = sorted(self.over.items(), key=lambda one: (-one[1], one[0]))
        named = some_of([f"{name} claims {size:,}" for name, size in largest])
        return (
            f"records of one client beyond {self.most_records:,} are not counted, "
            f"{100 * (self.left_out or 0):.3g} % of all that are claimed: {named}"
        )

    def _notes(self) -> Iterator[str]:
        if not self.held:
            yield "nobody sees the numbers of a single client: all of this holds if no client lies"
        elif self.share is None:
            yield (
                "nothing limits how many records one client counts, so that a lie or a fault of "
                "one client may decide: protect whole clients with clip= to limit them"
            )
        if self.cut and self.left_out is not None and self.left_out > _MANY:
            yield self.cut
        if self.share is not None and self.share > _LARGE:
            yield (
                f"one client may hold {100 * self.share:.0f} % of the records of a half, so that a "
                "lie or a fault of one client may decide: set most_records= to the most that one "
                "may honestly have, or ask more clients"
            )

    def __str__(self) -> str:
        if self.most_records is None:
            return "nothing limits how many records one client counts"
        return f"one client counts at most {self.most_records:,} records"
