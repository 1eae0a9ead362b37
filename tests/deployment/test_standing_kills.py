"""A standing session on a real SuperLink, all through which processes are killed.

A night is a run. Clients, the aggregator and the server die by kill -9 while they are at work; the
SuperNodes of clients and of the aggregator, between nights. Records stay the same, so that every
night's counts are known.
"""

import json
import os
import random
import re
import shutil
import sqlite3
import subprocess
import time
from contextlib import closing
from functools import partial
from pathlib import Path

import pytest
from flower_deployment import deployed, wait_for
from guard.files import guard_file
from patience import HANGS

from flwr_kld.clients import AggregatorKey
from flwr_kld.guard import verify
from flwr_kld.ledger import Budget, Kind, Ledger

pytestmark = pytest.mark.slow
CLIENTS, GUARDED, AGGREGATOR = ("ayr", "bern", "cork", "dover"), "ayr", "aggregator"
USUAL = {"bus": 310, "car": 250, "train": 120, "walk": 320}
NIGHTS = int(os.environ.get("NIGHTS", "8"))
"""A session of 30 takes half an hour."""
EPSILON, FAR = 8.0, 6
PATIENCE = 20.0
"""Seconds that a night waits for whoever is silent."""
APP = Path(__file__).parent / "apps" / "standing"


def test_a_session_survives_kills(tmp_path: Path, capsys):
    key, fate = AggregatorKey.generate(), random.Random(0)
    key.save(tmp_path / "aggregator.key")
    app = shutil.copytree(APP, tmp_path / "app")
    (app / "standing" / "pinned.py").write_text(f"AGGREGATOR = {key.public!r}\n")
    guard = guard_file(
        tmp_path,
        ('"trusted", "distributed"', '"trusted-aggregator"'),
        ("max_epsilon = 1.0", f"max_epsilon = {EPSILON}"),
        ("max_epsilon = 3.0", f"max_epsilon = {EPSILON}"),
        ("min_asked = 5", "min_asked = 2"),
    )
    ledger = Ledger(f"sqlite:///{tmp_path}/drift.db")
    ledger.set_budget(Budget(EPSILON, 1e-6, window_days=400))

    def config(name: str) -> str:
        files = {"drift-memory": tmp_path / f"{name}.memory", "trap": tmp_path / f"{name}.trap"}
        if name == AGGREGATOR:
            files |= {"drift-role": AGGREGATOR, "drift-key": tmp_path / "aggregator.key"}
        if name == GUARDED:
            files["drift-guard"] = guard
        return " ".join(f'{key}="{value}"' for key, value in files.items())

    def begun() -> int:
        state = ledger.state("default/session/standing")
        return 0 if state is None else state.value["night"]

    killed, published, failed = dict.fromkeys(("client", AGGREGATOR, "server", "node"), 0), [], []
    with deployed(tmp_path) as running:
        nodes = {name: running.add_node(name, config(name)) for name in (*CLIENTS, AGGREGATOR)}

        def told() -> dict | None:
            found = re.findall(r"NIGHT (\{.*\})", running.log("run"))
            return json.loads(found[0]) if found else None

        def over(run: subprocess.Popen[bytes]) -> bool:
            server = tmp_path / "server.killed"
            return server.exists() or run.poll() is not None or told() is not None

        attempts = 0
        while (night := begun()) < NIGHTS:
            attempts += 1
            assert attempts <= 8 * NIGHTS, running.log("run")[-3000:]
            quiet = night in (0, 1, NIGHTS - 1)
            for name in (*CLIENTS, AGGREGATOR, "server"):
                if not quiet and fate.random() < (0.4 if name == "server" else 0.8):
                    (tmp_path / f"{name}.trap").write_text(str(fate.uniform(0, 0.4)))
            if night == NIGHTS // 2:
                (tmp_path / f"{GUARDED}.memory.standing").unlink(missing_ok=True)
            for name in nodes:
                # A node may hang in what it was sending to a server that has died.
                if night == NIGHTS - 1 or (not quiet and fate.random() < 0.9):
                    running.kill_one(nodes[name])
                    killed["node"] += 1
                    nodes[name] = running.add_node(name, config(name))
            run = running.start_run(
                app, "--run-config",
                f'nodes={len(nodes)} nights={NIGHTS} timeout={HANGS if quiet else PATIENCE} '
                f'folder="{tmp_path}"',
            )  # fmt: skip
            wait_for(partial(over, run), HANGS, "a night")
            time.sleep(0.2)
            if report := told():
                (failed if "failed" in report else published).append(report)
            for trap in tmp_path.glob("*.killed"):
                name = trap.stem if trap.stem in killed else "client"
                killed[name] += 1
                trap.unlink()
            for trap in tmp_path.glob("*.trap"):
                trap.unlink()
            running.stop_one(run)
            assert report is not None or not quiet, running.log("run")[-3000:]

    with capsys.disabled():
        print(f"\nkilled {killed}; {len(published)} of {NIGHTS} nights published")
    # Paid for once, and no night twice.
    assert [entry.kind for entry in ledger.history()].count(Kind.SESSION) == 1
    assert ledger.spent().epsilon == EPSILON
    numbers = [report["cost"]["night"] for report in published]
    assert numbers == sorted(set(numbers))
    with closing(sqlite3.connect(tmp_path / "aggregator.memory.sessions")) as book:
        assert book.execute("SELECT night FROM sessions").fetchall() == [(NIGHTS,)]
    receipts = [receipt.night for receipt in verify(tmp_path / "receipts.db").receipts]
    assert receipts == sorted(set(receipts))
    # Its guarded client has lost its memory halfway: it refuses, and counts as it did.
    assert receipts[-1] <= NIGHTS // 2 + 1
    assert "lost its memory" in json.dumps(published[-1]["cohort"])
    off = []
    for report in published:
        (column,) = report["columns"].values()
        counts = column["counts"]["values"]
        truth = [len(CLIENTS) * USUAL[name] for name in sorted(USUAL)] + [0, 0]
        off.append([one - true for one, true in zip(counts, truth, strict=True)])
        assert max(map(abs, off[-1])) < FAR * report["protection"]["noise"]
