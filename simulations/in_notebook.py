"""Questions to virtual clients in this process: for notebooks, without Ray and Flower's command."""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path
from typing import Any, Protocol, TypeVar, cast

import narwhals as nw
import numpy as np
from flwr.app import Context
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid

from flwr_kld.clients import FirstUse, answer_drift_queries, answer_predictor_queries
from flwr_kld.common.identity import Identity
from flwr_kld.kernel.arguments import instance, integer
from flwr_kld.simulations.in_process_grid import InProcessGrid
from flwr_kld.strategies.kl_drift import KLDrift
from flwr_kld.strategies.label_discovery import LabelDiscovery
from flwr_kld.strategies.private_predictor import PrivatePredictor
from flwr_kld.strategies.statistics import Statistics

R_co = TypeVar("R_co", covariant=True)


class Checks(Protocol[R_co]):
    """`KLDrift`."""

    def check(self, grid: Grid) -> R_co:
        """Run one check."""
        ...


class Asks(Protocol[R_co]):
    """Everything else that asks clients."""

    def ask(self, grid: Grid) -> R_co:
        """Ask once."""
        ...


def simulate(
    monitor: Checks[R_co] | Asks[R_co],
    records: Any,
    *,
    clients: int | None = None,
    seed: int | None = None,
) -> R_co:
    """Run one check, round or question of virtual clients in this process.

    Parameters
    ----------
    monitor : KLDrift, PrivatePredictor, Statistics or LabelDiscovery
        It keeps its state: each call is its next check.
    records : sequence, data frame, or Callable[[int], Any]
        Rows that are dealt to clients at random, or a function from a client's number to its rows.
        A list, a dict or a pandas GroupBy of data frames has the rows of one client in each. In a
        standing session, dealt rows are told by their place: give a seed, and only add rows.
    clients : int, optional
        Number of clients, >= 2; that of the frames where each is one client's.
    seed : int, optional
        Makes the dealing, cohorts and cells reproducible, and under `Trusted` the *noise*: reports
        then say ``private: false``. Noise that clients add is never seeded. Calls with one seed
        deal alike, and the monitor goes on drawing.

    Returns
    -------
    Report, PredictorReport, StatisticsReport or DiscoveryReport
        What ``monitor.check`` or ``.ask`` returns, and with its errors.

    Raises
    ------
    ValueError
        If the trust model needs an aggregator: a node of its own, on `InProcessGrid`.
    """
    frames = _frames(records)
    if frames is not None:
        if clients not in (None, len(frames)):
            raise ValueError(
                f"{len(frames)} frames are the rows of as many clients, not of {clients}: leave "
                "out clients=, or put the rows in one frame to deal them"
            )
        records, clients = frames.__getitem__, len(frames)
    clients = integer("clients", clients, least=2, unit="clients")
    if seed is not None:
        seed = integer("seed", seed, least=0)
    places = [] if callable(records) else _dealt(_rows(records), clients, seed)
    app = ClientApp()

    def number(context: Context) -> int:
        return int(str(context.node_config["partition-id"]))

    def load(context: Context) -> Any:
        client = number(context)
        return records(client) if callable(records) else _picked(records, places[client])

    what = "a KLDrift, PrivatePredictor, Statistics or LabelDiscovery"
    kinds = KLDrift | PrivatePredictor | Statistics | LabelDiscovery
    asked: Any = instance("monitor", monitor, kinds, what)
    if isinstance(asked, PrivatePredictor):
        answer_predictor_queries(app, load, asked.predictor.hypotheses.domain)
    elif asked.trust.aggregator_keys:
        raise ValueError(
            f"simulate runs clients only, and {type(asked.trust).__name__} needs an "
            "aggregator: run it on an InProcessGrid with aggregate_drift_checks(app, key=…)"
        )
    else:
        answer_drift_queries(
            app,
            load,
            asked.domain if isinstance(asked, Statistics) else asked.reference.domain,
            record_ids=(lambda context: places[number(context)]) if places else None,
            secure_sum=_Signers(),
            discover={asked.column} if isinstance(asked, LabelDiscovery) else frozenset(),
        )
    if seed is not None:
        asked._seeded(seed)
    grid = InProcessGrid(app, clients)
    run = asked.check if isinstance(asked, KLDrift) else asked.ask
    return cast(R_co, run(grid))


class _Signers(FirstUse):
    """Keys that a name stands for, the same in each call: they protect nobody."""

    def identity(self, context: Context, member: int) -> Identity:
        return Identity(sha256(self.name(context, member).encode()).digest())


def _frames(records: Any) -> list[Any] | None:
    """Return the data frames of clients, if these are such; refuse text."""
    if isinstance(records, str | bytes | Path):
        raise ValueError(
            "records= are rows, not the name of a file: read it first, such as "
            "pandas.read_csv(file, dtype=str)"
        )
    held = list(records.values()) if isinstance(records, dict) else records
    if type(records).__name__ == "DataFrameGroupBy":
        held = [rows for _, rows in records]
    if not isinstance(held, list | tuple) or not held:
        return None
    kinds = [nw.from_native(one, eager_only=True, pass_through=True) for one in held]
    return list(held) if all(isinstance(one, nw.DataFrame) for one in kinds) else None


def _rows(records: Any) -> int:
    return len(next(iter(records.values()))) if isinstance(records, Mapping) else len(records)


def _dealt(rows: int, clients: int, seed: int | None) -> list[list[int]]:
    """Deal rows to clients at random, an equal number to each."""
    # A stream apart from that which draws cohorts and cells
    order = np.random.default_rng(None if seed is None else [seed, rows]).permutation(rows)
    return [own.tolist() for own in np.array_split(order, clients)]


def _picked(records: Any, own: list[int]) -> Any:
    frame = nw.from_native(records, eager_only=True, allow_series=True, pass_through=True)
    if isinstance(frame, nw.DataFrame | nw.Series):
        return frame[own].to_native()
    if isinstance(records, Mapping):
        return {name: [column[i] for i in own] for name, column in records.items()}
    return records[own] if isinstance(records, np.ndarray) else [records[i] for i in own]
