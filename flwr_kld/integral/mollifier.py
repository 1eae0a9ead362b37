"""Boxes of densities, any two of which differ by a factor of at most ``e**epsilon``.

One draw from any member of such a set protects everybody in the data at once, whatever their number
(Husain, Cranko and Nock, Definition 3 and Lemma 4). Every such set lies inside a box
``{Q: a Q0 <= Q <= a e**epsilon Q0}``, so there is nothing to gain beyond boxes.
Proof note: ``docs/proofs/integral.md``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from flwr_kld.common.search import edge
from flwr_kld.integral.base import FiniteBase, Floats, finite_array
from flwr_kld.kernel.arguments import finite, instance, set_fields

_SMALLEST_EPSILON, _LARGEST_EPSILON = 1e-9, 40.0
_ROUNDING = 1e-12
_NO_MASS = 1e-290
"""Target masses below this count as zero: their fraction of any divergence is below 1e-287 nats."""


def check_epsilon(epsilon: float) -> float:
    """Return an epsilon as Python's number; ValueError unless it is in [1e-9, 40] nats."""
    least, most = _SMALLEST_EPSILON, _LARGEST_EPSILON
    return finite("epsilon", epsilon, least=least, most=most, unit="nats")


@dataclass(frozen=True)
class Mollifier:
    """The box ``{Q: a Q0 <= Q <= a e**epsilon Q0}``.

    Make it with `symmetric` or `asymmetric`. Nothing in it may come from private data.

    Parameters
    ----------
    epsilon : float
        Width of the box in nats, in [1e-9, 40]: what one draw costs.
    floor : float
        a, between ``e**-epsilon`` and 1 and not within rounding of either.
    """

    epsilon: float
    floor: float

    def __post_init__(self) -> None:
        set_fields(self, epsilon=check_epsilon(self.epsilon), floor=finite("floor", self.floor))
        if not math.exp(-self.epsilon) * (1 + _ROUNDING) < self.floor < 1 - _ROUNDING:
            raise ValueError(
                f"the floor must be between e**-epsilon and 1, got {self.floor}: at either end the "
                "box holds nothing but the base"
            )

    @classmethod
    def symmetric(cls, epsilon: float) -> Mollifier:
        """Return the paper's box ``[e**(-epsilon/2), e**(epsilon/2)]``: best drop epsilon / 2."""
        epsilon = check_epsilon(epsilon)
        return cls(epsilon, math.exp(-epsilon / 2))

    @classmethod
    def asymmetric(cls, epsilon: float, fraction: float) -> Mollifier:
        """Return the box that is best where the data live on a small fraction of the base.

        Parameters
        ----------
        epsilon : float
            In nats.
        fraction : float
            s in (0, 1): the base's mass that a member can lift to the ceiling, a *public* guess of
            where the data live. Small for peaked data (0.1; 0.02 for 65,536 patterns); the best
            drop is ``epsilon - ln(1 + s (e**epsilon - 1))``.
        """
        epsilon, fraction = check_epsilon(epsilon), finite("fraction", fraction, above=0, below=1)
        return cls(epsilon, 1 / (1 + fraction * math.expm1(epsilon)))

    @property
    def ceiling(self) -> float:
        """Largest density relative to the base, ``a e**epsilon``."""
        return self.floor * math.exp(self.epsilon)


def project(target: Floats, base: FiniteBase, box: Mollifier) -> Floats:
    """Return the member of the box that is nearest to a target.

    It is ``clip(u P, a Q0, a e**epsilon Q0)`` for the u that makes it sum to 1, and it minimises
    KL(P || Q) and every other f-divergence at once.

    Parameters
    ----------
    target : Floats
        P, shape [n], non-negative with some mass; need not sum to 1.
    base : FiniteBase
        Q0.
    box : Mollifier
        The set to stay in.

    Returns
    -------
    Floats
        Q, shape [n], summing to 1. Where P's support at the ceiling leaves mass over, what is left
        is spread over the other symbols in proportion to Q0.

    Raises
    ------
    ValueError
        If the target is not a finite non-negative vector over the base with a positive sum.
    """
    instance("base", base, FiniteBase, "a FiniteBase, such as FiniteBase.of(reference)")
    instance("box", box, Mollifier, "a Mollifier, such as Mollifier.symmetric(1.0)")
    p = finite_array("the target's masses", target)
    if p.shape != base.mass.shape or (p < 0).any() or not p.any():
        raise ValueError(
            f"the target must be {base.size} non-negative numbers that are not all zero"
        )
    p = p / p.max()
    low, high = box.floor * base.mass, box.ceiling * base.mass
    reached = p > _NO_MASS
    spare = 1 - float(high[reached].sum())
    if not reached.all() and spare >= low[~reached].sum():
        rest = base.mass * (spare / base.mass[~reached].sum())
        return np.where(reached, high, rest)
    p = np.where(reached, p, 0.0)
    q = np.clip(_scale(p, low, high) * p, low, high)
    inside = (q > low) & (q < high)
    if inside.any():  # take up what bisection left over
        q[inside] *= (1 - q[~inside].sum()) / q[inside].sum()
    return np.clip(q, low, high)


def _scale(p: Floats, low: Floats, high: Floats) -> float:
    """Find u with ``sum(clip(u p, low, high)) = 1``, by bisection on ln u; p has maximum 1."""
    positive = p > 0
    bottom = math.log(float((low[positive] / p[positive]).min()))
    top = math.log(float((high[positive] / p[positive]).max()))
    q = np.empty_like(p)  # one buffer: fresh ones would take most of the time

    def short(log_scale: float) -> bool:
        np.multiply(p, math.exp(log_scale), out=q)
        np.minimum(np.maximum(q, low, out=q), high, out=q)
        return bool(np.add.reduce(q) < 1)

    return math.exp(edge(short, bottom, top))
