"""A ledger that holds checks and predictors' rounds: each is shown as what it is."""

from __future__ import annotations

import csv
import json
from dataclasses import replace

import pytest
from report.samples import decided, learnt

from flwr_kld.kernel import Guarantee
from flwr_kld.ledger import Charge, Cost, Kind, Ledger
from flwr_kld.ledger.entry import Failure, FailureKind
from flwr_kld.report import Outcome
from flwr_kld.report.entries import predictor_of, predictors_of
from flwr_kld.report.predictor_report import LOCAL, round_key
from flwr_kld.views import CheckSeries

CALM, DRIFT = (decided(o, b).to_dict() for o, b in ((Outcome.NO_DRIFT, 0.0), (Outcome.DRIFT, 0.2)))


@pytest.fixture
def asked(url):
    """Let a predictor ask, as `PrivatePredictor` does; its round is settled, failed or cut off."""

    def ask(name, number, ends="settled", report=None):
        ledger = Ledger(url)
        cost = Cost.claimed(LOCAL, Guarantee(0.05))
        reservation = ledger.reserve(
            round_key(name, number), Charge(cost, ["1", "2"]), kind=Kind.ROUND
        )
        if ends == "settled":
            report = report or replace(learnt(number), name=name).to_dict()
            ledger.settle(reservation, report)
        elif ends == "failed":
            ledger.fail(reservation, Failure(FailureKind.UNANSWERED, "0 clients [red]reported"))

    return ask


@pytest.fixture
def mixed(settled, asked):
    """Two checks among the rounds of two predictors; the last round of each is not settled."""
    asked("traffic", 1)
    settled("2026-11-01", CALM)
    asked("traffic", 2, "failed")
    asked("traffic", 3)
    asked("a/b", 1)
    settled("2026-11-02", DRIFT)
    asked("traffic", 4)
    asked("a/b", 2, "cut off")


@pytest.mark.usefixtures("mixed")
def test_checks_are_shown_without_rounds_and_numbered_without_gaps(cli, url):
    done = cli("report", "--ledger", url, COLUMNS="200")
    assert done.exit_code == 0, done.output
    assert "another version" not in done.stdout
    assert "traffic" not in done.stdout
    rows = [line.split() for line in done.stdout.splitlines() if "2026-11-0" in line]
    assert [row[:2] for row in rows] == [["1", "2026-11-01"], ["2", "2026-11-02"]]
    assert done.stderr.count("--predictor") == 2  # says that there is more


@pytest.mark.usefixtures("mixed")
def test_rounds_are_shown_by_name(cli, url):
    text = cli("report", "--ledger", url, "--predictor", "traffic", COLUMNS="200").stdout
    assert "Predictor traffic of default" in text
    rows = [line.split() for line in text.splitlines() if line.strip()[:1].isdigit()]
    assert [row[:2] for row in rows] == [
        ["1", "usual"], ["2", "none"], ["3", "usual"], ["4", "usual"]
    ]  # fmt: skip
    assert rows[0] == ["1", "usual", "90.0%", "2.50", "2", "0.5", "3.5", "of", "4", "57/60"]
    assert "nothing was released: 0 clients [red]reported; next:" in text
    other = cli("report", "--ledger", url, "--predictor", "a/b", COLUMNS="200").stdout
    assert "round 2: key" in other


@pytest.mark.usefixtures("mixed")
def test_a_check_that_the_ledger_knows_is_told_among_rounds(cli, flwr, flower_app):
    done = cli("check", flower_app, "--key", "2026-11-02", "--json")
    assert (done.exit_code, json.loads(done.stdout)["ran"]) == (1, False)
    assert not flwr.calls
    flwr.will("settle", CALM)
    done = cli("check", flower_app, "--key", "2026-11-03", "--json")
    assert (done.exit_code, json.loads(done.stdout)["outcome"]) == (0, "no drift")


def test_no_key_of_a_check_is_that_of_a_round(cli, flower_app):
    done = cli("check", flower_app, "--key", round_key("traffic", 1))
    assert (done.exit_code, "is not a valid key" in done.stderr) == (4, True)


@pytest.mark.usefixtures("mixed")
@pytest.mark.parametrize("ending", ["html", "png", "svg", "csv", "json"])
def test_report_writes_rounds_as_the_ending_says(cli, url, tmp_path, ending):
    file = tmp_path / f"r.{ending}"
    done = cli("report", file, "--ledger", url, "--predictor", "traffic", "--last", 3)
    assert done.exit_code == 0, done.output
    assert "3 rounds" in done.stderr
    if ending == "html":
        text = " ".join(file.read_text().split())
        assert "<h1>Predictor traffic of default</h1>" in text
        assert "most has 2 of 4 left" in text  # of the budget that was in force then
    elif ending == "csv":
        with file.open(newline="") as lines:
            assert [row["number"] for row in csv.DictReader(lines)] == ["2", "3", "4"]
    elif ending == "json":
        assert [line["round"] for line in json.loads(file.read_text())] == [2, 3, 4]
    else:
        assert file.read_bytes()[:4] in (b"\x89PNG", b"<?xm")


@pytest.mark.usefixtures("mixed")
@pytest.mark.parametrize("command", [["report"], ["report", "r.html"]])
def test_a_predictor_that_is_not_there_is_an_error_that_names_those_that_are(cli, url, command):
    done = cli(*command, "--ledger", url, "--predictor", "trafic")
    assert done.exit_code == 4
    assert "no rounds of a predictor 'trafic'; it has: traffic, a/b" in " ".join(
        done.stderr.split()
    )


def test_rounds_alone_are_no_checks(cli, url, tmp_path, asked):
    asked("traffic", 1)
    done = cli("report", "--ledger", url)
    assert "no checks" in done.stderr
    assert "--predictor traffic" in done.stderr
    assert "no checks" in cli("report", tmp_path / "r.html", "--ledger", url).stderr


def test_a_check_with_a_key_like_a_rounds_is_a_check(url, settled):
    settled("night/1", CALM)
    (entry,) = Ledger(url).history()
    assert predictor_of(entry) is None
    assert [check.report.key for check in CheckSeries.from_entries([entry])] == ["night/1"]
    assert predictors_of([entry]) == []
