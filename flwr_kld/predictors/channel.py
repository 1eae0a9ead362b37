"""Randomised response in exact integers: privatises a class before it leaves the client.

Sampler, privacy check and server-side likelihood read the same integers.
Proof note: ``docs/proofs/predictors.md``.
"""

from __future__ import annotations

import math
from fractions import Fraction

from flwr_kld.kernel.arguments import finite, integer
from flwr_kld.kernel.delta import exp_below
from flwr_kld.kernel.law import TOTAL, BitSource, uniform_128
from flwr_kld.predictors.laws import Floats


class RandomisedResponse:
    """Report the true class with one probability, each other one with another."""

    def __init__(self, classes: int, epsilon: float) -> None:
        self.classes = integer("classes", classes, least=2)
        self.epsilon = finite("epsilon", epsilon, above=0, unit="nats")
        # other = ⌈2^128 / (r + C - 1)⌉ makes own = 2^128 - (C - 1) other at most r times other.
        self.other = math.ceil(TOTAL / (exp_below(epsilon) + classes - 1))
        self.own = TOTAL - (classes - 1) * self.other
        if self.own < self.other:
            raise ValueError("epsilon is too small for randomised response over so many classes")
        if Fraction(self.own, self.other) > exp_below(epsilon):
            raise ValueError("randomised response is not epsilon-private: its ratio is too large")

    def weight(self, true: int, symbol: int) -> int:
        """``2**128 P(symbol | true)``, exactly."""
        return self.own if symbol == true else self.other

    def draw(self, true: int, bits: BitSource) -> int:
        """Draw the class that is reported."""
        beyond = uniform_128(bits) - (self.own - self.other)
        return true if beyond < 0 else beyond // self.other  # C runs of `other`, one for the truth

    @property
    def contraction(self) -> float:
        """Total variation between the laws of reports under any two classes."""
        return (self.own - self.other) / TOTAL

    def push(self, mass: Floats) -> Floats:
        """Law of the report when the class follows `mass`: [..., C] → [..., C]."""
        # Rounded to float64; for likelihoods, not for privacy.
        return self.contraction * mass + self.other / TOTAL
