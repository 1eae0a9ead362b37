"""``flwr-kld check``: one answer a key, and an exit code for each."""

from __future__ import annotations

import json
import subprocess
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from threading import Event

import numpy as np
import pytest
from flwr.clientapp import ClientApp
from guard.files import guard_file
from report.samples import REPORT, decided

from flwr_kld import Labels, Reference
from flwr_kld.cli import app_runs, flower_run
from flwr_kld.cli.app_runs import AppRuns
from flwr_kld.cli.common import ExitCode
from flwr_kld.clients import answer_drift_queries
from flwr_kld.common.errors import CheckFailed
from flwr_kld.kernel import Guarantee
from flwr_kld.ledger import Charge, Cost, Ledger
from flwr_kld.ledger.entry import FailureKind
from flwr_kld.report import Outcome
from flwr_kld.report.report import Report
from flwr_kld.simulations.in_process_grid import InProcessGrid
from flwr_kld.strategies import KLDrift, Trusted

KEY = "2026-11-21T03:00:00Z"
ENDINGS = {
    "no drift": (0, decided(Outcome.NO_DRIFT, 0.0)),
    "drift": (1, decided(Outcome.DRIFT, 0.2)),
    "inconclusive": (2, decided(Outcome.INCONCLUSIVE, 0.05)),
    "no threshold": (2, REPORT),
}


@pytest.mark.parametrize("ending", ENDINGS)
def test_the_report_of_the_key_says_the_exit_code(cli, flwr, flower_app, ending):
    code, report = ENDINGS[ending]
    flwr.will("settle", report.to_dict())
    done = cli("check", flower_app, "prod", "--key", KEY, "--json")
    assert done.exit_code == code
    answer = json.loads(done.stdout)
    assert (answer["exit_code"], answer["key"], answer["ran"]) == (code, KEY, True)
    assert Report.from_dict(answer["report"]).outcome == report.outcome
    assert "a line of the ServerApp's log" in done.stderr
    assert flwr.calls == [
        ["run", str(flower_app), "prod", "--stream", "--run-config", f'drift-check="{KEY}"']
    ]


def test_a_key_that_the_ledger_has_is_printed_and_not_run(cli, flwr, flower_app):
    flwr.will("settle", decided(Outcome.DRIFT, 0.2).to_dict())
    first = cli("check", flower_app, "--key", KEY, "--json")
    again = cli("check", flower_app, "--key", KEY, "--json")
    assert (first.exit_code, again.exit_code, len(flwr.calls)) == (1, 1, 1)
    one, two = json.loads(first.stdout), json.loads(again.stdout)
    assert (one.pop("ran"), two.pop("ran")) == (True, False)
    assert one == two
    assert Ledger(flwr.ledger).spent().epsilon == pytest.approx(0.1, abs=1e-5)


@pytest.mark.parametrize("refusing", [0, 1, 2])
def test_guards_that_refuse_leave_the_verdict_to_the_others(
    cli, flwr, flower_app, tmp_path, refusing
):
    """They count as clients that did not answer: 3 is for fewer answers than `min_clients`."""
    reference = Reference.from_counts(Labels(["bus", "car"]), [3000, 1000])
    trips = np.repeat(["bus", "car"], [3000, 1000])
    of_node = ClientApp()
    answer_drift_queries(of_node, lambda _: trips, reference.domain)
    grid = InProcessGrid(of_node, 3)
    for i, context in enumerate(grid.contexts.values()):
        own = tmp_path / f"node{i}"
        own.mkdir(mode=0o700)
        less = "0.5" if i < refusing else "1.0"
        asked = ("min_asked = 5", "min_asked = 3"), ("max_epsilon = 1.0", f"max_epsilon = {less}")
        context.node_config["drift-guard"] = str(guard_file(own, *asked))
    monitor = KLDrift(reference, Trusted(1.0), threshold=0.1, ledger=flwr.ledger)
    with suppress(CheckFailed):
        monitor.check(grid, KEY)
    done = cli("check", flower_app, "--key", KEY, "--json")
    assert (done.exit_code == 3) == (refusing == 2), done.stdout
    answer = json.loads(done.stdout)
    refused = answer["message"]
    if refusing < 2:
        cohort = answer["report"]["cohort"]
        assert cohort["survivors"] == 3 - refusing
        refused = str(cohort["dropouts"])
    assert ("0.5" in refused) == (refusing > 0)  # the limit of those that refused


@pytest.mark.parametrize(("does", "shown"), [("fail aloud", False), ("crash aloud", True)])
@pytest.mark.usefixtures("waiting")
def test_a_refusal_is_shown_without_its_traceback(cli, flwr, flower_app, does, shown):
    flwr.will(does)
    done = cli("check", flower_app, "--key", KEY)
    for words in ("File x", "Traceback", "raised an exception", "unhandled", "201"):
        assert (words in done.stderr) == shown, words
    assert "the end" in done.stderr
    assert ("RuntimeError" if shown else "LedgerUnavailable") in done.stderr


