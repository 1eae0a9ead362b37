"""The Trusted model: contradictions fail at once, and what is published is what was promised."""

import math
from fractions import Fraction

import numpy as np
import pytest
from exact import published
from numbered import Numbered
from rows import answered

from flwr_kld.ask.noisy import NoisyCounts
from flwr_kld.ask.partition import Partition
from flwr_kld.kernel import Guarantee
from flwr_kld.kernel.delta import exp_below
from flwr_kld.kernel.law import SeededBits
from flwr_kld.kernel.promise import Ball, WholeClients
from flwr_kld.kernel.vector import ClearSum
from flwr_kld.reference import Reference
from flwr_kld.trust.trusted import Trusted

REFERENCE = Reference.from_counts(Numbered(4), [4, 3, 2, 1])
PLAN = Partition(16).draw(REFERENCE, np.random.default_rng(0))
COUNTS = [9, 0, 3, 1]


def clear(trust: Trusted) -> ClearSum:
    return answered(PLAN.layout, COUNTS, guarantee=trust.guarantee)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"epsilon": 0.0}, "epsilon"),
        ({"epsilon": 100.0}, "epsilon"),
        ({"epsilon": 1e-7}, "epsilon"),
        ({"delta": 1.0}, "delta"),
        ({"protects": "client"}, "protects"),
    ],
)
def test_contradictions_fail_before_anything_is_asked(arguments, message):
    with pytest.raises(ValueError, match=message):
        Trusted(**{"epsilon": 1.0, **arguments})


LEGAL = [
    {},
    {"delta": 1e-6},
    {"delta": 0.3},
    {"protects": WholeClients(30)},
]


@pytest.mark.parametrize("arguments", LEGAL)
def test_what_is_published_keeps_the_promise(arguments):
    trust = Trusted(1.0, **arguments)
    told = published(trust, clear(trust), PLAN, SeededBits(3))
    event = told.event
    assert type(told) is NoisyCounts
    assert event.delta_at(1.0) <= trust.delta
    assert event.delta_at(0.9) > trust.delta  # no more noise than needed
    assert event.mechanism == f"discrete-{'gaussian' if trust.delta == 0.3 else 'laplace'}"
    assert event.guarantee == Guarantee(trust.epsilon, trust.delta, trust.protects)
    assert not told.private


@pytest.mark.parametrize(
    ("arguments", "moves"),
    [
        ({}, (1, -1)),
        ({"protects": WholeClients(70)}, Ball(1, 70, 70)),
    ],
)
def test_counts_hide_the_move_of_what_is_protected(arguments, moves):
    trust = Trusted(1.0, **arguments)
    assert published(trust, clear(trust), PLAN, SeededBits(0)).event.moves == moves


@pytest.mark.parametrize("most", [1, 7, 100])
def test_a_client_costs_the_scale_of_its_records(most):
    trust, ratio = Trusted(1.0, protects=WholeClients(most)), math.exp(-1 / most)
    variance = published(trust, clear(trust), PLAN, SeededBits(0)).noise.variance
    assert variance == pytest.approx(2 * ratio / (1 - ratio) ** 2, rel=1e-4)


@pytest.mark.parametrize("spread", [(7, 0, 0, 0), (3, 4, 0, 0), (2, 2, 2, 1)])
def test_client_counts_hide_a_client_however_its_records_lie(spread):
    """Every output's likelihood ratio is at most e**eps: exactly, over a grid of outputs."""
    trust = Trusted(1.0, protects=WholeClients(7))
    table = published(trust, clear(trust), PLAN, SeededBits(0)).noise
    worst = Fraction(1)
    for move in spread:
        reach = range(-table.reach - 12, table.reach + 13)
        worst *= max(table.probability(k) / table.probability(k - move) for k in reach)
    assert worst <= exp_below(1.0)
    assert float(worst) == pytest.approx(math.e, rel=1e-4)
