"""``flwr-kld watch``, and who is told of a check."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from io import BytesIO, TextIOWrapper

import pytest
from patience import HANGS
from report.samples import decided

from flwr_kld.cli import alerts
from flwr_kld.cli import check as watching
from flwr_kld.cli.common import print_json
from flwr_kld.errors import LedgerUnavailable
from flwr_kld.report import Outcome

FIRST = datetime(2026, 11, 21, 3, tzinfo=UTC)
DRIFT = decided(Outcome.DRIFT, 0.2).to_dict()


@pytest.fixture
def nights(monkeypatch, flwr):
    """Make the schedule three slots long; the ServerApp does something else in each."""

    def run(schedule, job, *, stop):
        assert schedule.next_after(FIRST - timedelta(hours=1)) == FIRST
        for night, does in enumerate(("settle", "refuse", "quit")):
            flwr.will(does, DRIFT)
            job(FIRST + timedelta(days=night))

    monkeypatch.setattr(watching, "run_schedule", run)


@pytest.mark.usefixtures("nights")
def test_each_slot_is_a_check_by_its_key_and_a_line_of_json(cli, flwr, flower_app):
    done = cli("watch", flower_app, "prod", "--schedule", "0 3 * * *", "--json")
    assert done.exit_code == 0, done.output
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert [line["key"] for line in lines] == [f"2026-11-2{n}T03:00:00Z" for n in (1, 2, 3)]
    assert [line["outcome"] for line in lines] == ["drift", "refused", "error"]
    assert all(call[2] == "prod" for call in flwr.calls)


@pytest.mark.usefixtures("nights")
def test_metrics_keep_the_last_number_and_say_how_the_last_check_ended(
    cli, flower_app, tmp_path, monkeypatch
):
    served = []

    @contextmanager
    def serve(states, port, *, address):
        served.append(states)
        yield 9100

    monkeypatch.setattr(watching, "serve_metrics", serve)
    file = tmp_path / "kld.prom"
    done = cli(
        "watch", flower_app, "--schedule", "0 3 * * *", "--metrics-file", file,
        "--metrics-port", 0,
    )  # fmt: skip
    assert done.exit_code == 0, done.output
    assert "http://127.0.0.1:9100/metrics" in done.stderr
    text = file.read_text()
    assert 'kld_lower_bound{monitor="default"} 0.2' in text
    assert 'kld_last_check_outcome{monitor="default",outcome="error"} 1.0' in text
    assert 'kld_last_check_outcome{monitor="default",outcome="drift"} 0.0' in text
    (state,) = served[0]()
    assert (state.outcome, state.report.lower_bound) == ("error", 0.2)


def test_sigterm_ends_it_at_once_and_cleanly(url, flower_app):
    code = "from flwr_kld.cli.app import main; main()"
    process = subprocess.Popen(
        [sys.executable, "-c", code, "watch", str(flower_app), "--schedule", "0 3 1 1 *",
         "--ledger", url],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert process.stderr is not None
    assert "checking '0 3 1 1 *'" in process.stderr.readline()
    process.send_signal(signal.SIGTERM)
    out, err = process.communicate(timeout=HANGS)
    assert (process.returncode, out, err.strip()) == (0, "", "stopped")


def test_people_are_told_of_a_drift_once_and_of_its_end(
    cli, flwr, flower_app, alerts_file, tmp_path
):
    calm, log = decided(Outcome.NO_DRIFT, 0.0).to_dict(), tmp_path / "log"
    codes, heard = [], []
    for key, report in (("a", calm), ("b", DRIFT), ("c", DRIFT), ("b", DRIFT), ("d", calm)):
        flwr.will("settle", report)
        done = cli("check", flower_app, "--key", key, "--alerts", alerts_file())
        codes.append(done.exit_code)
        heard.append(len(log.read_text().splitlines()) if log.exists() else 0)
    assert (codes, heard) == ([0, 1, 1, 1, 0], [0, 1, 1, 1, 2])
    first, second = map(json.loads, log.read_text().splitlines())
    assert (first["about"], first["over"], second["over"]) == ("drift", False, True)


@pytest.mark.parametrize("gone", [SystemExit(1), OSError("no space is left")])
@pytest.mark.parametrize("more", [[], ["--json"]])
def test_people_are_told_whether_or_not_the_check_can_be_printed(
    cli, flwr, flower_app, alerts_file, tmp_path, monkeypatch, more, gone
):
    def unread(*values, **options):
        raise gone

    monkeypatch.setattr(watching, "print_json", unread)
    monkeypatch.setattr(watching.results, "print", unread)
    flwr.will("settle", DRIFT)
    done = cli("check", flower_app, "--key", "a", "--alerts", alerts_file(), *more)
    assert done.exit_code == 4
    assert "Drift in default" in (tmp_path / "log").read_text()


def test_a_line_of_json_is_there_at_once(monkeypatch):
    there = BytesIO()
    monkeypatch.setattr(sys, "stdout", TextIOWrapper(there))
    print_json({"key": "a"}, indent=None)
    assert json.loads(there.getvalue()) == {"key": "a"}


def test_alerts_or_metrics_that_fail_do_not_change_the_exit_code(
    cli, flwr, flower_app, alerts_file, tmp_path
):
    flwr.will("settle", DRIFT)
    done = cli(
        "check", flower_app, "--key", "a", "--alerts", alerts_file(code=1), "--metrics-file",
        tmp_path / "none" / "kld.prom",
    )  # fmt: skip
    assert done.exit_code == 1
    assert "log was not told: exit status 1" in done.stderr
    assert "metrics not written" in done.stderr


def test_metrics_are_there_before_people_are_told(cli, flwr, flower_app, alerts_file, tmp_path):
    file = tmp_path / "kld.prom"
    flwr.will("settle", DRIFT)
    looks = alerts_file(argv=["test", "-s", str(file)])
    done = cli("check", flower_app, "--key", "a", "--alerts", looks, "--metrics-file", file)
    assert done.exit_code == 1
    assert "told log" in done.stderr


def test_a_ledger_that_is_gone_after_the_check_is_a_complaint(
    cli, flwr, flower_app, alerts_file, monkeypatch
):
    def gone(*_: object) -> None:
        raise LedgerUnavailable("the disk is gone")

    monkeypatch.setattr(alerts, "tell_people", gone)
    flwr.will("settle", DRIFT)
    done = cli("check", flower_app, "--key", "a", "--alerts", alerts_file())
    assert done.exit_code == 1
    assert "nobody was told: the disk is gone" in done.stderr
