"""The integer state of a predictor: counts of reports, by round and context."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from flwr_kld.predictors.design import Design
from flwr_kld.predictors.row_counts import RowCounts

Contexts = dict[str, RowCounts]


class Tally:
    """Counts that only ever add up: order, batches and servers leave no trace."""

    def __init__(self) -> None:
        self._rounds: dict[int, Contexts] = {}

    def add(self, round: int, context: str, counts: RowCounts) -> None:
        """Add counts to a round's context."""
        contexts = self._rounds.setdefault(round, {})
        contexts[context] = contexts[context] + counts if context in contexts else counts

    def merge(self, other: Tally) -> None:
        """Add all that another tally holds."""
        for number, contexts in other:
            for context, counts in contexts.items():
                self.add(number, context, counts)

    def __iter__(self) -> Iterator[tuple[int, Contexts]]:
        """Yield rounds in order, and contexts in order within a round."""
        for number in sorted(self._rounds):
            yield number, dict(sorted(self._rounds[number].items()))

    def drop(self, round: int) -> None:
        """Forget a round."""
        del self._rounds[round]

    def together(self) -> Contexts:
        """Return the counts of all rounds, by context."""
        total = Tally()
        for _, contexts in self:
            for context, counts in contexts.items():
                total.add(0, context, counts)
        return total._rounds.get(0, {})

    def pack(self) -> dict[str, dict[str, str]]:
        """Return the counts as JSON; `unpack` reads it."""
        return {str(n): {c: own.pack() for c, own in contexts.items()} for n, contexts in self}

    @classmethod
    def unpack(
        cls, packed: Mapping[str, Mapping[str, str]], designs: Mapping[str, Design]
    ) -> Tally:
        """Read counts of reports to these contexts' designs.

        Raises
        ------
        ValueError
            If this is not what `pack` returned for them.
        """
        tally = cls()
        for number, contexts in packed.items():
            for context, text in contexts.items():
                tally.add(int(number), context, RowCounts.unpack(text, designs[context]))
        return tally
