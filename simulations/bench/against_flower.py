"""A check beside what a Flower user would write today, in the same run; neither is private.

A check is over when its report can be read: as text, and as data.

- *histograms in the clear*: every client sends its counts of all symbols, the server adds them up
  and compares them with the reference;
- *column means*: every client sends a mean, as Flower's own example of federated analytics does.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from flwr.app import Array, ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from measuring import Row, cpu, measured
from numpy.typing import NDArray

from flwr_kld import Binned, Reference
from flwr_kld.clients import answer_drift_queries
from flwr_kld.infer.divergence import skewed_divergence
from flwr_kld.infer.estimators.score import THETA
from flwr_kld.simulations.in_process_grid import InProcessGrid
from flwr_kld.strategies import KLDrift, Trusted

_RECORDS, _CELLS = 100, 1000


def rows(repeats: int = 5, *, quick: bool = False) -> Iterator[Row]:
    """Compare checks among 100 clients and among 1,000."""
    for clients in (20,) if quick else (100, 1000):
        yield from of_clients(clients, repeats)


def of_clients(clients: int, repeats: int) -> Iterator[Row]:
    """Compare one check of 100 records a client in 1,000 cells, a node a client."""
    values = np.random.default_rng(0).random((clients, _RECORDS))
    domain = Binned.uniform(0, 1, _CELLS)
    reference = Reference.from_samples(domain, values.ravel(), floor=0.1)
    grid = InProcessGrid(_app(values, domain), clients)
    monitor = KLDrift(reference, Trusted(epsilon=1.0, delta=1e-6))

    def check() -> None:
        report = monitor.check(grid)
        str(report)
        report.to_dict()

    check()  # the first one fills caches

    def histograms() -> float:
        total = sum(reply.content["own"]["counts"].numpy() for reply in _ask(grid, "histogram"))
        return skewed_divergence(reference.probabilities, np.asarray(total), THETA)

    def means() -> float:
        return float(np.mean([reply.content["own"]["mean"] for reply in _ask(grid, "mean")]))

    for peer, run in (("histograms in the clear", histograms), ("column means", means)):
        yield measured(
            "against_flower", f"check of {clients:,} clients", cpu(check),
            repeats=repeats, peer=peer, theirs=cpu(run),
        )  # fmt: skip


def _ask(grid: InProcessGrid, what: str) -> list[Message]:
    messages = [Message(RecordDict(), node, f"query.{what}") for node in grid.get_node_ids()]
    return list(grid.send_and_receive(messages, timeout=60))


def _app(values: NDArray[np.float64], domain: Binned) -> ClientApp:
    """Build one app that answers all three."""
    app = ClientApp()

    def own(context: Context) -> NDArray[np.float64]:
        records: NDArray[np.float64] = values[int(context.node_config["partition-id"])]
        return records

    @app.query("histogram")
    def histogram(message: Message, context: Context) -> Message:
        counts = np.bincount(domain.encode(own(context)), minlength=domain.size)
        content = RecordDict({"own": ArrayRecord({"counts": Array(counts)})})
        return Message(content, reply_to=message)

    @app.query("mean")
    def mean(message: Message, context: Context) -> Message:
        content = RecordDict({"own": MetricRecord({"mean": float(own(context).mean())})})
        return Message(content, reply_to=message)

    answer_drift_queries(app, own, domain)
    return app
