"""Seconds of a check on a real SuperLink, by trust model; four clients, two aggregators.

By the clock: nearly all of it is waiting for Flower's nodes, which poll the SuperLink, and for the
process that each of them starts for a message. The peer is as many exchanges in which nodes answer
nothing; no check can be faster than that.
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

from flower_deployment import Deployment, deployed
from measuring import Row, numpy_seconds, x25519_seconds

from flwr_kld.clients import AggregatorKey
from flwr_kld.secure_sums import Identity, Roster

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
    keys = [AggregatorKey.generate() for _ in range(2)]
    who = {name: Identity.generate() for name in _CLIENTS}
    roster = folder / "roster.json"
    roster.write_text(Roster({name: one.public for name, one in who.items()}).to_json())
    app = shutil.copytree(APP, folder / "app")
    pinned = tuple(key.public for key in keys)
    (app / "asked" / "pinned.py").write_text(f"AGGREGATORS = {pinned!r}\n")
    for name, identity in who.items():
        file = folder / f"{name}.identity"
        file.touch(0o600)
        file.write_bytes(identity.to_bytes())
        running.add_node(name, f'drift-identity="{file}" drift-roster="{roster}"')
    for i, key in enumerate(keys):
        key.save(file := folder / f"aggregator-{i}.key")
        running.add_node(
            f"aggregator-{i}",
            f'drift-role="aggregator" drift-key="{file}" drift-roster="{roster}" '
            f'drift-memory="{folder / f"memory-{i}"}"',
        )
    config = f'nodes={len(who) + len(keys)} empty={empty} roster="{roster}"'
    return running.run(app, "--run-config", config)
