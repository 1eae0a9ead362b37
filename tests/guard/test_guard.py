"""The guard's decisions, and what it does when it cannot write."""

import resource
import signal
import subprocess
import sys
from dataclasses import replace

import pytest
from guard.files import guard_file, question
from patience import HANGS

from flwr_kld.common.errors import QueryRefused
from flwr_kld.guard import verify
from flwr_kld.guard.guard import Guard
from flwr_kld.guard.secure_sum_policy import ClientPolicy


@pytest.fixture
def guard(tmp_path):
    return Guard.from_file(guard_file(tmp_path), clock=lambda: 5000.0)


def test_the_key_is_made_once_for_its_owner_only(guard, tmp_path):
    guard.admit(question("a"), "0")
    key = tmp_path / "node.key"
    secret = key.read_bytes()
    assert (len(secret), key.stat().st_mode & 0o777) == (32, 0o600)
    guard.admit(question("b"), "0")
    assert key.read_bytes() == secret
    assert sorted(p.name for p in tmp_path.iterdir() if p.name.startswith(".")) == []


def test_a_key_that_others_read_or_that_is_none_is_refused_and_the_log_says_so(
    guard, tmp_path, caplog
):
    key = tmp_path / "node.key"
    for content, mode, named in ((bytes(32), 0o644, "0600"), (bytes(31), 0o600, "32 bytes")):
        key.write_bytes(content)
        key.chmod(mode)
        with pytest.raises(QueryRefused, match="receipt"):
            guard.admit(question(), "0")
        assert named in caplog.text
    assert not (tmp_path / "receipts.db").exists()


@pytest.mark.parametrize("place", ["/proc/receipts.db", "no-such-folder/receipts.db", "."])
def test_without_a_receipt_nothing_is_answered(guard, tmp_path, place):
    blocked = Guard(replace(guard.limits, receipts=tmp_path / place))
    with pytest.raises(QueryRefused, match="receipt") as refusal:
        blocked.admit(question(), "0")
    assert "receipts.db" not in str(refusal.value)


@pytest.mark.parametrize("clock", [float("inf"), float("nan"), 1e30])
def test_a_clock_that_shows_no_time_refuses_and_the_log_says_so(guard, clock, caplog):
    broken = Guard(guard.limits, clock=lambda: clock)
    with caplog.at_level("ERROR"), pytest.raises(QueryRefused, match="receipt"):
        broken.admit(question(), "0")
    assert "the clock must be" in caplog.text
    guard.admit(question(), "0")


FULL = """
import resource, sys
from flwr_kld.common.errors import QueryRefused
from flwr_kld.guard.guard import Guard
sys.path.insert(0, sys.argv[2])
from guard.files import question
guard = Guard.from_file(sys.argv[1])
guard.admit(question("before", epsilon=0.1), "0")
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[3]), int(sys.argv[3])))
try:
    guard.admit(question("full", epsilon=0.1), "0")
except QueryRefused as error:
    print(error)
"""


def test_a_full_disk_refuses_before_anything_is_counted(tmp_path, request):
    tests = str(request.config.rootpath / "tests")
    path = str(guard_file(tmp_path))
    done = subprocess.run(
        [sys.executable, "-c", FULL, path, tests, "1000"],
        capture_output=True, text=True, check=True, timeout=HANGS,
        preexec_fn=lambda: signal.signal(signal.SIGXFSZ, signal.SIG_IGN),
    )  # fmt: skip
    assert resource.getrlimit(resource.RLIMIT_FSIZE)[0] != 1000
    assert "cannot write a receipt" in done.stdout
    assert [r.check for r in verify(tmp_path / "receipts.db").receipts] == ["before"]
    Guard.from_file(path).admit(question("full", epsilon=0.1), "0")  # it was not spent


def test_secure_sums_take_the_larger_cohort_of_both(tmp_path):
    text = "[secure_sum]\nmin_clients = 4\nmin_threshold = 0.6\n"
    guard = Guard.from_file(guard_file(tmp_path, more=text))
    assert guard.policy == ClientPolicy(min_asked=5, min_clients=4, min_threshold=0.6)
    larger = guard_file(tmp_path, more="[secure_sum]\nmin_asked = 50\n")
    assert Guard.from_file(larger).policy.min_asked == 50
