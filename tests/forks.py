"""Work in forked children of the test process: they inherit what is imported, open or patched."""

import os
import sys
import traceback
import warnings
from collections.abc import Callable

from flwr_kld.clients import check_memory


def forget_claims() -> None:
    """Be a process that has just begun: it remembers no answer of its clients."""
    check_memory._claimed.clear()


def forked(work: Callable[[], object]) -> int:
    """Run `work` in a process of its own, and return its id."""
    sys.stdout.flush()
    with warnings.catch_warnings():
        # The other thread is xdist's: it waits for messages, and holds no lock that `work` takes.
        warnings.filterwarnings("ignore", "This process .* is multi-threaded", DeprecationWarning)
        pid = os.fork()
    if pid:
        return pid
    code = 1
    try:
        work()
        code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(code)


def joined(*pids: int) -> list[int]:
    """Exit codes; a negative one is a signal."""
    return [os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in pids]


def in_a_fork(work: Callable[[], bytes]) -> bytes:
    """What `work` returns, at most a pipe's 64 kB, in a process of its own."""
    reading, writing = os.pipe()
    child = forked(lambda: os.write(writing, work()))
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        told = pipe.read()
    assert joined(child) == [0]
    return told
