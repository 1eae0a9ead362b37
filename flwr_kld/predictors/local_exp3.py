"""Algorithm 2 of the paper: locally private EXP3, pure epsilon.

Sima, Wu, Milenkovic, Szpankowski, "Online Distribution Learning with Local Private Constraints",
section 5. Corrected: noise scales follow from each hypothesis' own range. A baseline, kept
faithful: the risk stays near that of the uniform mixture for horizons up to 100,000.
Proof note: ``docs/proofs/local-wma.md``.
"""

from __future__ import annotations

import math

import numpy as np

from flwr_kld.arguments import whole
from flwr_kld.predictors.hypotheses import Hypotheses
from flwr_kld.predictors.score_predictor import ScorePredictor


class PureLocalEXP3(ScorePredictor):
    """Each report holds the noised log-likelihood of its label under one hypothesis.

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
