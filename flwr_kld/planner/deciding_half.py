"""How often the deciding half finds a drift: sums over clients that nobody has asked.

The sum is nearly normal. The product's own p-value says how large it must be for the lower bound to
exceed the threshold, and the normal law how often it is.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache, cached_property

import numpy as np
from scipy.special import ndtr, ndtri

from flwr_kld.inference.lower_bound import divergence_sum
from flwr_kld.inference.score_sum import NODES, few_values
from flwr_kld.inference.witness import Witness
from flwr_kld.kernel.count import NUMBERS
from flwr_kld.kernel.law import BitSource, sample
from flwr_kld.kernel.release import Release
from flwr_kld.planner.drift import Law
from flwr_kld.query.noisy import ClientSums
from flwr_kld.query.plan import QueryPlan
from flwr_kld.search import root

_SPREADS = 3
"""Spreads of clients' sums that are drawn."""
_DOUBLED, _CLOSE = 5, 0.01
"""Times that the range is doubled in which the least sum is searched that is found, and how near to
it is near enough."""
_TINY = 1e-300


@dataclass(frozen=True)
class DecidingHalf:
    """A deciding half that is yet to be asked."""

    witness: Witness  # Learnt from a first half
    event: Release  # Of its sums
    law: Law  # P over cells
    level: float  # Confidence of the lower bound
    design_effect: float = 1.0  # Of clients' records

    def power(self, generator: np.random.Generator, bits: BitSource) -> float:
        """Probability that the lower bound exceeds the threshold."""
        degrees, noise = self.witness.deciding.clients - 1, self.event.noise
        steps_of_total, weight = few_values(noise, NODES)
        spreads = self._deviation**2 * generator.chisquare(degrees, _SPREADS) / degrees
        found = []
        for spread, steps in zip(spreads, sample(noise, _SPREADS, bits), strict=True):
            least = self._least_found(float(spread), int(steps))
            sums = self._mean + steps_of_total * self._unit["total"]
            found.append(weight @ ndtr((sums - least) / self._deviation))
        return float(np.mean(found))

    def _least_found(self, spread: float, steps: int) -> float:
        """Least sum that is found if clients' sums and their squares spread so; inf if none is."""
        level = 1 - self.level

        @cache
        def excess(total: float) -> float:
            return math.log(max(self._p_value(total, spread, steps), _TINY) / level)

        by_noise = self._unit["total"] * math.sqrt(self.event.noise.variance)
        low, high = 0.0, -float(ndtri(min(level, 0.3))) * math.hypot(self._deviation, by_noise)
        for _ in range(_DOUBLED):
            if excess(high) < 0:
                return root(excess, low, high, within=_CLOSE * high)
            low, high = high, 2 * high
        return math.inf

    def _p_value(self, total: float, spread: float, steps: int) -> float:
        """Of "D_θ is at most the threshold", as the product has it."""
        deciding = self.witness.deciding
        squares = spread + total**2 / deciding.clients
        known = {"total": total, "squares": squares, "records": deciding.records}
        released = np.array([round(known.get(x, 0.0) / self._unit[x]) for x in NUMBERS])
        released[NUMBERS.index("squares")] += steps
        sums = ClientSums(released, deciding.clients, self.event, self._asked, False)
        return divergence_sum(self.witness, sums, 1 - self.level).p_value()

    @cached_property
    def _asked(self) -> QueryPlan:
        return self.witness.query_plan()

    @cached_property
    def _mean(self) -> float:
        return self.witness.deciding.records * float(self.law @ self._scores)

    @cached_property
    def _deviation(self) -> float:
        """Standard deviation of the sum over cohorts, without its noise."""
        mean = float(self.law @ self._scores)
        variance = self.design_effect * float(self.law @ (self._scores - mean) ** 2)
        return math.sqrt(max(self.witness.deciding.records * variance, 1.0))

    @cached_property
    def _scores(self) -> Law:
        return self.witness.scores.tables[0].astype(np.float64)

    @cached_property
    def _unit(self) -> dict[str, float]:
        """What one step of each released number is worth."""
        units = self.witness.scores.units(self.witness.deciding.guarantee)
        return dict(zip(NUMBERS, map(float, units), strict=True))
