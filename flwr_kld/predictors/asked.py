"""The public queries of a predictor, by context and, where they adapt, by round.

Designs that were searched for, or chosen for a round, are stored by their queries' names: whoever
reads the state asks and counts the very same queries.

Queries that adapt are chosen from the public posterior, and ask what is still undecided. One of C
classes tells hypotheses i and j apart by ``1 - BC_ij``, BC_ij the Bhattacharyya coefficient of its
report. A round's queries climb on ``Σ_ij u_i u_j (1 - BC_ij)`` with ``u ∝ √w``: the sum
``Σ_ij √(w_i w_j)``, which bounds the risk of the mixture, shrinks by what is climbed to. The square
root keeps rivals of small weight in the game. Each report is private whatever it is asked.
Proof note: ``docs/proofs/predictors.md``.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Iterable, Mapping

import numpy as np

from flwr_kld.kernel.count import InvalidReply
from flwr_kld.predictors.class_maps import as_code
from flwr_kld.predictors.designs import DESIGNS, Design
from flwr_kld.predictors.hypotheses import Hypotheses
from flwr_kld.predictors.laws import Floats, Laws

_MOST_CLASSES = 16
_CLASSES_PER_RATIO = 3
"""Randomised response over C classes is most informative at C about a third of ``e**epsilon``."""
_PAIRS, _PARTITIONS = 8, 4
"""Queries of a round: with two classes, and with more. Each sees other differences."""
_CLIMB = 6
_LEAST = 1e-4
"""Of the weights that are climbed on: nobody is forgotten for good."""


def adaptive_design(laws: Laws, epsilon: float, log_weights: Floats, round: int) -> Design:
    """Choose the queries of a round."""
    # Shapes: log_weights [K].
    classes = classes_for(epsilon)
    rivals = np.exp(0.5 * (log_weights - log_weights.max()))
    rivals = rivals / rivals.sum() + _LEAST
    rivals /= rivals.sum()
    seed = hashlib.sha256(f"flwr-kld adaptive {round} {laws.fingerprint}".encode()).digest()
    rng = np.random.default_rng(int.from_bytes(seed))
    shape = (_PAIRS if classes == 2 else _PARTITIONS, classes, laws.hypotheses)
    scores = rng.standard_normal(shape) * np.sqrt(rivals)
    names = (
        f"regions/{classes}/{as_code(coefficients):#x}"
        for coefficients in _climb(laws, epsilon, scores, rivals)
    )
    design = Design(laws, epsilon, list(dict.fromkeys(names)))
    design.searched = True
    return design


def classes_for(epsilon: float) -> int:
    """How many classes a report is worth: two up to about two nats, more beyond."""
    ratio = math.exp(min(epsilon, 10.0))
    return int(min(max(2.0, ratio / _CLASSES_PER_RATIO), _MOST_CLASSES))


def _climb(laws: Laws, epsilon: float, scores: Floats, rivals: Floats) -> Floats:
    """Climb from linear scores of the classes, shape [queries, C, K], to better ones."""
    # The objective is convex in the masses of the classes, so that every label may move to the
    # class for which the linear part at the present partition is largest, and the sum grows.
    count, classes, k = scores.shape
    ratio = math.exp(min(epsilon, 10.0))
    other = 1 / (ratio + classes - 1)
    tables = laws.probabilities.astype(np.float32)
    centred = (laws.probabilities - laws.mean).astype(np.float32)
    for _ in range(_CLIMB):
        seen = (scores.reshape(-1, k).astype(np.float32) @ centred).reshape(count, classes, -1)
        chosen = np.zeros_like(seen)
        np.put_along_axis(chosen, seen.argmax(axis=1)[:, None], 1.0, axis=1)
        masses = (chosen.reshape(count * classes, -1) @ tables.T).reshape(scores.shape)
        roots = np.sqrt((ratio - 1) * other * masses.astype(np.float64) + other)
        scores = rivals * (1 - (roots @ rivals)[:, :, None] / roots)
    return scores


ADAPTIVE = "adaptive"
KINDS = (*DESIGNS, ADAPTIVE)
MOST_STATIC = 20
"""Hypotheses up to which one design for all rounds is the default; beyond, queries adapt."""
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

    def contexts(self) -> dict[str, str]:
        """Fingerprint of the laws, by context."""
        return {context: d.laws.fingerprint for (_, context), d in self._designs.items()}

    def pack(self, rounds: Iterable[int]) -> Stored:
        """Return the queries that no other machine need find again, of rounds with reports."""
        kept = set(rounds) if self.adapts else {0}
        return {
            self._key(round, d.laws.fingerprint): (d.names, d.weights)
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
        self._hypotheses.require(contexts)
        built: dict[str, Design] = {}
        for round, context in places:
            key = self._key(round, contexts[context])
            if key not in built:
                built[key] = self._stored(self._hypotheses.at(context), key, queries)
            self._designs[round, context] = built[key]

    def _stored(self, laws: Laws, key: str, queries: Stored) -> Design:
        if key in queries:
            design = Design(laws, self._epsilon, *queries[key])
            design.searched = True
            return design
        if self.adapts:
            raise ValueError("the stored state counts reports to queries that it does not name")
        return DESIGNS[self._kind](laws, self._epsilon)

    def _key(self, round: int, fingerprint: str) -> str:
        return f"{round} {fingerprint}" if self.adapts else fingerprint
