"""Ending a process and all that it started."""

from __future__ import annotations

import subprocess
from contextlib import suppress

from flwr_kld._extras import require

_TIMEOUT = 15.0


def stop_family(process: subprocess.Popen[bytes]) -> None:
    """End a process and its descendants, Ray's included, whichever session they are in.

    Raises
    ------
    ImportError
        If psutil is not installed; names the extra.
    """
    psutil = require("psutil", extra="simulation")
    try:
        family = psutil.Process(process.pid).children(recursive=True)
    except psutil.NoSuchProcess:
        family = []
    process.terminate()
    for member in family:
        with suppress(psutil.NoSuchProcess):
            member.terminate()
    _, alive = psutil.wait_procs(family, timeout=_TIMEOUT)
    for member in alive:
        with suppress(psutil.NoSuchProcess):
            member.kill()
    psutil.wait_procs(alive, timeout=_TIMEOUT)
    try:
        process.wait(_TIMEOUT)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
