"""One federation on a real SuperLink, from a first look at its data to the name of what drifted."""

import csv
import json
import subprocess
from pathlib import Path

import numpy as np
import pytest
from flower_deployment import BIN, Deployment, deployed
from patience import HANGS

from flwr_kld.ledger import Budget, Ledger

pytestmark = pytest.mark.slow
APP = Path(__file__).parent / "apps" / "described"
CLINICS, ROWS, NEW = 4, 2_500, "drone pilot"


def rows_of(clinic: int) -> list[list[object]]:
    rng = np.random.default_rng(clinic)
    ages = rng.normal(45, 15, ROWS).clip(0, 99).round(1)
    jobs = rng.choice(["baker", "nurse", "teacher"], ROWS, p=[0.5, 0.3, 0.2])
    return [[i, float(age), str(job)] for i, (age, job) in enumerate(zip(ages, jobs, strict=True))]


def write(file: Path, rows: list[list[object]]) -> None:
    with file.open("w", newline="") as opened:
        csv.writer(opened).writerows([["id", "age", "job"], *rows])


def test_describe_watch_and_name(tmp_path: Path):
    ledger = Ledger(f"sqlite:///{tmp_path}/drift.db")
    ledger.set_budget(Budget(3.0, 3e-6, window_days=60))
    clinics = [rows_of(clinic) for clinic in range(CLINICS)]
    with deployed(tmp_path) as running:
        for clinic, rows in enumerate(clinics):
            file = tmp_path / f"{clinic}.csv"
            write(file, rows)
            memory = tmp_path / f"{clinic}.memory"
            running.add_node(f"c{clinic}", f'drift-records="{file}" drift-memory="{memory}"')

        reference = tmp_path / "reference.json"
        described = told(running, tmp_path, "describe", "--key", "first", "--reference", reference)
        ages = np.array([age for rows in clinics for _, age, _ in rows])
        mean = described["columns"]["age"]["statistics"]["numbers"]["mean"]
        assert mean["low"] <= ages.mean() <= mean["high"]
        assert described["records"] == CLINICS * ROWS

        quiet = told(running, tmp_path, "check", "--key", "night-1")
        assert quiet["cost"]["night"] == 1
        assert quiet["columns"]["job"]["verdict"]["outcome"] in ("no drift", "no alarm")

        for clinic, rows in enumerate(clinics):  # a third of the people leave, others come
            new = [[ROWS + i, age, NEW] for i, age, _ in rows[: ROWS // 3]]
            write(tmp_path / f"{clinic}.csv", [*rows[ROWS // 3 :], *new])
        drifted = told(running, tmp_path, "check", "--key", "night-2", exit_code=1)
        assert drifted["columns"]["job"]["verdict"]["outcome"] == "drift"
        assert drifted["columns"]["age"]["verdict"]["outcome"] != "drift"

        found = told(running, tmp_path, "describe", "--key", "jobs", "--discover", "job")
        assert [one["name"] for one in found["reading"]["labels"]] == [NEW]
    # Three releases of ε = 1, as both nights are one; what they compose to is a little less.
    assert 2.0 < ledger.spent("default").epsilon <= 3.0


def told(
    running: Deployment, folder: Path, command: str, *options: object, exit_code: int = 0
) -> dict:
    """Ask by the command line, and return the report that it prints."""
    done = subprocess.run(
        [
            BIN / "flwr-kld", command, APP, "real", *map(str, options), "--json",
            "--ledger", f"sqlite:///{folder}/drift.db",
            "--run-config", f'folder="{folder}" nodes={CLINICS}',
        ],
        env=running.environment, capture_output=True, text=True, timeout=HANGS,
    )  # fmt: skip
    assert done.returncode == exit_code, done.stdout + done.stderr[-3000:]
    return json.loads(done.stdout)["report"]
