"""Seconds of a check on a real SuperLink, by trust model; four clients, two aggregators.

By the clock: nearly all of it is waiting for Flower's nodes, which poll the SuperLink, and for the
process that each of them starts for a message. The peer is as many exchanges in which nodes answer
nothing; no check can be faster than that.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

from flower_deployment import Deployment, deployed
from measuring import Row, numpy_seconds, x25519_seconds

APP = Path(__file__).parent / "superlink_app"
_CLIENTS = ("ayr", "bern", "como", "davos")


def rows(repeats: int = 5, *, quick: bool = False) -> Iterator[Row]:
    """Run a check under every trust model."""
    with TemporaryDirectory() as folder, deployed(Path(folder)) as running:
        printed = _asked(running, Path(folder), 1 if quick else 2)
    found = [json.loads(line) for line in re.findall(r"ASKED (\{.*\})", printed)]
    if not found:
        raise RuntimeError(f"the app did not run: {printed[-3000:]}")
    by_trust = {t: list(own) for t, own in groupby(found, key=lambda one: one["trust"])}
    exchange = _seconds(by_trust.pop("nothing"))
    for trust, own in by_trust.items():
        (exchanges,) = {one["exchanges"] for one in own}
        yield Row(
            "superlink", f"{trust}, by the clock", _seconds(own), x25519_seconds(), numpy_seconds(),
            peer=f"{exchanges} empty exchanges", peer_seconds=exchanges * exchange,
        )  # fmt: skip


def _seconds(asked: list[dict[str, Any]]) -> float:
    return median(one["seconds"] for one in asked)


def _asked(running: Deployment, folder: Path, empty: int) -> str:
    """Start the nodes; return what the app prints."""
    roster = running.add_two_aggregators(APP, _CLIENTS)
    config = f'nodes={len(_CLIENTS) + 2} empty={empty} roster="{roster}"'
    return running.run(folder / "app", "--run-config", config)
