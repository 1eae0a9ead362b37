"""A check of virtual clients in this process: for notebooks, without Ray and Flower's command."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from hashlib import sha256
from typing import Any

import narwhals as nw
import numpy as np
from flwr.app import Context
from flwr.clientapp import ClientApp

from flwr_kld.clients import FirstUse, answer_drift_queries, answer_predictor_queries
from flwr_kld.kernel.arguments import instance, whole
from flwr_kld.report.predictor_report import PredictorReport
from flwr_kld.report.report import Report
from flwr_kld.simulations.in_process_grid import InProcessGrid
from flwr_kld.strategies.kl_drift import KLDrift
from flwr_kld.strategies.private_predictor import PrivatePredictor
from flwr_kld.sums import Identity


def simulate(
    monitor: KLDrift | PrivatePredictor,
    records: Any,
    *,
    clients: int,
    seed: int | None = None,
) -> Report | PredictorReport:
    """Run one check (or a predictor's round) of virtual clients in this process.

    Parameters
    ----------
    monitor : KLDrift or PrivatePredictor
        It keeps its state: each call is its next check.
    records : sequence, data frame, or Callable[[int], Any]
        Rows that are dealt to clients at random, or a function from a client's number to its rows.
    clients : int
        Number of clients, >= 2.
    seed : int, optional
        Of the dealing only. The noise is the monitor's: give `KLDrift` a seed to repeat that, too.

    Returns
    -------
    Report or PredictorReport
        What ``monitor.check`` returns, and with its errors.

    Raises
    ------
    ValueError
        If the trust model needs an aggregator: a node of its own, on `InProcessGrid`.
    """
    clients = whole("clients", clients, least=2, unit="clients")
    if seed is not None:
        seed = whole("seed", seed, least=0)
    deal = records if callable(records) else _dealt(records, clients, seed)
    app = ClientApp()

    def load(context: Context) -> Any:
        return deal(int(str(context.node_config["partition-id"])))

    if isinstance(monitor, PrivatePredictor):
        answer_predictor_queries(app, load, monitor.predictor.hypotheses.domain)
    else:
        instance("monitor", monitor, KLDrift, "a KLDrift or a PrivatePredictor")
        if monitor.trust.aggregator_keys:
            raise ValueError(
                f"simulate runs clients only, and {type(monitor.trust).__name__} needs an "
                "aggregator: run it on an InProcessGrid with aggregate_drift_checks(app, key=…)"
            )
        answer_drift_queries(app, load, monitor.reference.domain, secure_sum=_Signers())
    return monitor.check(InProcessGrid(app, clients))


class _Signers(FirstUse):
    """Keys that a name stands for, the same in each call: they protect nobody."""

    def identity(self, context: Context, member: int) -> Identity:
        return Identity(sha256(self.name(context, member).encode()).digest())


def _dealt(records: Any, clients: int, seed: int | None) -> Callable[[int], Any]:
    """Deal rows to clients at random, an equal number to each."""
    frame = nw.from_native(records, eager_only=True, allow_series=True, pass_through=True)
    rows = len(next(iter(records.values()))) if isinstance(records, Mapping) else len(records)
    places = np.array_split(np.random.default_rng(seed).permutation(rows), clients)

    def deal(client: int) -> Any:
        own = places[client].tolist()
        if isinstance(frame, nw.DataFrame | nw.Series):
            return frame[own].to_native()
        if isinstance(records, Mapping):
            return {name: [column[i] for i in own] for name, column in records.items()}
        return _picked(records, own)

    return deal


def _picked(rows: Any, own: list[int]) -> Any:
    return rows[own] if isinstance(rows, np.ndarray) else [rows[i] for i in own]
