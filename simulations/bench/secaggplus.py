"""Flower's own SecAgg+, with as many neighbours as our secure sum takes, beside our sums.

Its workflow and its mod in this process, no network. SecAgg+ proves nothing of what clients send;
two aggregators check a proof of each client's counts.
"""

from __future__ import annotations

import logging
import secrets
import time
from collections.abc import Iterator

import numpy as np
import secure_sum
import two_aggregators
from flwr.app import ConfigRecord, Context, Message, RecordDict
from flwr.client.mod.secure_aggregation.secaggplus_mod import secaggplus_mod
from flwr.clientapp import ClientApp
from flwr.common import (
    Code,
    FitRes,
    Status,
    ndarrays_to_parameters,
    parameters_to_ndarrays,
)
from flwr.compat.common import recorddict_compat as compat
from flwr.server.client_manager import SimpleClientManager
from flwr.server.compat.grid_client_proxy import GridClientProxy
from flwr.server.compat.legacy_context import LegacyContext
from flwr.server.strategy import FedAvg
from flwr.server.workflow import SecAggPlusWorkflow
from flwr.server.workflow.constant import MAIN_CONFIGS_RECORD, MAIN_PARAMS_RECORD
from flwr.server.workflow.constant import Key as WorkflowKey
from measuring import Row, measured
from numpy.typing import NDArray

from flwr_kld.secure_sums.graph import Shape
from flwr_kld.simulations.in_process_grid import InProcessGrid

_CLIP = 1024.0
_FINEST = 2 * _CLIP / 2**22  # its quantiser's step


def rows(repeats: int = 5, *, quick: bool = False) -> Iterator[Row]:
    """Sum 1,000 counts of 100 clients; of SecAgg+, which takes a minute, there is one round."""
    clients, shape = (12, Shape(11, 8)) if quick else (100, secure_sum.USUAL)
    summed = secure_sum.Federation(clients)
    split = two_aggregators.Federation(clients, two_aggregators.CELLS)
    counts = two_aggregators.counts_of(clients)
    spent = secaggplus_seconds(summed.vectors, shape.neighbours, shape.threshold)
    peer = f"SecAgg+, {shape.neighbours} neighbours"
    for what, ours in (
        (f"secure sum, {shape.neighbours} neighbours", lambda: summed.run(shape)[0]),
        (
            "two aggregators and all their clients",
            lambda: split.run(counts, secrets.token_hex(8))[0],
        ),
    ):
        yield measured(
            "secaggplus", f"{clients} clients: {what}", ours,
            repeats=repeats, peer=peer, theirs=lambda: spent,
        )  # fmt: skip


def secaggplus_seconds(vectors: NDArray[np.uint32], neighbours: int, threshold: int) -> float:
    """Average the vectors, counts below 1,024; hold the result against the truth."""
    logging.getLogger("flwr").setLevel(logging.ERROR)
    n = len(vectors)
    grid = InProcessGrid(_app(vectors), n)
    context = _context(grid, *vectors.shape)
    workflow = SecAggPlusWorkflow(
        num_shares=neighbours + 1,
        reconstruction_threshold=threshold,
        max_weight=1.0,
        clipping_range=_CLIP,
    )
    began = time.process_time()
    workflow(grid, context)
    seconds = time.process_time() - began
    (mean,) = parameters_to_ndarrays(
        compat.arrayrecord_to_parameters(context.state.array_records[MAIN_PARAMS_RECORD], True)
    )
    if np.abs(mean - vectors.mean(0)).max() > _FINEST:
        raise RuntimeError("the SecAgg+ average is wrong")
    return seconds


def _app(vectors: NDArray[np.uint32]) -> ClientApp:
    app = ClientApp(mods=[secaggplus_mod])

    @app.train()
    def train(message: Message, context: Context) -> Message:
        own = vectors[int(context.node_config["partition-id"])].astype(float)
        result = FitRes(Status(Code.OK, ""), ndarrays_to_parameters([own]), 1, {})
        return Message(compat.fitres_to_recorddict(result, True), reply_to=message)

    return app


def _context(grid: InProcessGrid, n: int, cells: int) -> LegacyContext:
    clients = SimpleClientManager()
    for node in grid.get_node_ids():
        clients.register(GridClientProxy(node, grid, 1))
    context = LegacyContext(
        Context(run_id=1, node_id=1, node_config={}, state=RecordDict(), run_config={}),
        strategy=FedAvg(fraction_fit=1.0, min_fit_clients=n, min_available_clients=n),
        client_manager=clients,
    )
    start = ndarrays_to_parameters([np.zeros(cells)])
    context.state.config_records[MAIN_CONFIGS_RECORD] = ConfigRecord({WorkflowKey.CURRENT_ROUND: 1})
    context.state.array_records[MAIN_PARAMS_RECORD] = compat.parameters_to_arrayrecord(start, True)
    return context
