"""What a process has reserved that crashed: failed by whoever looks next, and spent."""

import os
import signal
import subprocess
import sys
from contextlib import suppress

import pytest
from patience import HANGS

from flwr_kld.accounting import Budget, Charge, Clients, Cost, Ledger
from flwr_kld.accounting.entry import AlreadyChecked, CheckUnfinished, FailureKind
from flwr_kld.accounting.life import has_ended, this_process
from flwr_kld.kernel import Guarantee

CHARGES = [Charge(Cost.claimed("x", Guarantee(0.1)), Clients(["a"]))]
RESERVE = """
import sys, time
from flwr_kld.accounting import Charge, Clients, Cost, Ledger
from flwr_kld.kernel import Guarantee
charges = [Charge(Cost.claimed("x", Guarantee(0.1)), Clients(["a"]))]
Ledger(sys.argv[1]).reserve("night", charges)
print("reserved", flush=True)
time.sleep(600)
"""

pytestmark = pytest.mark.skipif(not this_process(), reason="needs Linux's /proc")


@pytest.fixture
def url(tmp_path):
    url = f"sqlite:///{tmp_path}/l.db"
    Ledger(url).set_budget(Budget(1.0, 0.0, 30))
    return url


@pytest.fixture
def running(url):
    process = subprocess.Popen(
        [sys.executable, "-c", RESERVE, url], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout.readline() == "reserved\n"
    yield process
    with suppress(ProcessLookupError):
        process.kill()
    process.wait(HANGS)
    process.stdout.close()


def test_while_its_process_lives_it_is_reserved(url, running):
    entry = Ledger(url).check("night")
    assert (entry.state, entry.failure) == ("reserved", None)
    with pytest.raises(CheckUnfinished):
        Ledger(url).reserve("night", CHARGES)


def test_a_process_that_is_stopped_may_go_on(url, running):
    running.send_signal(signal.SIGSTOP)
    assert Ledger(url).check("night").state == "reserved"


@pytest.mark.parametrize("collected", [True, False])
def test_after_its_process_was_killed_it_has_failed_and_is_spent(url, running, collected):
    running.kill()
    if collected:
        running.wait(HANGS)
    else:  # a zombie: its parent has not looked yet
        os.waitid(os.P_PID, running.pid, os.WEXITED | os.WNOWAIT)
    ledger = Ledger(url)
    entry = ledger.check("night")
    assert (entry.state, entry.failure.kind) == ("failed", FailureKind.ERROR)
    assert "its process ended" in entry.failure.words
    assert ledger.spent().epsilon == pytest.approx(0.1)
    with pytest.raises(AlreadyChecked):
        ledger.reserve("night", CHARGES)


def test_an_own_reservation_is_nobodys_leftover(url):
    ledger = Ledger(url)
    reservation = ledger.reserve("night", CHARGES)
    assert Ledger(url).check("night").state == "reserved"
    ledger.settle(reservation, {"schema": 1})
    assert Ledger(url).check("night").failure is None


def test_of_another_machine_container_or_text_nothing_is_known():
    boot, machine, namespace, number, started = this_process().split(" ")
    ended = " ".join((boot, machine, namespace, "4194305", started))
    assert has_ended(ended)
    assert has_ended(" ".join((boot, machine, namespace, number, "1")))  # a number that was reused
    assert not has_ended(this_process())
    for other in (
        ended.replace(machine, "another"),
        ended.replace(namespace, "pid:[4026599999]"),
        f"{boot} {machine}",
        "",
        "x" * 1000,
        None,
    ):
        assert not has_ended(other)
    rebooted = ended.replace(boot, "another-boot")
    assert has_ended(rebooted) is (namespace == "pid:[4026531836]")
