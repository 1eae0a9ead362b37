"""Sums over clients of a public score of their records: what they say of the score's mean.

Under the hypothesis, the score's sum over a client has a mean of at most 0. Clients may be of kinds
that a cohort misses: then no spread shows how far their sums can lie below 0, and no test that goes
by the spread keeps its level. So clients are tested by bets that are fair for every law of them,
and one over what these win is a p-value.
Proof note: ``docs/proofs/decisions.md``.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Literal

import numpy as np
from scipy.special import betaln, ndtri, stdtr, stdtrit

from flwr_kld.inference.bets import log_moment
from flwr_kld.inference.deciding import curvature
from flwr_kld.inference.estimators.score import Floats
from flwr_kld.kernel.law import NoiseTable
from flwr_kld.query.noisy import ClientSums

NODES, _FEW_NODES = 161, 33
"""Values that stand for the noise in a sum, and in the clients' spread."""
_BEYOND = 1e-10
"""Probability of the noise that is put on the outermost values."""
_TINY, _NEARLY_ONE = 1e-300, 1 - 2.0**-53
_POINTS, _LEAST = 1025, 1e-30
"""Of the table of Student's law."""
_CLOSE = 2.0**-32
"""Part of the range by which a limit is found, and then rounded to the safe side."""
_TRIES = 100
_MOST, _LEAST_LOSS = 0.9, 1e-3
"""Part of the wealth that the worst client can lose, at most, and what less counts as."""
_STAKES = np.geomspace(2.0, 0.02, 32)
"""Of which one is chosen, relative to the best where clients are alike and there is no noise."""
_UNEVEN = 0.01
"""Part of the squares that is allowed for clients that are a little less or more than usual."""
_EFFECTS = np.array([1.0, 2.0, 4.0, 9.0, 25.0])
"""Design effects for each of which a stake is chosen: how alike the records of a client are is not
known before the clients have answered."""

Number = Literal["total", "squares", "records", "outside", "outside_squares"]


@dataclass(frozen=True)
class ScoreSum:
    """The sum of a score over clients, and how far it varies."""

    sums: ClientSums  # Of the second half
    number: Number  # Which score: its total, or that outside the reference
    # Variance of one record's score, in squared steps, as the first half had it: clients vary at
    # least as much as independent records do
    least: float
    usual: float = 1.0  # Records that a client counts, as they were expected before it was asked
    level: float = 0.05  # Probability of an error for which stakes are chosen

    @property
    def value(self) -> float:
        """The sum, in score steps."""
        return self.sums.value(self.number)

    @property
    def variance(self) -> float:
        """Of the sum by sampling, in squared score steps: without its noise, and not below 0."""
        return float(self._variances(np.zeros(1))[0])

    def p_value(self, shift: float = 0.0, *, above: bool = True) -> float:
        """Return how probable such a sum is if a record's mean score plus the shift is at most 0.

        At most, and whatever the law of the clients is. For sums `below`, it is that of a mean of
        at least 0, by the spread of the clients: asymptotic in their number.
        """
        if above:
            return math.exp(-max(self._log_evidence(shift), 0.0))
        sums, records = self.sums, self.sums.records
        most = self._most_records
        uneven = shift**2 * records * max(most - records / max(sums.clients, 1), 0.0)
        noise, weight = self._noise
        by_sampling, spread_weight = self._deviations
        deviation = by_sampling + math.sqrt(uneven)
        deviation = np.hypot(deviation, shift * sums.deviation("records"))
        total = self.value + shift * records - noise * sums.unit(self.number)
        student = _student(max(sums.clients - 1.0, 1.0))
        probability = spread_weight @ student(total[None, :] / deviation[:, None]) @ weight
        return min(float(probability), 1.0)

    def _log_evidence(self, shift: float) -> float:
        """Return ln e, where ``E e <= 1`` if a record's mean score plus the shift is at most 0.

        For every law of clients that count at most `most_records`: see the proof note for the
        bound on the squares of sums that are shifted.
        """
        sums, clients, usual = self.sums, self.sums.clients, self.usual
        table = sums.scores.tables[0 if self.number == "total" else 1]
        uneven = max(clients * usual * (self._most_records - usual), 0.0)
        spread = _EFFECTS * max(self.least * clients * usual, 1.0)
        deviation = np.sqrt(spread) + abs(shift) * math.sqrt(uneven)
        part = abs(shift) * math.sqrt(uneven / spread[0]) + _UNEVEN
        worst = self._most_records * (max(-float(table.min()), 0.0) - shift)
        wanted = math.sqrt(-2 * math.log(self.level))
        stake = np.minimum(_STAKES * wanted / deviation[0], _MOST / max(worst, 1.0))
        square = curvature(np.maximum(stake * worst, _LEAST_LOSS)) * stake**2 / 2
        apart = (1 + 1 / part) * shift**2 * square
        both = (1 + part) * square
        slopes = np.stack(
            [
                stake - 2 * both * shift * usual,
                -both,
                stake * shift - apart * (self._most_records - 2 * usual),
            ]
        )
        constant = -(both * shift**2 + apart) * clients * usual**2
        names: tuple[Number, ...] = (self.number, self._squares, "records")
        steps = slopes * np.array([[sums.unit(name)] for name in names])
        drift = wanted * np.hypot(deviation, sums.deviation(self.number))
        by_noise = sums.noise.variance * (steps**2).sum(axis=0) / 2
        growth = np.outer(drift, stake) - by_noise
        growth -= np.outer(deviation**2 + drift**2 / clients, both)
        tried = np.unique(np.argmax(growth, axis=1))
        slopes, steps = slopes[:, tried], steps[:, tried]
        won = np.array([sums.value(name) for name in names]) @ slopes + constant[tried]
        won -= log_moment(sums.noise, steps).sum(axis=0)
        won -= clients * (steps**2).sum(axis=0) / 8
        return float(np.logaddexp.reduce(won)) - math.log(len(won))

    @property
    def deviation(self) -> float:
        """Standard deviation of the sum by sampling and by its noise, in score steps."""
        return math.hypot(math.sqrt(self.variance), self.sums.deviation(self.number))

    @property
    def design_effect(self) -> float:
        """Of this very sum, less one standard deviation of the noise in the clients' spread."""
        by_chance = max(self.least * self.sums.records, 1.0)
        spread = self.variance - self.sums.deviation(self._squares)
        return min(max(spread / by_chance, 1.0), float(self._most_records))

    def _variances(self, noise: Floats) -> Floats:
        """Variance of the sum for each value of the noise in the squares, in steps."""
        least = max(self.least * self.sums.records, 1.0)
        return np.asarray(np.maximum(self._spreads(noise), least))

    def _spreads(self, noise: Floats) -> Floats:
        squares = self.sums.value(self._squares) - noise * self.sums.unit(self._squares)
        return np.asarray(squares - self.value**2 / max(self.sums.clients, 1))

    @cached_property
    def _noise(self) -> tuple[Floats, Floats]:
        """Values that stand for the noise in the sum, and their probabilities."""
        return few_values(self.sums.noise, NODES)

    @cached_property
    def _deviations(self) -> tuple[Floats, Floats]:
        """Deviations of the sum by sampling, as noise makes them, and their probabilities."""
        noise, weight = few_values(self.sums.noise, _FEW_NODES)
        return np.sqrt(self._variances(noise)), weight

    @property
    def _squares(self) -> Number:
        return "squares" if self.number == "total" else "outside_squares"

    @property
    def _most_records(self) -> int:
        return self.sums.scores.most_records


