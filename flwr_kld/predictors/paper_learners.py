"""The two algorithms of the paper: locally privatised weighted majority, and locally private EXP3.

Sima, Wu, Milenkovic, Szpankowski, "Online Distribution Learning with Local Private Constraints",
sections 4 and 5. Baselines, kept faithful: their risk stays near that of the uniform mixture for
horizons up to 100,000. Corrected: noise scales follow from each hypothesis' own range; in
Algorithm 1, the learning rate is the one of its Lemma 1 (the listing prints that of Algorithm 2),
and composition is exact, where Lemma 3 spends about twice the noise that its Lemma 2 asks for.
Proof note: ``docs/proofs/local-wma.md``.
"""

from __future__ import annotations

import math

import numpy as np

from flwr_kld.kernel.arguments import whole
from flwr_kld.kernel.promise import check_epsilon_delta
from flwr_kld.predictors.composition import epsilon_each
from flwr_kld.predictors.hypotheses import Hypotheses
from flwr_kld.predictors.score_predictor import ScorePredictor


class LocallyPrivateWMA(ScorePredictor):
    """Algorithm 1, (epsilon, delta): a report holds the noised log-likelihoods of all hypotheses.

    Parameters
    ----------
    hypotheses : Hypotheses
        The K candidates.
    epsilon, delta : float
        What one report costs its client; delta > 0.
    horizon : int
        T, at least 2.

    Raises
    ------
    ValueError
        If a parameter is out of range.
    """

    name = "local-wma"

    def __init__(
        self, hypotheses: Hypotheses, epsilon: float, *, delta: float = 1e-6, horizon: int
    ) -> None:
        k, horizon = len(hypotheses.names), whole("horizon", horizon, least=2)
        epsilon, delta = check_epsilon_delta(epsilon, delta)
        if not delta:
            raise ValueError("Algorithm 1 needs delta > 0: for delta = 0 use PureLocalEXP3")
        super().__init__(
            hypotheses,
            epsilon,
            delta,
            horizon=horizon,
            each=epsilon_each(k, epsilon, delta),
            arms=np.arange(k)[None, :],
            rate=math.sqrt(2 * math.log(k) / horizon),
        )


class PureLocalEXP3(ScorePredictor):
    """Algorithm 2, pure epsilon: a report holds the noised log-likelihood of one hypothesis.

    Which one is a public hash of round and client; the paper's J_t, drawn with public coins.

    Parameters
    ----------
    hypotheses : Hypotheses
        The K candidates.
    epsilon : float
        What one report costs its client, in nats.
    horizon : int
        T, at least 2.

    Raises
    ------
    ValueError
        If a parameter is out of range.
    """

    name = "local-exp3"

    def __init__(self, hypotheses: Hypotheses, epsilon: float, *, horizon: int) -> None:
        k, horizon = len(hypotheses.names), whole("horizon", horizon, least=2)
        super().__init__(
            hypotheses,
            epsilon,
            0.0,
            horizon=horizon,
            each=epsilon,
            arms=np.arange(k)[:, None],
            rate=math.sqrt(2 * k * math.log(k) / horizon),
        )
