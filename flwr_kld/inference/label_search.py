"""Names in the noised histograms of a tree code: which texts many records share, and how many.

A beginning's score is what its cells hold. Beginnings are lengthened by one byte after the other,
and the best `_KEPT` go on. A whole text is believed if its cells hold more than chance and the
number of texts explain: for each of its bytes, the evidence in the histograms that tell of the byte
has to exceed the cost of the bytes from there on, so that a name is not wrong in its last letter
either. What is found is taken out of the sums, and the search goes on in what is left.
Proof note: ``docs/proofs/discovery.md``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from flwr_kld.domain.tree_code import (
    LAST,
    LENGTHS,
    POSITIONS,
    SYMBOLS,
    bytes_told,
    encoded,
    root,
    step,
    symbols,
)

Floats = NDArray[np.float64]
_KEPT = 1024
"""Beginnings that go on."""
_EVIDENCE = 10.0
"""Nats beyond what chance and the number of texts explain."""
_USUAL = 10.5
"""Standard deviations of a name's sum at which its cells tell most: just enough to be found by."""
_SHOWN = 8.0
"""Standard deviations of a name's sum below which none is shown."""
_BRIGHTEST = 4.0
"""Standard deviations of a cell, beyond the expected ones, that count: a few names that very many
records share must not crowd out the others."""
NEEDED = {4: 11.5, 8: 12.5, 12: 14.0, 16: 20.0, 24: 20.0, 32: 24.0, 40: 27.0}
"""Standard deviations of a name's sum from which about 95 in 100 are found, by its bytes: of random
lower-case letters, and from 16 bytes on of Cyrillic ones, too (two bytes each)."""


@dataclass(frozen=True)
class Named:
    """A label that was found."""

    text: str
    records: float  # Estimate
    deviation: float  # Standard deviation of the estimate


@dataclass(frozen=True, eq=False)
class Search:
    """The sums, and what was found in them so far."""

    sums: Floats  # Noised counts, shape [POSITIONS, SYMBOLS]
    noise: float  # Variance of the noise in each
    salt: str
    found: list[bytes] = field(default_factory=list)

    @property
    def shown_from(self) -> float:
        """Records below which no estimate is shown."""
        return _SHOWN * self._deviation(POSITIONS)

    def needed(self, length: int) -> float:
        """Return from how many records on 95 of 100 names of so many bytes are found."""
        return NEEDED[next(n for n in LENGTHS if length <= n)] * self._deviation(POSITIONS)

    def run(self) -> list[Named]:
        """Find names until there are no more, the most frequent first."""
        while new := [text for length in LENGTHS for text in self._of_length(length)]:
            self.found.extend(new)
        while self.found and min(held := self._records()) < self.shown_from:
            del self.found[int(np.argmin(held))]
        if not self.found:
            return []
        wide = [self._deviation(int(n)) for n in self._whole().sum(axis=1)]
        names = [text.decode(errors="replace") for text in self.found]
        named = [Named(*one) for one in zip(names, held.tolist(), wide, strict=True)]
        return sorted(named, key=lambda name: -name.records)

    def _deviation(self, places: int) -> float:
        """Return the standard deviation of a mean over so many cells, in records."""
        # Labels that were not found lie in the cells as if by chance, on top of the noise.
        return math.sqrt(max(self.noise, float(self._left().var())) / places)

    def _codes(self) -> NDArray[np.int64]:
        """Cells of what was found, shape [found, POSITIONS]."""
        return np.stack(
            [encoded(self.found, self.salt, place) for place in range(POSITIONS)], axis=1
        )

    def _whole(self) -> NDArray[np.bool_]:
        """Which histograms tell of all bytes of what was found, shape [found, POSITIONS]."""
        # In the others, the records of all names that begin alike are in one cell.
        lengths = [next(n for n in LENGTHS if len(text) <= n) for text in self.found]
        return np.array([np.array(bytes_told(length)) == length for length in lengths])

    def _records(self) -> Floats:
        """Estimate how many records share each name that was found, for all at once."""
        codes, whole = self._codes(), self._whole()
        centred = self.sums - self.sums.mean(axis=1, keepdims=True)
        same = ((codes[:, None] == codes[None]) - 1 / SYMBOLS) * whole[:, None]
        held = (centred[np.arange(POSITIONS), codes] * whole).sum(axis=1)
        return np.asarray(np.linalg.solve(same.sum(axis=2), held))

    def _left(self) -> Floats:
        """Return the sums without what was found."""
        left = self.sums.copy()
        if self.found:
            codes, places = self._codes(), np.arange(POSITIONS)
            for own, records in zip(codes, self._records(), strict=True):
                left[places, own] -= records
        return left

    def _of_length(self, length: int) -> list[bytes]:
        """Find the names of one length that are not known yet."""
        left = self._left()
        usual = _USUAL / math.sqrt(POSITIONS)
        cells = left - left.mean(axis=1, keepdims=True)
        cells /= math.sqrt(self.noise + max(float(left.mean()), 0.0))
        cells = np.minimum(cells, usual + _BRIGHTEST)
        told = usual * cells / max(cells.std(), 1.0)
        # A text that nobody has is hashed to any cell alike: the mean of exp(told) is 1 for it.
        told -= np.log(np.exp(told).mean(axis=1, keepdims=True))
        states, worth = np.full(1, root(self.salt, length)), np.zeros(1)
        texts, likely, held = np.zeros((1, 0), np.uint8), np.zeros((1, 0)), np.zeros((1, 0))
        for place, size in enumerate(bytes_told(length)):
            longer = texts.shape[1] < size  # by one byte: there are more histograms than bytes
            if longer:
                costs = _log_chance(texts)
                row, byte = np.nonzero(costs > -np.inf)
                cost, last = costs[row, byte], byte.astype(np.uint8)
                states, worth = step(states[row], last), worth[row] + cost
            shown = told[place, symbols(states, place)]
            worth = worth + shown
            best = np.arange(len(worth))
            if len(worth) > _KEPT:
                best = np.argpartition(-worth, _KEPT)[:_KEPT]
            states, worth = states[best], worth[best]
            before = row[best] if longer else best
            if longer:
                texts = np.column_stack([texts[before], last[best]])
                likely = np.column_stack([likely[before], cost[best]])
            held = np.column_stack([held[before], shown[best]])
        sure = np.flatnonzero(_evidence(held, likely, length) >= _EVIDENCE)
        ordered = sure[np.argsort(-held[sure].sum(axis=1))]
        return self._apart([bytes(texts[i]).rstrip(b"\0") for i in ordered.tolist()])

    def _apart(self, texts: list[bytes]) -> list[bytes]:
        """Keep of texts that share many cells the one that holds most."""
        kept: list[bytes] = []
        codes: list[NDArray[np.int64]] = []
        for text in texts:
            own = np.array([encoded([text], self.salt, p)[0] for p in range(POSITIONS)])
            if text and text not in self.found and all((own == c).sum() < LAST for c in codes):
                kept.append(text)
                codes.append(own)
        return kept


