"""Run a command of the operator's with a notice on its standard input."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import PurePath

from flwr_kld.alerts.delivery import Delivery
from flwr_kld.kernel.arguments import keep, real, several


@dataclass(frozen=True)
class Command:
    """A program and its arguments, run without a shell; exit status 0 means delivered.

    Standard output is dropped, so that it cannot mix with a report printed there; standard error is
    left as it is.
    """

    argv: Sequence[str]  # Program and arguments. They may hold secrets: logs name the program only.
    timeout: float = 60.0  # Seconds, > 0, after which the program and what it started are killed

    def __post_init__(self) -> None:
        argv = several("an alert's command", self.argv)
        if not argv or not argv[0] or not all(isinstance(part, str) for part in argv):
            raise ValueError("an alert's command must be a list: the program, then its arguments")
        keep(self, argv=argv, timeout=real("timeout", self.timeout, above=0, unit="seconds"))

    @property
    def name(self) -> str:
        """Name in logs."""
        return f"command {PurePath(self.argv[0]).name}"

    def __repr__(self) -> str:
        return f"Command({PurePath(self.argv[0]).name!r}, timeout={self.timeout:g})"

    def run(self, given: bytes) -> Delivery:
        """Run it once with some bytes on its standard input, and wait for its end."""
        try:
            process = subprocess.Popen(
                list(self.argv),
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                start_new_session=True,
            )
        except OSError as error:
            why = os.strerror(error.errno) if error.errno else type(error).__name__
            return Delivery(self.name, False, f"it cannot be started: {why}")
        try:
            process.communicate(given, timeout=self.timeout)
        except subprocess.TimeoutExpired:
            return Delivery(self.name, False, f"killed after {self.timeout:g} s")
        finally:
            if process.returncode is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
        return Delivery(self.name, process.returncode == 0, f"exit status {process.returncode}")
