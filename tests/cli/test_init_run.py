"""From an empty folder and one CSV file to the first report, without a line of Python."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from pathlib import Path

import pytest
from patience import HANGS

from flwr_kld import Reference, Table
from flwr_kld.ledger import Kind, Ledger
from flwr_kld.report import Outcome
from flwr_kld.report.entries import report_of
from flwr_kld.simulations.local_superlink import local_superlink

BIN = Path(sys.executable).parent
JOBS = ["Krankenpfleger/-schwester", "Bürokraft", "Straßenwärter"]
ROWS = 2000


def write_export(file: Path) -> None:
    """Write what a German spreadsheet exports: nothing in it is as CSV readers expect it."""
    rng = random.Random(5)

    def or_none(text: str) -> str:
        return "NA" if rng.random() < 0.1 else text

    lines = ["id;Gehalt;Tätigkeit;Eintritt"]
    for number in range(ROWS):
        pay = f"{rng.gauss(3000, 500):,.2f}".translate(str.maketrans(",.", ".,"))
        day = f"{rng.randint(1, 28):02}.{rng.randint(1, 12):02}.2023"
        fields = (or_none(pay), or_none(rng.choice(JOBS)), or_none(day))
        lines.append(";".join((str(number), *fields)))
    file.write_bytes("\r\n".join([*lines, ""]).encode("latin-1"))


def test_two_commands_give_a_report(tmp_path: Path):
    write_export(tmp_path / "sample.csv")
    began = sum(os.times()[2:4])
    init = [BIN / "flwr-kld", "init", "sample.csv", "--out", "app", "--id", "id"]
    subprocess.run(init, cwd=tmp_path, check=True, capture_output=True, timeout=HANGS)
    with local_superlink(tmp_path / "superlink.log") as superlink:
        run = subprocess.run(
            [BIN / "flwr", "run", ".", "--stream"],
            cwd=tmp_path / "app", env=superlink.environment, capture_output=True, text=True,
            timeout=HANGS, check=True,
        )  # fmt: skip
    assert "D is the divergence KL(reference ‖ clients)" in run.stdout, run.stdout[-3000:]
    history = Ledger(f"sqlite:///{tmp_path / 'app' / 'drift.db'}").history("simulated")
    (report,) = (report_of(entry) for entry in history if entry.kind is Kind.CHECK)
    assert report is not None
    # Two nodes share out the rows that the reference is made of: nothing has drifted.
    assert report.outcome is not Outcome.DRIFT
    assert (report.cohort.asked, report.cohort.survivors) == (2, 2)
    assert sum(os.times()[2:4]) - began < 120  # seconds of the processor, all processes together
    assert Ledger(f"sqlite:///{tmp_path / 'app' / 'drift.db'}").spent().epsilon == 0
    reference = Reference.load(tmp_path / "app" / "app" / "reference.json")
    table = reference.domain
    assert isinstance(table, Table)
    assert list(table.columns) == ["Gehalt", "Tätigkeit", "Eintritt: date", "Eintritt: weekday"]
    assert set(table.left_out) == {"Eintritt: hour"}
    assert set(table.columns["Tätigkeit"].names) == set(JOBS)
    assert reference.unlisted.keys() == {f"'missing' in {name}" for name in table.columns}
    for share in reference.unlisted.values():  # NA, and nothing else
        assert share == pytest.approx(0.1, abs=0.03)
    # Within ten standard deviations of the noise.
    figures = report.columns["Gehalt"].figures
    assert figures is not None
    assert figures.ordered is not None
    assert figures.ordered.mean.value == pytest.approx(3000, abs=300)
