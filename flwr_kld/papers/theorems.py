"""What the papers' theorems promise of their own algorithms: studies set it beside what holds."""

from __future__ import annotations

import math

import numpy as np

from flwr_kld.predictors.laws import Floats


def variance_bound(pi: Floats, p: Floats, lam: float) -> float:
    """T times the right side of PRIEST-KLD's Theorem 4.4, without σ²; infinite as β is."""
    with np.errstate(divide="ignore"):
        ratio = p / pi
        alpha, beta = ratio.max(), (1 / ratio).max()
        forward, backward = -pi @ np.log(ratio), p[p > 0] @ np.log(ratio[p > 0])
    if np.isinf(beta):
        return math.inf
    spread = max(alpha - 1, beta**2 - 1) + forward**2
    return float(lam**2 * (alpha - 1) + spread - 2 * lam * (forward + backward))


def kl_risk(hypotheses: int, epsilon: float, horizon: int, *, delta: float = 0.0) -> float:
    """Bound the KL-risk of Algorithm 2 (Theorem 5), or of Algorithm 1 at a delta (Theorem 4)."""
    log_kt = math.log(hypotheses * horizon)
    noise = log_kt / epsilon
    if delta:
        copies = math.sqrt(2 * hypotheses * math.log(1 / delta))
        noise *= 2 * copies + math.sqrt(hypotheses * epsilon)
    scale = log_kt + 2 * noise * (2 * math.log(horizon) + math.log(hypotheses))
    regret = 2 * horizon * math.log(hypotheses) * (1 if delta else hypotheses)
    return scale * math.sqrt(regret) + 4 * log_kt


def tv_risk(hypotheses: int, epsilon: float, horizon: int) -> float:
    """Bound the mean TV-risk (Theorem 6), by Pinsker's and Cauchy-Schwarz from Theorem 5."""
    return math.sqrt(kl_risk(hypotheses, epsilon, horizon) / 2 / horizon)
