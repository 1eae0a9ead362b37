"""Commands of the operator's: what they are given, and how they end."""

import json
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from flwr_kld.operate.receivers import About, Command, Delivery, Notice

NOTICE = Notice(About.DRIFT, "default", False, "Drift")


def python(code: str, *more: str, **options: float) -> Command:
    return Command([sys.executable, "-c", code, *more], **options)


def test_what_is_given_is_on_standard_input_and_arguments_are_not_read_by_a_shell(tmp_path: Path):
    code = "import sys; open(sys.argv[1], 'w').write(sys.stdin.read()); print(sys.argv[2])"
    out = tmp_path / "got; touch x.json"
    delivery = python(code, str(out), "$(touch y)").take(NOTICE)
    assert delivery.delivered
    told = {**asdict(NOTICE), "lines": [], "key": "flwr-kld/default/drift"}
    assert json.loads(out.read_bytes()) == told
    assert [p.name for p in tmp_path.iterdir()] == [out.name]


def test_nothing_reaches_standard_output(capfd):
    assert python("print('hello')").take(NOTICE).delivered
    assert capfd.readouterr().out == ""


def test_exit_status_says_whether_it_was_delivered():
    delivery = python("raise SystemExit(3)").take(NOTICE)
    assert (delivery.delivered, delivery.detail) == (False, "exit status 3")


def test_a_command_that_does_not_read_much_that_is_given_is_no_failure():
    long = replace(NOTICE, lines=("x" * 2_000_000,))
    assert python("import os; os.close(0)").take(long).delivered


def test_a_command_that_hangs_is_killed():
    delivery = python("import time; time.sleep(1000)", deadline=0.2).take(NOTICE)
    assert (delivery.delivered, delivery.detail) == (False, "killed after 0.2 s")


def test_what_a_killed_command_started_dies_with_it(tmp_path: Path, monkeypatch):
    pid = tmp_path / "pid"
    code = (
        "import os, subprocess, sys; "
        "child = subprocess.Popen(['sleep', '1000']); "
        "open(sys.argv[1] + '.new', 'w').write(str(child.pid)); "
        "os.replace(sys.argv[1] + '.new', sys.argv[1]); "
        "child.wait()"
    )

    def time_is_up_once_the_child_runs(process: subprocess.Popen, data: bytes, timeout: float):
        wait_for(pid.exists)
        raise subprocess.TimeoutExpired(process.args, timeout)

    monkeypatch.setattr(subprocess.Popen, "communicate", time_is_up_once_the_child_runs)
    assert not python(code, str(pid)).take(NOTICE).delivered
    state = Path(f"/proc/{pid.read_text()}/stat")
    # An orphan may stay a zombie until init reaps it.
    wait_for(lambda: not state.exists() or state.read_text().split()[2] == "Z")


def wait_for(happened: Callable[[], bool]) -> None:
    """Give it as long as it takes, within reason."""
    for _ in range(3000):
        if happened():
            return
        time.sleep(0.01)
    pytest.fail("it never happened")


def test_a_command_that_is_not_there():
    delivery = Command(["/no/such/program", "--token=T0K3N"]).take(NOTICE)
    assert delivery == Delivery(
        "command program", False, "it cannot be started: No such file or directory"
    )


@pytest.mark.parametrize("argv", ["echo hello", [], [""], [None]])
def test_a_command_is_a_list(argv):
    with pytest.raises(ValueError, match=r"(is|must be) a list"):
        Command(argv)


def test_a_deadline_is_positive_and_secrets_stay_out_of_repr():
    with pytest.raises(ValueError, match="deadline"):
        Command(["echo"], deadline=0)
    assert "T0K3N" not in repr(Command(["curl", "--token=T0K3N"]))
