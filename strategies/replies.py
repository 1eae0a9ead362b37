"""Replies of nodes, each as soon as it is there.

Flower's own `Grid.send_and_receive` returns once the last node has answered, and looks every three
seconds: the server would hold all replies at once, and each of a secure sum's phases would cost it
a second and a half of looking away.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence

from flwr.app import Message
from flwr.serverapp import Grid

from flwr_kld.check.tracing import ASKING, WAITING, phase

_PAUSE, _LONGEST_PAUSE = 0.1, 3.0
"""Seconds between two looks, at least and at most."""
_SHARE = 0.05
"""Of what was waited so far: what looking away may add to it."""


def replies(grid: Grid, messages: Sequence[Message], timeout: float) -> Iterator[Message]:
    """Send messages, and yield the replies as they come."""
    if not messages:
        return
    with phase(ASKING, messages=len(messages)):
        sent = grid.push_messages(messages)
        waiting = {message for message in sent if message}  # None: the SuperLink did not take it
    del messages
    began = time.monotonic()
    while waiting:
        with phase(WAITING, messages=len(waiting)):
            came, late = _look(grid, waiting, began, timeout)
        waiting.difference_update(reply.metadata.reply_to_message_id for reply in came)
        came.reverse()
        while came:
            yield came.pop()  # and hold it no longer
        if late:
            return


def _look(
    grid: Grid, waiting: set[str], began: float, timeout: float
) -> tuple[list[Message], bool]:
    """Look until there are replies, or the time is over; that it is over is the second value."""
    while True:
        looked = time.monotonic()
        late = looked - began >= timeout
        came = list(grid.pull_messages(waiting))
        if came or late:
            return came, late
        now = time.monotonic()
        pause = max(_PAUSE, now - looked, _SHARE * (now - began))
        time.sleep(min(pause, _LONGEST_PAUSE, max(began + timeout - now, 0.0)))