def crossing(
    p_value: Callable[[float], float],
    low: float,
    high: float,
    at: float,
    *,
    middle: float,
    deviation: float,
) -> float:
    """Return where a falling p-value comes down to a level; an end if nowhere between."""
    least, most, close = low, high, (high - low) * _CLOSE
    quantile = float(ndtri(at))
    before, off_before = middle, -quantile
    x = min(max(middle - quantile * deviation, low), high)
    for _ in range(_TRIES):
        off = float(ndtri(min(max(p_value(x), _TINY), _NEARLY_ONE))) - quantile
        if x == (most if off > 0 else least):
            return x
        low, high = (x, high) if off > 0 else (low, x)
        slope = (off - off_before) / (x - before) if x != before else 0.0
        before, off_before = x, off
        x = x - off / slope if slope < 0 else (low + high) / 2
        if abs(x - before) <= close:
            return min(x + 2 * close, high)
        if x <= low > least or x >= high < most:  # beyond what is known
            x = (low + high) / 2
        x = min(max(x, least), most)
    return high


class Student:
    """Distribution function of Student's law, from a table: relative error below 1e-6."""

    # Cubics between points of ``asinh x`` for its logarithm, which is all but straight there; what
    # is less than `_LEAST` is taken as that.

    def __init__(self, degrees: float) -> None:
        top = math.asinh(-float(stdtrit(degrees, _LEAST)))
        s, self._width = np.linspace(0, top, _POINTS, retstep=True)
        x = np.sinh(s)
        below = stdtr(degrees, -x)
        value = np.log(below)
        beta = betaln(degrees / 2, 0.5) + math.log(degrees) / 2
        density = np.exp(-beta - (degrees + 1) / 2 * np.log1p(x**2 / degrees))
        slope = -self._width * density * np.cosh(s) / below
        rise, start, end = np.diff(value), slope[:-1], slope[1:]
        self._cubic = np.stack(
            [value[:-1], start, 3 * rise - 2 * start - end, start + end - 2 * rise]
        )

    def __call__(self, x: Floats) -> Floats:
        """Return the probability of at most x, any shape."""
        place = np.minimum(np.arcsinh(np.abs(x)) / self._width, (_POINTS - 1) * (1 - 1e-15))
        first = place.astype(np.int64)
        t = place - first
        a, b, c, d = (each[first] for each in self._cubic)
        below = np.exp(a + t * (b + t * (c + t * d)))
        return np.asarray(np.where(x > 0, 1 - below, below))


_student = lru_cache(maxsize=64)(Student)


@lru_cache(maxsize=8)
def few_values(noise: NoiseTable, most: int) -> tuple[Floats, Floats]:
    """Return values that stand for the noise, and their probabilities; shape [most] at most."""
    beyond = int(np.searchsorted(np.cumsum(noise.probabilities), 1 - _BEYOND)) - noise.reach
    width = max(1, -(-(2 * beyond + 1) // most))
    block = np.clip(np.rint(noise.support / width).astype(int), -(most // 2), most // 2)
    block -= block.min()
    weight = np.asarray(np.bincount(block, noise.probabilities), dtype=np.float64)
    return np.bincount(block, noise.probabilities * noise.support) / weight, weight
