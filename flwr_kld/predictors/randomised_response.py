"""k-ary randomised response: the truth with one probability, each other class with another.

Warner 1965; Kairouz, Oh, Viswanath 2016 (optimal at large epsilon, and for two classes at any).
Proof note: ``docs/proofs/ldp-channels.md``.
"""

from __future__ import annotations

import math
from fractions import Fraction

from flwr_kld.predictors.channel import Channel, check_private
from flwr_kld.predictors.laws import Floats
from flwr_kld.privacy.bits import BitSource
from flwr_kld.privacy.hockey_stick import exp_below
from flwr_kld.privacy.sampler import uniform_128
from flwr_kld.privacy.table import TOTAL


class RandomisedResponse(Channel):
    """Symbols are the classes. Two integers stand for the whole matrix, however many classes.

    Raises
    ------
    ValueError
        If there are fewer than two classes, or epsilon is out of range.
    """

    kind = "randomised-response"

    def __init__(self, classes: int, epsilon: float) -> None:
        super().__init__(classes, classes, epsilon)
        # other = ⌈2^128 / (r + C - 1)⌉ makes own = 2^128 - (C - 1) other at most r times other.
        self.other = math.ceil(TOTAL / (exp_below(epsilon) + classes - 1))
        self.own = TOTAL - (classes - 1) * self.other
        if self.own < self.other:
            raise ValueError("epsilon is too small for randomised response over so many classes")
        check_private(Fraction(self.own, self.other), epsilon)

    def weight(self, true: int, symbol: int) -> int:
        """``2**128 P(symbol | true)``, exactly."""
        return self.own if symbol == true else self.other

    def draw(self, true: int, bits: BitSource) -> int:
        """Draw the symbol that is reported for a class."""
        beyond = uniform_128(bits) - (self.own - self.other)
        return true if beyond < 0 else beyond // self.other  # C runs of `other`, one for the truth

    def push(self, mass: Floats) -> Floats:
        """Law of the symbol when the class follows `mass`: [..., C] → [..., C]."""
        return (self.own - self.other) / TOTAL * mass + self.other / TOTAL
