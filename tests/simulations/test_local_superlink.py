"""A family of processes is ended whole, also while it still grows."""

import os
import subprocess
import sys
import time
from contextlib import suppress

import psutil

from flwr_kld.simulations.local_superlink import stop_family

# Some hundred processes a second, each in a session of its own, as Ray starts while it comes up.
_GROWS = "for i in $(seq 2000); do setsid sleep 300 & done; wait"
_PARENT = "import subprocess, sys; subprocess.run(['bash', '-c', sys.argv[1]])"


def _marked(mark: str) -> list[psutil.Process]:
    found = []
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            if process.environ().get("FLWR_KLD_TEST") == mark and process.is_running():
                found.append(process)
    return [one for one in found if one.status() != psutil.STATUS_ZOMBIE]


def test_a_family_that_grows_is_ended_whole(tmp_path):
    mark = str(tmp_path)
    parent = subprocess.Popen(
        [sys.executable, "-c", _PARENT, _GROWS], env={**os.environ, "FLWR_KLD_TEST": mark}
    )
    try:
        while len(_marked(mark)) < 8:
            time.sleep(0.05)
        stop_family(parent)
        assert _marked(mark) == []
    finally:
        for process in _marked(mark):
            process.kill()
