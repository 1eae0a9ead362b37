"""Composition of pure mechanisms: exact, never below the truth, and tighter than the paper's."""

import math
from fractions import Fraction
from itertools import product

import pytest

from flwr_kld.kernel.delta import exp_below
from flwr_kld.simulations.studies.papers.learners import composed_delta, epsilon_each
from flwr_kld.trust.noise_laws import discrete_laplace


@pytest.mark.parametrize(("ratio", "copies"), [(Fraction(3, 2), 3), (Fraction(4), 4)])
@pytest.mark.parametrize("epsilon", [0.0, 0.3, 1.0, 2.5])
def test_randomised_response_composes_to_exactly_this(ratio, copies, epsilon):
    lie = 1 / (1 + ratio)
    law = {0: 1 - lie, 1: lie}
    other = {0: lie, 1: 1 - lie}
    bound = exp_below(epsilon)
    delta = Fraction(0)
    for outputs in product((0, 1), repeat=copies):
        p = math.prod((law[z] for z in outputs), start=Fraction(1))
        q = math.prod((other[z] for z in outputs), start=Fraction(1))
        delta += max(Fraction(0), p - bound * q)
    assert 0 <= composed_delta(ratio, copies, epsilon) - delta < Fraction(1, 1 << 60)


@pytest.mark.parametrize("epsilon", [0.5, 1.0])
def test_two_scores_of_discrete_laplace_noise_compose_to_no_more(epsilon):
    """Every pair of inputs one step apart, noise enumerated: the theorem on the real tables."""
    table = discrete_laplace(1.5)
    bound = exp_below(epsilon)
    law = [table.probability(k) for k in range(-30, 31)]
    moved = [table.probability(k - 1) for k in range(-30, 31)]
    pairs = list(zip(law, moved, strict=True))
    for second in (pairs, [(p, p) for p in law], [(q, p) for p, q in pairs]):
        exact = sum(max(Fraction(0), p * a - bound * q * b) for p, q in pairs for a, b in second)
        outside = 2 * (1 - sum(law))
        assert exact <= composed_delta(table.step_ratio, 2, epsilon) + outside
        assert outside < Fraction(1, 10**6)


@pytest.mark.parametrize("copies", [1, 2, 10, 100])
@pytest.mark.parametrize("epsilon", [0.5, 1.0, 4.0])
def test_the_epsilon_of_each_is_certified_tight_and_beats_the_papers_lemmas(copies, epsilon):
    delta = 1e-6
    each = epsilon_each(copies, epsilon, delta)
    assert composed_delta(exp_below(each), copies, epsilon) <= delta
    assert composed_delta(exp_below(each * 1.001), copies, epsilon) > delta
    log = math.log(1 / delta)
    # Lemma 2 (advanced composition) inverted, and what Lemma 3 prints.
    a, b = copies / 2, math.sqrt(2 * log * copies)
    lemma_2 = (math.sqrt(b * b + 4 * a * epsilon) - b) / (2 * a)
    lemma_3 = epsilon / (2 * math.sqrt(2 * copies * log) + math.sqrt(copies * epsilon))
    assert each > lemma_2
    assert each >= epsilon / copies
    assert lemma_2 / lemma_3 > 1.9


def test_out_of_range_is_refused():
    with pytest.raises(ValueError, match="copies"):
        epsilon_each(0, 1.0, 1e-6)
    with pytest.raises(ValueError, match="epsilon"):
        epsilon_each(2, -1.0, 1e-6)
    with pytest.raises(ValueError, match="delta"):
        epsilon_each(2, 1.0, 1.0)
