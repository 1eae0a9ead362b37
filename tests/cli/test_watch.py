"""``flwr-kld watch``, and what follows a check: metrics and notices."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from contextlib import contextmanager, redirect_stdout
from datetime import UTC, datetime, timedelta
from io import BytesIO, TextIOWrapper

import pytest
from patience import HANGS
from report.samples import decided

from flwr_kld.cli import check as watching
from flwr_kld.cli.common import print_json
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


@pytest.mark.usefixtures("nights")
def test_each_failed_check_is_notified(cli, flower_app, receiver, environment):
    environment["FLWR_KLD_NOTIFY"] = receiver.url
    done = cli("watch", flower_app, "--schedule", "0 3 * * *")
    assert done.exit_code == 0, done.output
    drift, refused, failed = receiver.notices
    assert drift.startswith(f"{DRIFT['started'][:10]}: ")
    assert "check 2026-11-22T03:00:00Z was refused" in refused
    assert "check 2026-11-23T03:00:00Z failed" in failed


def test_a_line_of_json_is_there_at_once():
    there = BytesIO()
    with redirect_stdout(TextIOWrapper(there)):
        print_json({"key": "a"}, indent=None)
        assert json.loads(there.getvalue()) == {"key": "a"}
