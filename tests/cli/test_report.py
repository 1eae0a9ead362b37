"""``report`` and ``budget``: what the ledger knows, for people and for machines."""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import replace

import pytest
from report.samples import decided
from report.tables import NAMES, drifted, table_report

from flwr_kld.kernel import Guarantee
from flwr_kld.ledger import BudgetExhausted, Charge, Cost, Kind, Ledger
from flwr_kld.ledger.read_only import LedgerView
from flwr_kld.report import Outcome
from flwr_kld.views.text import next_step

ONE = Cost.claimed("a release", Guarantee(0.01))
DRIFT = decided(Outcome.DRIFT, 0.2).to_dict()


def table_of_outcome(outcome, lower_bound):
    """A check of several columns, in one of which something drifted, or nothing did."""
    return drifted() if outcome is Outcome.DRIFT else table_report(dict.fromkeys(NAMES, 0.0))


@pytest.fixture
def three_nights(settled):
    settled("2026-11-01", decided(Outcome.NO_DRIFT, 0.0).to_dict())
    settled("2026-11-02", None)
    settled("2026-11-03[b]", DRIFT)


@pytest.mark.usefixtures("three_nights")
def test_a_report_for_people_has_a_line_a_check_and_the_reasons(cli, url):
    text = cli("report", "--ledger", url, COLUMNS="200").stdout
    assert "2026-11-03[b]" in text  # a key is not markup
    assert "check 2: key '2026-11-02': nothing was released: too few answered; next:" in text
    assert text.index("2026-11-01") < text.index("2026-11-03")


def test_a_report_of_a_table_ends_with_the_columns_of_the_last_check(cli, url, settled):
    settled("2026-11-01", drifted(1).to_dict())
    settled("2026-11-02", drifted(2, tenure=0.15).to_dict())
    checks, last = cli("report", "--ledger", url, COLUMNS="120").stdout.split("\nThe last check's")
    assert {"age", "<years>", "tenure"} <= set(checks.split())  # however wide the terminal
    rows = [line for line in last.splitlines() if line.startswith(("age", "tenure", "wage", "job"))]
    assert ["▲ drift" in row for row in rows] == [True, True, False, False]
    assert rows[0].startswith("age <years>")


@pytest.mark.parametrize("make", [decided, table_of_outcome])
def test_a_report_for_people_ends_with_what_to_do(cli, url, settled, make):
    settled("2026-11-01", make(Outcome.DRIFT, 0.2).to_dict())
    last = make(Outcome.NO_DRIFT, 0.0)
    settled("2026-11-02", last.to_dict())
    shown = cli("report", "--ledger", url, COLUMNS="200").stdout
    assert shown.splitlines()[-1] == f"Next: {next_step(last)}"
    settled("2026-11-03", None)
    shown = cli("report", "--ledger", url, COLUMNS="200").stdout
    assert shown.splitlines()[-1] == f"Next after check 2: {next_step(last)}"


@pytest.mark.usefixtures("three_nights", "no_plots")
def test_a_check_that_runs_is_not_called_failed(cli, url, tmp_path):
    Ledger(url).reserve("now", Charge(ONE, ["a"]))
    text = cli("report", "--ledger", url, COLUMNS="200").stdout
    assert "not ended" in text.split("2026-11-03")[1]
    assert "check 4: key 'now': it has not ended: it runs, or was cut off" in text
    for name in ("r.html", "r.json"):
        assert cli("report", tmp_path / name, "--ledger", url).exit_code == 0
    assert "The last check has not ended" in (tmp_path / "r.html").read_text()
    last = json.loads((tmp_path / "r.json").read_text())[-1]
    assert (last["ended"], last["report"]) == (False, None)
    assert last["started"].startswith("20")


def test_a_report_of_nothing(cli, url, tmp_path):
    assert cli("report", "--ledger", url).exit_code == 0
    missing = tmp_path / "typo.db"
    done = cli("report", "--ledger", f"sqlite:///{missing}")
    assert done.exit_code == 4
    assert "there is no ledger" in done.stderr
    assert not missing.exists()


@pytest.mark.usefixtures("three_nights")
@pytest.mark.parametrize("name", ["r.html", "r.png", "r.svg", "r.csv", "r.json"])
def test_report_writes_what_the_ending_says(cli, url, tmp_path, name):
    done = cli("report", tmp_path / name, "--ledger", url)
    assert done.exit_code == 0, done.output
    start = {
        "html": b"<!doctype", "png": b"\x89PNG", "svg": b"<?xml", "csv": b"number", "json": b"[",
    }  # fmt: skip
    assert (tmp_path / name).read_bytes().startswith(start[name.partition(".")[2]])