def test_refusals_are_3_and_say_why(cli, flwr, flower_app):
    flwr.will("fail")
    done = cli("check", flower_app, "--key", KEY, "--json")
    assert done.exit_code == ExitCode.REFUSED == 3
    answer = json.loads(done.stdout)
    assert answer["outcome"] == "refused"
    assert "nothing was released: 3 clients answered" in answer["message"]


@pytest.mark.parametrize("refusal", [FailureKind.COHORT, FailureKind.BUDGET])
def test_a_refusal_before_anybody_was_asked_is_in_the_ledger(cli, flwr, flower_app, refusal):
    flwr.will("refuse", refusal=refusal)
    done = cli("check", flower_app, "--key", KEY, "--json")
    assert done.exit_code == 3
    why = "refused before anybody was asked: no room until [Sunday]"
    assert json.loads(done.stdout)["message"].startswith(f"{why}; next: ")
    people = cli("check", flower_app, "--key", KEY)
    assert people.stdout.startswith(f"REFUSED  check {KEY}\n{why}; next: ")
    assert Ledger(flwr.ledger).spent().epsilon == 0


def test_an_unexpected_end_is_an_error_then_and_later(cli, flwr, flower_app):
    flwr.will("fail oddly")
    for ran in (True, False):
        done = cli("check", flower_app, "--key", KEY, "--json")
        answer = json.loads(done.stdout)
        assert (done.exit_code, answer["ran"]) == (4, ran)
        assert answer["message"].startswith("the ServerApp broke: ZeroDivisionError; next: ")


def test_what_was_refused_before_anybody_was_asked_may_run_again(cli, flwr, flower_app):
    flwr.will("refuse")
    assert cli("check", flower_app, "--key", KEY).exit_code == 3
    flwr.will("quit")  # what was refused then is not the answer now
    assert cli("check", flower_app, "--key", KEY).exit_code == 4
    flwr.will("settle", decided(Outcome.NO_DRIFT, 0.0).to_dict())
    assert cli("check", flower_app, "--key", KEY).exit_code == 0
    assert len(flwr.calls) == 3


@pytest.mark.parametrize(
    ("does", "why"),
    [
        ("quit", "exit code 1: Connection to the SuperLink is unavailable"),
        ("misconfigured", "Invalid run configuration; next: flwr-kld doctor"),
        ("misconnect", "flwr run failed with exit code 1: There is no connection 'prod'"),
        ("no budget", "population 'us' has no budget: set one with flwr-kld budget --set EPSILON"),
        ("break", "the ServerApp failed: RuntimeError: it broke"),
        ("nothing", "the ledger knows nothing of this key"),
    ],
)
def test_errors_are_4_and_say_why(cli, flwr, flower_app, does, why):
    flwr.will(does)
    done = cli("check", flower_app, "--key", KEY, "--json")
    assert done.exit_code == ExitCode.ERROR == 4
    assert why in json.loads(done.stdout)["message"]


def test_a_run_that_hangs_is_stopped(cli, flwr, flower_app, monkeypatch):
    flwr.will("hang")
    heard = Event()
    wait = subprocess.Popen.wait

    def give_up_when_it_has_started(process, timeout=None):
        if timeout != 3:
            return wait(process, timeout)
        assert heard.wait(60)
        raise subprocess.TimeoutExpired("flwr", timeout)

    monkeypatch.setattr(flower_run, "print_note", lambda line: "ServerApp" in line and heard.set())
    monkeypatch.setattr(subprocess.Popen, "wait", give_up_when_it_has_started)
    done = cli("check", flower_app, "prod", "--key", KEY, "--timeout", 3, "--json")
    assert done.exit_code == 4
    assert "stopped after 3 s" in json.loads(done.stdout)["message"]
    assert flwr.calls[-1] == ["stop", "4711", "prod"]


class Clock:
    """Time that passes only in sleep, and fast."""

    now = 0.0

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += 500 * seconds
        self.meanwhile()

    def meanwhile(self) -> None:
        pass


@pytest.fixture
def waiting(monkeypatch) -> Clock:
    """The time that a command waits for checks that run elsewhere."""
    passing = Clock()
    monkeypatch.setattr(app_runs, "time", passing)
    return passing


@pytest.mark.usefixtures("waiting")
def test_a_check_that_was_cut_off_is_4_and_never_runs_again(cli, flwr, flower_app):
    flwr.will("crash")
    done = cli("check", flower_app, "--key", KEY, "--json")
    assert done.exit_code == 4
    assert "what it reserved is spent" in json.loads(done.stdout)["message"]
    again = cli("check", flower_app, "--key", KEY, "--json")
    assert (again.exit_code, len(flwr.calls)) == (4, 1)
    assert json.loads(again.stdout)["ran"] is False


