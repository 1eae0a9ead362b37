"""Which queries a predictor asks, in each context and, where they adapt, in each round. Public.

Designs that were searched for, or chosen for a round, are stored by their queries' names: whoever
reads the state asks and counts the very same queries.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from flwr_kld.kernel.count import InvalidReply
from flwr_kld.predictors.adaptive import adaptive_design
from flwr_kld.predictors.designs import DESIGNS, Design
from flwr_kld.predictors.hypotheses import Hypotheses
from flwr_kld.predictors.laws import Floats, Laws

ADAPTIVE = "adaptive"
KINDS = (*DESIGNS, ADAPTIVE)
_MOST_STATIC = 20
"""Hypotheses up to which one design for all rounds is the default."""
_NUMBERS = 16
"""Query numbers set aside for a round of queries that adapt; a number names its round."""
Stored = dict[str, tuple[list[str], list[int]]]
"""Names and weights of a design's queries, by what `Asked.key` says."""


class Asked:
    """The queries of all rounds."""

    def __init__(self, hypotheses: Hypotheses, epsilon: float, kind: str) -> None:
        self._hypotheses, self._epsilon, self._kind = hypotheses, epsilon, kind
        self._designs: dict[tuple[int, str], Design] = {}

    @property
    def adapts(self) -> bool:
        """Whether each round has queries of its own."""
        return self._kind == ADAPTIVE

    def design(self, round: int, context: str, log_weights: Callable[[], Floats]) -> Design:
        """Return the queries of a round; chosen when they are first asked for, and kept."""
        if self.adapts and (round, context) not in self._designs:
            laws = self._hypotheses.at(context)
            chosen = adaptive_design(laws, self._epsilon, log_weights(), round)
            self._designs[round, context] = chosen
        return self.of(round, context)

    def of(self, round: int, context: str) -> Design:
        """Return the queries that were asked in a round; they may be the same in all."""
        place = (round if self.adapts else 0), context
        if place not in self._designs:
            if self.adapts:
                raise InvalidReply("a report names a query that was not asked")
            laws = self._hypotheses.at(context)
            self._designs[place] = DESIGNS[self._kind](laws, self._epsilon)
        return self._designs[place]

    def first(self, round: int) -> int:
        """Return the number of a round's first query."""
        return round * _NUMBERS if self.adapts else 0

    def round_of(self, number: int) -> int:
        """Return the round that a query's number names; 0 where queries do not adapt."""
        return number // _NUMBERS if self.adapts else 0

    def forget(self, before: int) -> None:
        """Drop the queries of settled rounds."""
        if self.adapts:
            self._designs = {p: d for p, d in self._designs.items() if p[0] >= before}

    def agrees_with(self, other: Asked) -> bool:
        """Whether both asked the same wherever both asked."""
        return all(
            self._designs[place].asks_as(other._designs[place])
            for place in self._designs.keys() & other._designs.keys()
        )

    def merge(self, other: Asked) -> None:
        """Take in what another asked."""
        self._designs = other._designs | self._designs

    def contexts(self) -> dict[str, str]:
        """Fingerprint of the laws, by context."""
        return {context: d.laws.fingerprint for (_, context), d in self._designs.items()}

    def pack(self, rounds: Iterable[int]) -> Stored:
        """Return the queries that no other machine need find again, of rounds with reports."""
        kept = set(rounds) if self.adapts else {0}
        return {
            self._key(round, d.laws.fingerprint): (list(d.names), list(d.weights))
            for (round, _), d in self._designs.items()
            if d.searched and round in kept
        }

    def restore(
        self, contexts: Mapping[str, str], queries: Stored, rounds: Mapping[int, Iterable[str]]
    ) -> None:
        """Build what was asked again: by name where it was stored, or as it is always found."""
        places = (
            [(round, context) for round, known in rounds.items() for context in known]
            if self.adapts
            else [(0, context) for context in contexts]
        )
        for context, fingerprint in contexts.items():
            if self._hypotheses.at(context).fingerprint != fingerprint:
                raise ValueError(f"the hypotheses have changed in context {context!r}")
        built: dict[str, Design] = {}
        for round, context in places:
            key = self._key(round, contexts[context])
            if key not in built:
                built[key] = self._stored(self._hypotheses.at(context), key, queries)
            self._designs[round, context] = built[key]

    def _stored(self, laws: Laws, key: str, queries: Stored) -> Design:
        if key in queries:
            design = Design.of(laws, self._epsilon, *queries[key])
            design.searched = True
            return design
        if self.adapts:
            raise ValueError("the stored state counts reports to queries that it does not name")
        return DESIGNS[self._kind](laws, self._epsilon)

    def _key(self, round: int, fingerprint: str) -> str:
        return f"{round} {fingerprint}" if self.adapts else fingerprint


def default_kind(hypotheses: int) -> str:
    """Return what is asked by default: queries that adapt, beyond 20 hypotheses."""
    return "default" if hypotheses <= _MOST_STATIC else ADAPTIVE