@pytest.mark.usefixtures("three_nights", "no_plots")
def test_the_page_knows_the_budget_and_the_failures(cli, url, tmp_path):
    page = tmp_path / "r.html"
    assert cli("report", page, "--ledger", url).exit_code == 0
    text = page.read_text()
    assert "too few answered" in text
    assert "The budget of 1 has 0.5 left" in " ".join(text.split())


@pytest.mark.usefixtures("no_plots")
def test_report_refuses_what_it_cannot_write(cli, url, tmp_path, settled):
    assert "no checks" in cli("report", tmp_path / "r.html", "--ledger", url).stderr
    settled("a", DRIFT)
    done = cli("report", tmp_path / "r.pdf", "--ledger", url)
    assert (done.exit_code, "must end in" in done.stderr) == (4, True)
    done = cli("report", tmp_path / "no" / "r.html", "--ledger", url)
    assert (done.exit_code, "Traceback" in done.output) == (4, False)


def test_budget_is_set_and_shown(cli, tmp_path):
    url = f"sqlite:///{tmp_path / 'new.db'}"
    done = cli(
        "budget", "--ledger", url, "--set", 2, "--days", 365, "--protects", "client",
        "--composition", "sum", "--json",
    )  # fmt: skip
    shown = json.loads(done.stdout)
    budget = shown["budget"]
    assert (budget["epsilon"], shown["left"], budget["window_days"]) == (2.0, 2.0, 365.0)
    assert (budget["protects"], shown["frees_at"]) == ("client", None)
    assert Ledger(url).budget().epsilon == 2.0
    assert Ledger(url).budget().composition == "sum"


def test_a_budget_that_is_raised_hides_what_it_hid_before(cli, tmp_path):
    url = f"sqlite:///{tmp_path / 'new.db'}"
    more = ["--protects", "client", "--composition", "sum"]
    cli("budget", "--ledger", url, "--set", 2, "--delta", 1e-7, "--days", 365, *more)
    before = Ledger(url).budget()
    cli("budget", "--ledger", url, "--set", 3)
    assert Ledger(url).budget() == replace(before, epsilon=3.0)
    cli("budget", "--ledger", url, "--set", 3, "--days", 7)
    assert Ledger(url).budget() == replace(before, epsilon=3.0, window_days=7.0)


@pytest.mark.parametrize(
    ("option", "wrong"), [("--set", -1), ("--set", "nan"), ("--delta", 2), ("--days", 0)]
)
def test_a_wrong_term_of_a_budget_is_named_as_it_was_typed(cli, url, option, wrong):
    done = cli("budget", "--ledger", url, "--set", 1, option, wrong)
    assert (done.exit_code, option in done.stderr) == (4, True)


def test_budget_says_what_is_spent_left_and_when_it_frees(cli, url, settled):
    settled("a", DRIFT, epsilon=0.25)
    shown = json.loads(cli("budget", "--ledger", url, "--json").stdout)
    assert shown["epsilon"] == pytest.approx(0.25, abs=1e-4)
    assert shown["left"] == pytest.approx(0.75, abs=1e-4)
    assert shown["frees_at"] is not None
    text = cli("budget", "--ledger", url).stdout
    assert "0.75 nats left" in text
    assert "room for 3 more checks" in text
    assert "leaves the window on" in text


def test_budget_and_reports_know_rounds_of_training(cli, tmp_path):
    url = f"sqlite:///{tmp_path / 'new.db'}"
    done = cli("budget", "--ledger", url, "--set", 9, "--composition", "renyi", "--delta", 0)
    assert (done.exit_code, "--delta" in done.stderr) == (4, True)
    cli("budget", "--ledger", url, "--set", 9, "--composition", "renyi")
    ledger, number, left = Ledger(url), 0, 0
    charge = Charge(Cost.gaussian(3.0, 1e-9, "record"), ["a"])
    with suppress(BudgetExhausted):
        while True:
            ledger.settle(ledger.reserve(str(number), charge, kind=Kind.TRAINING), {"round": 1})
            number += 1
            text = cli("budget", "--ledger", url, COLUMNS="200").stdout
            assert "renyi" in text
            assert "checks: 0 nats" in text
            said = int(text.partition("room for ")[2].split()[0])
            left = said if number == 1 else left - 1
            assert left == said
    assert (left, number > 3) == (0, True)
    shown = cli("report", "--ledger", url)
    assert (shown.exit_code, "no checks" in shown.stderr) == (0, True)
    assert [kind for _, kind, _ in LedgerView(url).keys("default")] == [Kind.TRAINING] * number
