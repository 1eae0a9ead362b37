"""Standing sessions on a real SuperLink, all through which processes are killed.

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
from collections import Counter
from contextlib import closing
from functools import partial
from pathlib import Path

import pytest
from flower_deployment import Deployment, deployed, wait_for
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
SERVER_KILLS = 30
"""Of the server, at one step of a night after the other."""
APP = Path(__file__).parent / "apps" / "standing"


def told(running: Deployment) -> dict | None:
    """Return what a night's run has printed, if it has."""
    found = re.findall(r"NIGHT (\{.*\})", running.log("run"))
    return json.loads(found[0]) if found else None


def last_night(book: Path) -> int:
    """Of the session in a book; 0 before the first."""
    if not book.exists():
        return 0
    with closing(sqlite3.connect(book)) as db:
        return db.execute("SELECT max(night) FROM sessions").fetchone()[0] or 0


def require_right(published: list[dict], clients: int) -> None:
    """Every client counts once on every night."""
    for report in published:
        (column,) = report["columns"].values()
        counts = column["counts"]["values"]
        truth = [clients * USUAL[name] for name in sorted(USUAL)] + [0, 0]
        off = [one - true for one, true in zip(counts, truth, strict=True)]
        assert max(map(abs, off)) < FAR * report["protection"]["noise"]


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

        def over(run: subprocess.Popen[bytes]) -> bool:
            server = tmp_path / "server.killed"
            return server.exists() or run.poll() is not None or told(running) is not None

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
            if report := told(running):
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
    assert last_night(tmp_path / "aggregator.memory.sessions") == NIGHTS
    receipts = [receipt.night for receipt in verify(tmp_path / "receipts.db").receipts]
    assert receipts == sorted(set(receipts))
    # Its guarded client has lost its memory halfway: it refuses, and counts as it did.
    assert receipts[-1] <= NIGHTS // 2 + 1
    assert "lost its memory" in json.dumps(published[-1]["cohort"])
    require_right(published, len(CLIENTS))


@pytest.mark.parametrize("model", ["trusted", "sealed"])
def test_a_session_survives_a_server_that_dies_at_every_step(model, tmp_path: Path, capsys):
    """Before and after each call to Flower, the ledger and the book."""
    key, ledger = AggregatorKey.generate(), Ledger(f"sqlite:///{tmp_path}/drift.db")
    key.save(tmp_path / "aggregator.key")
    app = shutil.copytree(APP, tmp_path / "app")
    pinned = key.public if model == "sealed" else None
    (app / "standing" / "pinned.py").write_text(f"AGGREGATOR = {pinned!r}\n")
    ledger.set_budget(Budget(EPSILON, 1e-6, window_days=400))
    book = tmp_path / ("standing.db" if pinned is None else f"{AGGREGATOR}.memory.sessions")
    names = CLIENTS[1:] if pinned is None else (*CLIENTS[1:], AGGREGATOR)
    trap, dead = tmp_path / "server.trap", tmp_path / "server.killed"
    killed, published, last, step = Counter[str](), [], 0, 0
    with deployed(tmp_path) as running:
        for name in names:
            files = {"drift-memory": tmp_path / f"{name}.memory", "trap": tmp_path / "none"}
            if name == AGGREGATOR:
                files |= {"drift-role": AGGREGATOR, "drift-key": tmp_path / "aggregator.key"}
            running.add_node(name, " ".join(f'{key}="{value}"' for key, value in files.items()))

        def over(run: subprocess.Popen[bytes]) -> bool:
            return dead.exists() or run.poll() is not None or told(running) is not None

        def started() -> bool:
            return all("Starting Flower SuperExec" in running.log(name) for name in names)

        wait_for(started, HANGS, "the nodes are there")
        while killed.total() < SERVER_KILLS or step:
            step += 1
            trap.write_text(f"step {step}")
            run = running.start_run(
                app, "--run-config",
                f'nodes={len(names)} nights=365 timeout={HANGS} folder="{tmp_path}"',
            )  # fmt: skip
            wait_for(partial(over, run), HANGS, "a night")
            before, last = last, last_night(book)
            if dead.exists():
                killed[dead.read_text()] += 1
                dead.unlink()
                assert last >= before
            else:  # it has no such step, and is a night as any other
                report = told(running)
                assert report is not None, running.log("run")[-3000:]
                assert report["cost"]["night"] == last > before
                published.append(report)
                step = 0
            running.stop_one(run)

    with capsys.disabled():
        print(f"\n{model}: killed {dict(killed)}; {len(published)} nights published")
    assert [entry.kind for entry in ledger.history()].count(Kind.SESSION) == 1
    assert ledger.spent().epsilon == EPSILON
    settled = [entry.report["cost"]["night"] for entry in ledger.history() if entry.report]
    assert len(set(settled)) == len(settled) >= len(published)
    require_right(published, len(CLIENTS) - 1)
