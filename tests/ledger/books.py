"""Shorthands for charges in tests."""

import os
import sys
import traceback
from collections.abc import Callable

from flwr_kld.ledger import Charge, Clients, Cost, Everyone
from flwr_kld.privacy import Adjacency, Unit

DAY = 86_400
REPORT = {"schema": 1, "estimate": 0.1}


def pure(epsilon: float, adjacency=Adjacency.REPLACE_ONE, unit=Unit.RECORD, delta=0.0) -> Cost:
    return Cost.claimed("discrete-laplace", epsilon, delta, adjacency, unit)


def ask(epsilon: float, *names: str) -> list[Charge]:
    """One release to some clients, or to everyone."""
    return [Charge(pure(epsilon), Clients(names) if names else Everyone())]


def forked(work: Callable[[], None]) -> int:
    """Run `work` in a process of its own; it inherits what is imported."""
    sys.stdout.flush()
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
