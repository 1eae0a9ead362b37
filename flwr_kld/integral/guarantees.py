"""How much boosting must gain: Theorems 6 and 7 of the paper, corrected.

As printed they are false: the low-boosting regime of Theorem 6 omits a factor c*, Lemma 15 (its
high-boosting regime) needs c* = ln 2, and (10) uses Γ(x) >= x ln 2, which holds at x = 1 only.
Proof note: ``docs/proofs/mbde.md``.
"""

from __future__ import annotations

import math


def round_bound(step: float, reach: float, target_edge: float, model_edge: float) -> float:
    """Return a lower bound of ``KL(P || Q_{t-1}) - KL(P || Q_t)``, in nats (Theorem 6).

    ``θ c* γ_P - ln(cosh θc* - γ_Q sinh θc*)``, in either regime: among all c with |c| <= c* and
    mean ``-c* γ_Q`` under Q_{t-1}, E e^(θc) is largest where c is ±c*. It is at least what either
    regime of the theorem gives once its error is mended.

    Parameters
    ----------
    step : float
        θ_t > 0.
    reach : float
        c*_t >= 0.
    target_edge, model_edge : float
        γ_P and γ_Q, in [-1, 1].
    """
    tilt = step * reach
    growth = math.cosh(tilt) - model_edge * math.sinh(tilt)
    return tilt * target_edge - math.log(growth)


def total_bound(
    epsilon: float, rounds: int, reach: float, target_edge: float, model_edge: float
) -> float:
    """Return a lower bound of ``KL(P || Q_0) - KL(P || Q_T)`` under MBDE, in nats (Theorem 7).

    ``(epsilon / 4 ln 2) (1 - θ_T) (c* γ_P - ln(cosh c* - γ_Q sinh c*))`` if every round has these
    c*, γ_P, γ_Q (or ones for which the last bracket is larger); meaningful where that is positive.
    With c* = ln 2 the logarithm is the paper's -Γ(γ_Q).
    """
    ratio = epsilon / (epsilon + 4 * math.log(2))
    each = reach * target_edge - math.log(math.cosh(reach) - model_edge * math.sinh(reach))
    return epsilon / (4 * math.log(2)) * (1 - ratio**rounds) * each
