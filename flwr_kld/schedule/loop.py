"""The loop that runs a job once a slot."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime

from flwr_kld.schedule.stop import Stop
from flwr_kld.schedule.times import Schedule

logger = logging.getLogger("flwr_kld")

_LONGEST_WAIT = 30.0
"""Seconds. Timers stand still while a machine sleeps, so the clock is read this often."""


@dataclass(frozen=True, order=True)
class Slot:
    """A scheduled moment."""

    at: datetime  # In UTC

    @property
    def key(self) -> str:
        """Stable name, ``2026-11-21T03:00:00Z``: every process on this schedule gives the same."""
        return f"{self.at:%Y-%m-%dT%H:%M:%SZ}"


def _now() -> datetime:
    return datetime.now(UTC)


def run_schedule(
    schedule: Schedule,
    job: Callable[[Slot], None],
    *,
    stop: Stop,
    clock: Callable[[], datetime] = _now,
) -> None:
    """Run `job` at every slot until `stop` is asked for; a running job is never interrupted.

    Slots that pass while the job runs are left out: runs do not overlap. Slots that pass while the
    machine sleeps are made up for by one run, for the latest of them. A job that raises is logged,
    and the loop goes on. After a clock was set back, slots may come again: jobs must be idempotent
    by ``slot.key``.
    """
    ran: datetime | None = None
    while (ran := _due(schedule, ran, stop, clock)) is not None:
        slot = Slot(ran)
        try:
            job(slot)
        except Exception:  # one failed run must not end the series
            logger.exception("the run of %s failed", slot.key)


def _due(
    schedule: Schedule, ran: datetime | None, stop: Stop, clock: Callable[[], datetime]
) -> datetime | None:
    """Wait for the next slot and return the latest that has come; None after a stop."""

    def upcoming() -> datetime:
        at = schedule.next_after(clock())
        # A clock that was set back a little shows the slot that has just been run.
        return schedule.next_after(at) if at == ran else at

    at = upcoming()
    while (left := (at - clock()).total_seconds()) > 0:
        if stop.wait(min(left, _LONGEST_WAIT)):
            return None
        at = min(at, upcoming())  # a clock that was far ahead may have been put right
    now = clock()
    while (later := schedule.next_after(at)) <= now:
        at = later
    return at
