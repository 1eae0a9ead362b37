"""``flwr-kld init`` where nothing but a data dictionary is public."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from functools import partial
from pathlib import Path

import pytest
from patience import HANGS

from flwr_kld import Reference
from flwr_kld.cli.sample import read_sample
from flwr_kld.guard.limits import read_limits
from flwr_kld.ledger import Kind, Ledger
from flwr_kld.report import Outcome
from flwr_kld.report.entries import report_of
from flwr_kld.report.stored_reference import stored_reference
from flwr_kld.simulations.local_superlink import local_superlink

COLUMNS = """
[columns.age]
kind = "binned"
edges = [18, 30, 45, 65]

[columns.ward]
kind = "labels"
names = ["surgery", "children"]

[columns."born: weekday"]
kind = "times"
source = "born"
by = "weekday"

[columns."born: month"]
kind = "times"
source = "born"
by = "month"

[columns."admitted: hour"]
kind = "times"
source = "admitted"
by = "hour"

[columns.left]
kind = "times"
by = ["2024-01-01", "2025-01-01"]

[columns.note]
kind = "codes"
names = []
buckets = 16
"""


@pytest.fixture
def dictionary(tmp_path: Path) -> Path:
    file = tmp_path / "visits.toml"
    file.write_text(COLUMNS)
    return file


def test_made_up_rows_are_even_over_what_is_listed(dictionary):
    sample = read_sample(dictionary)
    assert set(sample.rows) == {"age", "ward", "born", "admitted", "left", "note"}
    for name, column in sample.reference.columns.items():
        listed = column.domain.unlisted_index() < 0
        law = column.probabilities[listed]
        if name == "note":
            assert column.unlisted["missing"] == 1
        else:
            assert law.min() > 0.9 / listed.sum(), name
            assert law.max() < 1.1 / listed.sum(), name


def test_an_app_in_which_clients_make_the_reference(cli, dictionary, tmp_path):
    done = cli("init", dictionary, "--out", tmp_path / "app")
    assert done.exit_code == 0, done.output
    assert "made up" in done.stderr
    assert "flwr-kld describe" in done.stdout
    app = tmp_path / "app"
    server = (app / "app" / "server_app.py").read_text()
    assert "Statistics(" in server
    assert server.count("epsilon=0.5") == 1  # a person's window has 1: half for the reference
    assert server.count("epsilon=0.25") == 1  # and the other half for 2 checks
    config = tomllib.loads((app / "pyproject.toml").read_text())["tool"]["flwr"]["app"]["config"]
    assert (config["drift-statistics"], config["drift-check"]) == ("", "")
    assert Path(config["drift-sample"]).is_file()
    limits = read_limits(app / "deploy" / "guard.toml")
    assert limits.allow.plans is None  # the real one is not known yet
    assert limits.allow.domains == {
        Reference.load(app / "app" / "reference.json").domain.fingerprint
    }
    assert Ledger(config["drift-ledger"]).budget().epsilon == 1
    shape = [Path(sys.executable).with_name("ruff"), "format", "--isolated", "--check"]
    formatted = subprocess.run([*shape, "--line-length", "100", app], check=False)
    assert formatted.returncode == 0


def test_what_needs_rows_says_so(cli, dictionary, tmp_path):
    for options in (["--column", "age"], ["--bins", 5], ["--labels", 5], ["--id", "age"]):
        done = cli("init", dictionary, "--out", tmp_path / "app", *options)
        assert done.exit_code == 4
        assert "edit the" in done.stderr


@pytest.mark.slow
def test_clients_make_the_reference_and_are_then_compared_with_it(cli, dictionary, tmp_path):
    cli("init", dictionary, "--out", tmp_path / "app")
    with local_superlink(tmp_path / "superlink.log") as superlink:
        run = partial(
            subprocess.run,
            cwd=tmp_path / "app", env=superlink.environment, capture_output=True, text=True,
            timeout=HANGS, check=True,
        )  # fmt: skip
        flwr = Path(sys.executable).with_name("flwr")
        run([flwr, "run", ".", "--stream", "--run-config", 'drift-statistics="first"'])
        ledger = Ledger(f"sqlite:///{tmp_path / 'app' / 'drift.db'}")
        made = stored_reference(ledger, "first", population="simulated")
        made.save(tmp_path / "app" / "app" / "reference.json")
        run([flwr, "run", ".", "--stream"])
    entries = list(ledger.history("simulated"))
    assert {entry.kind for entry in entries} == {Kind.STATISTICS, Kind.CHECK}
    (report,) = (report_of(entry) for entry in entries if entry.kind is Kind.CHECK)
    assert report.compared.reference == made.fingerprint
    assert report.outcome is not Outcome.DRIFT
