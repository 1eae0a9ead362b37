"""Checks under each trust model; for each a JSON line with its seconds and its exchanges."""

import json
import time
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path

from flwr.app import Context, Message, RecordDict
from flwr.serverapp import Grid, ServerApp

from asked.client_app import USUAL, labels
from asked.pinned import AGGREGATORS
from flwr_kld import Reference
from flwr_kld.secure_sums import Roster
from flwr_kld.strategies import (
    Distributed,
    KLDrift,
    SecureSum,
    Trusted,
    TrustedAggregator,
    TwoAggregators,
)

app = ServerApp()
reference = Reference.from_counts(labels, list(USUAL.values()))


@app.main()
def main(grid: Grid, context: Context) -> None:
    """Run each check once, after empty exchanges."""
    config = context.run_config
    roster = Roster.from_json(Path(str(config["roster"])).read_text())
    while len(nodes := list(grid.get_node_ids())) < int(config["nodes"]):
        time.sleep(0.2)
    summed = SecureSum(roster=roster)
    models = {
        "Trusted": (Trusted(1.0), None),
        "Trusted, SecureSum": (Trusted(1.0), summed),
        "TrustedAggregator": (TrustedAggregator(1.0, aggregator=AGGREGATORS[0]), None),
        "TwoAggregators": (TwoAggregators(1.0, aggregators=AGGREGATORS), None),
        "Distributed, SecureSum": (Distributed(1.0, min_clients=3), summed),
    }
    asked: dict[str, Callable[[], object]] = {
        name: partial(KLDrift(reference, trust, aggregation=how, threshold=0.1).check, grid)
        for name, (trust, how) in models.items()
    }

    def nothing() -> None:
        """Send an exchange that asks nothing."""
        messages = [Message(RecordDict(), node, "query.nothing") for node in nodes]
        replies = list(grid.send_and_receive(messages, timeout=600))
        if len(replies) < len(nodes) or any(reply.has_error() for reply in replies):
            raise RuntimeError("a node did not answer")

    sent = []
    push = grid.push_messages

    def counted(messages: Iterable[Message]) -> Iterable[str]:
        sent.append(messages)
        return push(messages)

    grid.push_messages = counted
    for name, ask in {"nothing": nothing, **asked}.items():
        for _ in range(int(config["empty"]) if name == "nothing" else 1):
            sent.clear()
            began = time.monotonic()
            ask()
            seconds = time.monotonic() - began
            found = {"trust": name, "seconds": seconds, "exchanges": len(sent)}
            print("ASKED", json.dumps(found), flush=True)
