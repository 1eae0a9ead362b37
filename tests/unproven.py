"""Events whose noise keeps no promise: for tests of what is made of released numbers."""

from flwr_kld.kernel import Guarantee
from flwr_kld.kernel.release import Release


def unproven(table, moves=(1, -1), guarantee=None, **others):
    """An event as its constructor makes it, but for the proof."""
    event = object.__new__(Release)
    values = {"mechanism": "none", "delivered": None, "added": None, **others}
    values |= {"table": table, "moves": moves, "guarantee": guarantee or Guarantee(1.0)}
    for name, value in values.items():
        object.__setattr__(event, name, value)
    return event
