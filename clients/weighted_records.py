"""Weights of a client's records in the loss, as a server sends them after a drift."""

from __future__ import annotations

from typing import Any

import numpy as np
from flwr.app import ConfigRecord
from numpy.typing import NDArray

from flwr_kld.table.base import Domain
from flwr_kld.trust.envelopes import LOSS_WEIGHTS, LOSS_WEIGHTS_DOMAIN


def loss_weights(config: ConfigRecord, domain: Domain, values: Any) -> NDArray[np.float64]:
    """Return the weight of each record in the loss; 1 unless the server sends any.

    Parameters
    ----------
    config : ConfigRecord
        Of a training message: ``message.content["config"]``.
    domain : Domain
        Of the column that `Reweight` names, such as ``reference.columns["label"].domain``.
    values : Any
        The column's values, one a record.

    Returns
    -------
    NDArray[np.float64]
        Shape [records], positive.

    Raises
    ------
    ValueError
        If the weights are of another domain, or are none.
    """
    symbols = np.asarray(domain.encode(values))
    if LOSS_WEIGHTS not in config:
        return np.ones(len(symbols))
    weights = np.asarray(config[LOSS_WEIGHTS], dtype=np.float64)
    if config.get(LOSS_WEIGHTS_DOMAIN) != domain.fingerprint or weights.shape != (domain.size,):
        raise ValueError("the server's weights are of another domain than this column's")
    if not (np.isfinite(weights) & (weights > 0)).all():
        raise ValueError("the server's weights are not positive numbers")
    return weights[symbols]
