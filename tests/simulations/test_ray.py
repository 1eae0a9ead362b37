"""End to end on Ray through ``flwr run``; nothing is left behind, even after an interruption."""

import ctypes
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import psutil
import pytest
from patience import HANGS
from ray_run import run_on_ray

from flwr_kld.simulations import APP
from flwr_kld.simulations.local_superlink import stop_family
from flwr_kld.views import CheckSeries

FLOWER = ("flower-superlink", "flwr-simulation", "flower-superexec", "raylet", "gcs_server")
_PR_SET_CHILD_SUBREAPER = 36


@pytest.fixture
def flower_processes():
    """Flower's and Ray's processes that this test has started, those without a parent too.

    For as long as the test runs, orphans among its descendants become its children, not init's.
    """
    try:
        prctl = ctypes.CDLL(None).prctl
    except AttributeError:
        pytest.skip("orphans can be told apart on Linux only")
    prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    before = set(psutil.Process().children(recursive=True))

    def alive() -> list[str]:
        found = []
        for process in set(psutil.Process().children(recursive=True)) - before:
            with suppress(psutil.NoSuchProcess, psutil.ZombieProcess):
                words = " ".join(process.cmdline())
                if any(name in words for name in FLOWER):
                    found.append(words[:120])
        return found

    yield alive
    prctl(_PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0)


def test_flwr_run_on_ray(tmp_path: Path, flower_processes):
    config = {"writers": 60, "cohort": 60, "nodes": 4, "checks": 2, "drift-from": 2}
    config |= {"reference-writers": 100, "epsilon": 3.0}
    lines = run_on_ray(APP, tmp_path, nodes=4, config=config)
    checks = [CheckSeries.point_from(line) for line in lines]
    for check in checks:
        assert check.report.cohort.survivors == 60
        assert check.report.protection.private
        assert abs(check.report.reading.estimate - check.cohort_truth) < 0.15
    assert checks[1].cohort_truth > checks[0].cohort_truth + 0.1
    assert flower_processes() == []


@pytest.mark.slow
def test_an_interrupted_demo_leaves_nothing_behind(tmp_path: Path, flower_processes):
    demo = subprocess.Popen(
        [Path(sys.executable).with_name("flwr-kld"), "demo", "--out", tmp_path],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )
    try:
        give_up = time.monotonic() + HANGS
        while not any("raylet" in p for p in flower_processes()):
            assert demo.poll() is None, "the demo ended"
            assert time.monotonic() < give_up, "Ray did not start"
            time.sleep(0.2)
        demo.send_signal(signal.SIGINT)
        demo.wait(timeout=HANGS)
    finally:
        stop_family(demo)  # if it hung
    assert demo.returncode != 0
    assert flower_processes() == []
