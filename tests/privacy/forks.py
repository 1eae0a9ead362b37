"""Work in a forked child of the test's process."""

import os
from collections.abc import Callable


def in_a_fork(work: Callable[[], bytes]) -> bytes:
    """What `work` returns, at most a pipe's 64 kB, in a forked child of this process."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        status = 1
        try:
            os.write(writing, work())
            status = 0
        finally:
            os._exit(status)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        told = pipe.read()
    assert os.waitpid(child, 0)[1] == 0
    return told
