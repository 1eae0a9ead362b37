"""What training does about a drift: train longer, end, or weight records as the reference would."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from flwr.app import ConfigRecord

from flwr_kld.ask.plan import cells_by_symbol
from flwr_kld.kernel.arguments import integer, set_fields, text
from flwr_kld.reference import Reference
from flwr_kld.report.report import Report
from flwr_kld.trust.envelopes import LOSS_WEIGHTS, LOSS_WEIGHTS_DOMAIN

_MOST_WEIGHT = 20.0
"""Of a record, and one over it: light records would otherwise decide the loss."""


@dataclass(frozen=True)
class Retrain:
    """Let at least so many rounds of training follow a drift, beyond those that were planned.

    Parameters
    ----------
    rounds : int
        At least 1. Rounds beyond the plan are numbered from 1 for the wrapped strategy.
    """

    rounds: int = 3

    def __post_init__(self) -> None:
        set_fields(self, rounds=integer("rounds", self.rounds, least=1, unit="rounds"))


@dataclass(frozen=True)
class Pause:
    """End the training after the round whose check found a drift, with that round's model."""


@dataclass(frozen=True)
class Reweight:
    """Send weights with the train config, under which a column of the clients is as the reference.

    A client gets its records' weights in the loss from `flwr_kld.clients.loss_weights`. They follow
    from the report, at no further epsilon; divided by them, a model's probabilities fit the
    clients.

    Parameters
    ----------
    column : str
        Of the table, with counts in the report; of a single column, its domain's kind.
    """

    column: str

    def __post_init__(self) -> None:
        text("column", self.column)

    def config(self, report: Report, reference: Reference) -> ConfigRecord:
        """Return the weights of the column's symbols; nothing if the report has no counts of it."""
        own, counts = reference.columns[self.column], report.columns[self.column].counts
        if counts is None:
            return ConfigRecord()
        least = max(counts.noise, 1.0)  # in records: less is not told from none
        clients = np.maximum(np.array(counts.values, dtype=float), least)[cells_by_symbol(own)]
        clients /= clients[own.probabilities > 0].sum()
        weights = np.clip(own.probabilities / clients, 1 / _MOST_WEIGHT, _MOST_WEIGHT)
        weights[own.probabilities == 0] = 1.0  # nothing is known of them
        return ConfigRecord(
            {LOSS_WEIGHTS: weights.tolist(), LOSS_WEIGHTS_DOMAIN: own.domain.fingerprint}
        )


Action = Retrain | Pause | Reweight | Callable[[int, Report], None]
