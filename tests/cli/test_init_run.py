"""From an empty folder and one CSV file to the first report, without a line of Python."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from pathlib import Path

from patience import HANGS

from flwr_kld.accounting import Ledger
from flwr_kld.report import Outcome
from flwr_kld.report.entries import report_of
from flwr_kld.simulations.local_superlink import local_superlink

BIN = Path(sys.executable).parent


def test_two_commands_give_a_report(tmp_path: Path):
    rng = random.Random(5)
    rows = (f"{i},{rng.gauss(50, 12):.1f},{rng.choice(['nurse', 'clerk'])}" for i in range(2000))
    (tmp_path / "sample.csv").write_text("\n".join(["id,age,job", *rows]))
    began = sum(os.times()[2:4])
    init = [BIN / "flwr-kld", "init", "sample.csv", "--out", "app"]
    subprocess.run(init, cwd=tmp_path, check=True, capture_output=True, timeout=HANGS)
    with local_superlink(tmp_path / "superlink.log") as superlink:
        run = subprocess.run(
            [BIN / "flwr", "run", ".", "--stream"],
            cwd=tmp_path / "app", env=superlink.environment, capture_output=True, text=True,
            timeout=HANGS, check=True,
        )  # fmt: skip
    assert "D: KL(reference ‖ clients)" in run.stdout, run.stdout[-3000:]
    (entry,) = Ledger(f"sqlite:///{tmp_path / 'app' / 'drift.db'}").history("simulated")
    report = report_of(entry)
    assert report is not None
    # Two nodes share out the rows that the reference is made of: nothing has drifted.
    assert report.outcome is not Outcome.DRIFT
    assert (report.cohort.asked, report.cohort.survivors) == (2, 2)
    assert sum(os.times()[2:4]) - began < 120  # seconds of the processor, all processes together
    assert Ledger(f"sqlite:///{tmp_path / 'app' / 'drift.db'}").spent().epsilon == 0
