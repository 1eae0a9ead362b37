"""Channels: their integers are what is drawn, what is checked, and what is private."""

from collections import Counter
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
from scripted import ScriptedBits

from flwr_kld.kernel.delta import exp_below
from flwr_kld.kernel.law import TOTAL
from flwr_kld.predictors.query import RandomisedResponse

EPSILONS = (0.05, 0.5, 1.0, 4.0, 12.0)
CHANNELS = [
    *(RandomisedResponse(classes, e) for classes in (2, 3, 7, 100, 1000) for e in EPSILONS),
]


def name(channel):
    return f"{channel.classes}-{channel.epsilon:g}"


def columns(channel):
    """Smallest and largest weight of each symbol over all classes."""
    for symbol in range(channel.classes):
        weights = [channel.weight(true, symbol) for true in range(channel.classes)]
        yield min(weights), max(weights)


@pytest.mark.parametrize("channel", CHANNELS, ids=name)
def test_rows_are_distributions_and_no_ratio_exceeds_e_to_the_epsilon(channel):
    for true in {0, 1, channel.classes - 1}:
        row = [channel.weight(true, symbol) for symbol in range(channel.classes)]
        assert min(row) > 0
        assert sum(row) == TOTAL
    worst = max(Fraction(high, low) for low, high in columns(channel))
    assert worst <= exp_below(channel.epsilon)
    assert worst > exp_below(channel.epsilon * (1 - 1e-6))  # no privacy is given away either


def runs(channel):
    """Bounds of the runs of numbers that should give one symbol each."""
    truth = channel.own - channel.other
    return [0, *(truth + k * channel.other for k in range(channel.classes + 1))]


@pytest.mark.parametrize(
    "channel",
    [RandomisedResponse(2, 1.0), RandomisedResponse(5, 0.5)],
    ids=name,
)
def test_each_symbol_owns_exactly_its_weight_in_numbers(channel):
    for true in range(channel.classes):
        bounds, owned = runs(channel), Counter()
        assert bounds[-1] == TOTAL
        for start, end in pairwise(bounds):
            symbols = {
                channel.draw(true, ScriptedBits.of(n)) for n in (start, (start + end) // 2, end - 1)
            }
            assert len(symbols) == 1
            owned[symbols.pop()] += end - start
        assert owned == {z: channel.weight(true, z) for z in range(channel.classes)}


def test_push_is_the_law_of_the_symbol():
    channel = RandomisedResponse(4, 1.0)
    mass = np.random.default_rng(1).dirichlet(np.ones(channel.classes), size=3)
    rows = np.array(
        [[channel.weight(c, z) / TOTAL for z in range(channel.classes)]
         for c in range(channel.classes)]
    )  # fmt: skip
    np.testing.assert_allclose(channel.push(mass), mass @ rows, rtol=1e-13)


@pytest.mark.parametrize("epsilon", [0.0, -1.0, float("nan"), float("inf")])
def test_an_epsilon_that_means_nothing_is_refused(epsilon):
    with pytest.raises(ValueError, match="epsilon"):
        RandomisedResponse(3, epsilon)


def test_too_few_classes_are_refused():
    with pytest.raises(ValueError, match="classes"):
        RandomisedResponse(1, 1.0)
