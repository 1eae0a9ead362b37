"""Public queries: a label → class map, and the channel that privatises the class.

The channel is built and checked by whoever uses the query. A client that reads a query off the wire
therefore answers ``epsilon``-privately whatever map or query the server chose. It is randomised
response in exact integers: sampler, privacy check and server-side likelihood read the same ones.
Proof note: ``docs/proofs/predictors.md``.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from pydantic import Json, StrictStr

from flwr_kld.common.canonical_bytes import inflated
from flwr_kld.common.errors import DomainError, QueryRefused
from flwr_kld.common.strict_model import Model
from flwr_kld.kernel.arguments import finite, integer
from flwr_kld.kernel.delta import exp_below
from flwr_kld.kernel.law import TOTAL, BitSource, uniform_128
from flwr_kld.predictors import class_maps
from flwr_kld.predictors.class_maps import ClassMap
from flwr_kld.predictors.laws import Floats, Laws

_MAPS: dict[str, Callable[..., ClassMap]] = {
    "labels": class_maps.labels,
    "ovr": class_maps.one_versus_rest,
    "pair": class_maps.pair,
    "mlq": class_maps.likeliest,
    "cells": class_maps.cells,
    "side": class_maps.side,
    "regions": class_maps.regions,
}


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


@dataclass(frozen=True)
class _Wire(Model, what="the predictor's query", refused=QueryRefused):
    """A query as it travels; the classes of the labels are compressed little-endian uint16."""

    classes: int
    epsilon: float
    class_of: bytes
    context: Json[tuple[StrictStr]]  # in a list, as Flower counts no empty text


@dataclass(frozen=True, eq=False)
class Query:
    """What one client is asked. Public."""

    class_of: ClassMap  # Class of each label, shape [M], in 0..channel.classes-1
    channel: RandomisedResponse  # What blurs the class
    context: str = ""  # Which labels are asked for, where hypotheses depend on it

    @property
    def labels(self) -> int:
        """M."""
        return len(self.class_of)

    def answer(self, label: int, bits: BitSource) -> int:
        """Privatise one label: draw the symbol that is reported."""
        if not 0 <= label < len(self.class_of):
            raise DomainError("a label is outside the domain of the query")
        return self.channel.draw(int(self.class_of[label]), bits)

    def to_config(self) -> dict[str, str | int | float | bytes]:
        """Return the query as values of a Flower ConfigRecord."""
        packed = zlib.compress(self.class_of.astype("<u2").tobytes())
        wire = _Wire(self.channel.classes, self.channel.epsilon, packed, (self.context,))
        return wire.to_config()

    @classmethod
    def from_config(cls, config: object, labels: int) -> Query:
        """Rebuild a query on a client; the channel is checked again in exact arithmetic."""
        wire = _Wire.from_config(config)
        try:
            raw = inflated(wire.class_of, 2 * labels, "a class is missing, or one too many")
            class_of = np.frombuffer(raw, "<u2").astype(np.uint16)
            channel = RandomisedResponse(wire.classes, wire.epsilon)
            if class_of.max() >= wire.classes:
                raise ValueError("a class has no row in the channel")
        except (ValueError, ArithmeticError):
            raise QueryRefused("the predictor's query is not readable over this domain") from None
        return cls(class_of, channel, *wire.context)


def named_query(laws: Laws, name: str, epsilon: float) -> Query:
    """Build a query from its name, a map and its numbers."""
    # ``"ovr/3"`` asks whether hypothesis 3 makes the label likelier than on average.
    kind, *numbers = name.split("/")
    try:
        class_of = _MAPS[kind](laws, *(int(number, 0) for number in numbers))
    except (KeyError, TypeError, IndexError, OverflowError):
        raise ValueError(f"there is no query named {name!r}") from None
    return Query(class_of, RandomisedResponse(max(2, int(class_of.max()) + 1), epsilon))