def test_a_check_that_broke_here_is_not_waited_for(cli, flwr, flower_app, waiting):
    flwr.will("crash aloud")
    done = cli("check", flower_app, "--key", KEY, "--json")
    assert done.exit_code == 4
    said = json.loads(done.stdout)["message"]
    assert "RuntimeError: it broke" in said
    assert waiting.now == 0
    assert "what it reserved is spent" in said


def test_a_check_that_runs_elsewhere_is_waited_for(url, flower_app, waiting):
    ledger = Ledger(url)
    cost = Cost.claimed("discrete-laplace", Guarantee(0.1))
    reservation = ledger.reserve(KEY, Charge(cost, ["a"]))

    drift = decided(Outcome.DRIFT, 0.2).to_dict()
    waiting.meanwhile = lambda: ledger.settle(reservation, drift)
    answer = AppRuns(url, "default", flower_app).once(KEY)
    assert (answer.code, answer.ran) == (ExitCode.DRIFT, False)


def test_without_a_key_the_minute_or_the_slot_is_one(cli, flwr, flower_app):
    flwr.will("nothing")
    before = datetime.now(UTC).replace(second=0, microsecond=0)
    key = json.loads(cli("check", flower_app, "--json").stdout)["key"]
    after = datetime.now(UTC)
    assert before <= datetime.fromisoformat(key) <= after
    slot = json.loads(cli("check", flower_app, "--schedule", "0 3 1 1 *", "--json").stdout)["key"]
    assert datetime.fromisoformat(slot).strftime("%m-%d %H:%M") == "01-01 03:00"


def test_further_overrides_come_before_the_key(cli, flwr, flower_app):
    flwr.will("nothing")
    cli("check", flower_app, "--key", "a", "--run-config", "cells=64", "--run-config", 'x="y"')
    assert flwr.calls[0][3:] == [
        "--run-config", "cells=64", "--run-config", 'x="y"', "--run-config", 'drift-check="a"',
    ]  # fmt: skip


@pytest.mark.parametrize("key", ["", 'x"; y="1', "a b", "ä", "a" * 101, "-x", "a\n"])
def test_a_key_that_could_break_a_run_config_is_refused(cli, flwr, flower_app, key):
    flwr.will("nothing")
    done = cli("check", flower_app, "--key", key)
    assert done.exit_code == 4
    assert "is not a valid key: use at most 100 letters" in done.stderr
    assert flwr.calls == []


def test_a_machine_without_flwr(cli, flwr, flower_app, tmp_path, monkeypatch):
    flwr.will("nothing")
    monkeypatch.setattr(flower_run.sys, "executable", str(tmp_path / "python"))
    (flwr.folder / "flwr").unlink()
    done = cli("check", flower_app, "--key", "a", PATH=str(flwr.folder))
    assert done.exit_code == 4
    assert "there is no flwr command" in done.output


def test_people_read_the_decision_first(cli, url, flower_app, settled):
    settled(KEY, decided(Outcome.INCONCLUSIVE, 0.05).to_dict())
    lines = cli("check", flower_app, "--key", KEY, "--ledger", url).stdout.splitlines()
    assert lines[0].startswith("Inconclusive: ")
    text = " ".join(" ".join(lines).split())
    assert KEY in text
    assert "ask twice as many clients" in text
    assert "0.5 left" in text


def test_a_driver_that_is_missing_is_said_once(cli, flower_app, without):
    without("psycopg")
    result = cli("check", flower_app, "--ledger", "postgresql://localhost/drift")
    assert result.exit_code == 4
    assert result.output.count("flwr-kld[postgres]") == 1


@pytest.mark.parametrize(
    ("command", "name"),
    [
        (["check"], "drift-check"),
        (["describe"], "drift-statistics"),
        (["describe", "--discover", "job"], "drift-discovery"),
    ],
)
def test_an_app_that_does_not_ask_for_this_is_not_run(cli, flwr, flower_app, command, name):
    project = flower_app / "pyproject.toml"
    project.write_text(project.read_text().replace(f"{name} = ''\n", ""))
    done = cli(command[0], flower_app, "--key", KEY, *command[1:], "--json")
    assert (done.exit_code, flwr.calls) == (4, [])
    said = json.loads(done.stdout)["message"]
    assert name in said
    pages = (Path(__file__).parents[2] / "docs").rglob("*.md")
    titles = {page.read_text().splitlines()[0].removeprefix("# ") for page in pages}
    assert any(repr(title) in said for title in titles)