def _evidence(held: Floats, likely: Floats, length: int) -> Floats:
    """Least evidence for any byte of each text, in nats beyond its cost; shape [texts]."""
    # If a text is wrong from some byte on, nobody has the beginnings that end there or later: what
    # their cells tell adds up to x or more with probability exp(-x) at most (Markov). `likely` is a
    # distribution over texts, so the chances of all of them add up to exp(-evidence).
    first = np.searchsorted(bytes_told(length), np.arange(length) + 1)
    sums = np.cumsum(held[:, ::-1], axis=1)[:, ::-1][:, first]
    rest = np.cumsum(likely[:, ::-1], axis=1)[:, ::-1]
    return np.asarray((sums + rest).min(axis=1))


# Chances of bytes, by the kind of the one before: what labels look like in any language. They sum
# to 1, and cost a name that looks otherwise a few more holders. Whatever a text may hold has some:
# the records of a name that could not be found would pass for those of wrong ones.
_KINDS = np.full(256, 9)  # no byte of UTF-8
_KINDS[0] = 0  # the end
_KINDS[1:32] = _KINDS[127] = 8  # control characters
_KINDS[32:127] = 4  # spaces and marks
_KINDS[ord("a") : ord("z") + 1] = 1
_KINDS[ord("A") : ord("Z") + 1] = 2
_KINDS[ord("0") : ord("9") + 1] = 3
_KINDS[0x80:0xC0] = 7  # second and later bytes of a letter
_KINDS[0xC2:0xE0] = 5  # first of two
_KINDS[0xE0:0xF5] = 6  # first of three or four
_START = (0.001, 0.4395, 0.34, 0.1, 0.024, 0.06, 0.035, 0, 0.0005, 0)
_NEXT = (
    (0.9994, 0.0001, 0.0001, 0.0001, 0.0001, 0.0001, 0, 0, 0.0001, 0),
    (0.1, 0.7495, 0.02, 0.02, 0.08, 0.02, 0.01, 0, 0.0005, 0),
    (0.1, 0.3495, 0.4, 0.04, 0.08, 0.02, 0.01, 0, 0.0005, 0),
    (0.15, 0.04, 0.04, 0.6495, 0.1, 0.01, 0.01, 0, 0.0005, 0),
    (0.03, 0.4195, 0.25, 0.2, 0.07, 0.02, 0.01, 0, 0.0005, 0),
    (0, 0, 0, 0, 0, 0, 0, 1, 0, 0),
    (0, 0, 0, 0, 0, 0, 0, 1, 0, 0),
    (0.06, 0.05, 0.01, 0.01, 0.04, 0.3795, 0.15, 0.3, 0.0005, 0),
    (0.03, 0.4195, 0.25, 0.2, 0.07, 0.02, 0.01, 0, 0.0005, 0),
    (0, 0, 0, 0, 0, 0, 0, 0, 0, 0),
)
with np.errstate(divide="ignore"):
    _BYTES = np.maximum(np.bincount(_KINDS, minlength=10), 1)
    _FIRST = (np.log(_START) - np.log(_BYTES))[_KINDS]
    _FOLLOWING = (np.log(_NEXT) - np.log(_BYTES))[:, _KINDS]


def _log_chance(texts: NDArray[np.uint8]) -> Floats:
    """Return the logarithm of each byte's chance to follow each beginning; shape [texts, 256]."""
    if not texts.shape[1]:
        return np.broadcast_to(_FIRST, (len(texts), 256))
    return np.asarray(_FOLLOWING[_KINDS[texts[:, -1]]])
