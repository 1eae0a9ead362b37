"""kill -9 of this process, in a while or at a step of its work."""

import os
import signal
import threading
from pathlib import Path
from typing import Any


def die_after(seconds: float, trap: Path) -> None:
    """Remove a trap, and die."""
    threading.Timer(seconds, _die, (trap, "some time")).start()


def _die(trap: Path, when: str) -> None:
    killed = trap.with_suffix(".killed")
    trap.write_text(when)
    trap.rename(killed)
    os.kill(os.getpid(), signal.SIGKILL)


class Steps:
    """Counts calls of the methods that it watches, before and after each; dies at the n-th."""

    def __init__(self, fatal: int, trap: Path) -> None:
        self.left, self.trap = fatal, trap

    def watch(self, owner: Any, name: str) -> None:
        """Count what a method does: not that it looks, and finds nothing."""
        call = getattr(owner, name)

        def watched(*given: Any, **options: Any) -> Any:
            if name != "pull_messages":
                self._pass(f"before {name}")
            done = call(*given, **options)
            if name == "pull_messages":
                done = list(done)
            if name != "pull_messages" or done:
                self._pass(f"after {name}")
            return done

        setattr(owner, name, watched)

    def _pass(self, when: str) -> None:
        self.left -= 1
        if not self.left:
            _die(self.trap, when)
