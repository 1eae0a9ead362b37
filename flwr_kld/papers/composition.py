"""Exact (epsilon, delta) of several pure mechanisms that read the same label.

Kairouz, Oh, Viswanath 2015: among mechanisms of likelihood ratio at most r, randomised response
composes worst, and its k-fold divergence is a binomial sum, computed here in rationals. It takes
the place of the paper's Lemma 2 (advanced composition) and of the noise in its Lemma 3, which is
about twice what Lemma 2 asks for.
"""

from __future__ import annotations

import math
from fractions import Fraction
from functools import lru_cache

from flwr_kld.kernel.arguments import whole
from flwr_kld.kernel.delta import exp_below
from flwr_kld.kernel.promise import check_epsilon_delta
from flwr_kld.search import edge

_BITS = 80
_PRECISION = 1e-6


def composed_delta(ratio: Fraction, copies: int, epsilon: float) -> Fraction:
    """Smallest delta, from above, of `copies` mechanisms of likelihood ratio at most `ratio`."""
    # ``Σ_l C(k, l) max(0, r**(k-l) - e**epsilon r**l) / (1 + r)**k``, with r rounded up and
    # ``e**epsilon`` down.
    one = 1 << _BITS
    r = math.ceil(ratio * one)
    bound = exp_below(epsilon)
    excess: Fraction = Fraction(0)
    for lies in range(copies + 1):
        likely = r ** (copies - lies) * one**lies
        unlikely = r**lies * one ** (copies - lies)
        excess += math.comb(copies, lies) * max(Fraction(0), likely - bound * unlikely)
    return excess / Fraction((one + r) ** copies)


@lru_cache(maxsize=32)
def epsilon_each(copies: int, epsilon: float, delta: float) -> float:
    """Largest epsilon of each of `copies` mechanisms that are (epsilon, delta)-private together."""
    epsilon, delta = check_epsilon_delta(epsilon, delta)
    copies = whole("copies", copies, least=1)
    return edge(
        lambda each: composed_delta(exp_below(each), copies, epsilon) <= delta,
        epsilon / copies,
        epsilon + math.sqrt(2 * math.log(2 / max(delta, 1e-300))),
        within=_PRECISION,
    )
