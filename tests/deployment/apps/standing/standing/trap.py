"""kill -9 of this process, in a while."""

import os
import signal
import threading
from pathlib import Path


def die_after(seconds: float, trap: Path) -> None:
    """Remove a trap, and die."""

    def die() -> None:
        trap.rename(trap.with_suffix(".killed"))
        os.kill(os.getpid(), signal.SIGKILL)

    threading.Timer(seconds, die).start()
