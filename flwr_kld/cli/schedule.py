"""Schedules of checks: cron expressions and intervals, and the loop that waits for them."""

from __future__ import annotations

import logging
import re
import signal
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo
from queue import Empty, SimpleQueue
from types import FrameType
from typing import Protocol
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from cronsim import CronSim, CronSimError

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_YEAR = timedelta(days=366)
_MOST_SLOTS = 2_000
"""Slots that are looked at to count those of a window, or those that were missed."""
_UNITS = {"m": timedelta(minutes=1), "h": timedelta(hours=1), "d": timedelta(days=1)}


class Schedule(Protocol):
    """A rule that says when the next slot is."""

    def next_after(self, moment: datetime) -> datetime:
        """Return the first slot later than `moment` (aware), in UTC."""
        ...


@dataclass(frozen=True)
class Every:
    """Multiples of a period since 1970-01-01 00:00 UTC: restarts do not move them."""

    period: timedelta  # At least one minute

    def __post_init__(self) -> None:
        if not isinstance(self.period, timedelta) or self.period < _UNITS["m"]:
            raise ValueError(
                f"checks are at least one minute apart, got {self.period!r}: give a timedelta"
            )

    def next_after(self, moment: datetime) -> datetime:
        """Return the first slot later than `moment` (aware), in UTC."""
        return _EPOCH + ((moment - _EPOCH) // self.period + 1) * self.period


@dataclass(frozen=True)
class Cron:
    """A cron expression of five fields: minute, hour, day of month, month, day of week."""

    # As in Debian's cron, a slot at a fixed time of day comes once on every day that has it: when
    # clocks go forward over it, at the first moment after the gap; when they go back, the first
    # time.

    expression: str  # For example ``"0 3 * * *"``, every night at three
    zone: str = "UTC"  # Time zone of the expression, an IANA name. Default UTC.

    def __post_init__(self) -> None:
        try:
            if len(self.expression.split()) != 5:
                raise CronSimError("Wrong number of fields")
            self.next_after(_EPOCH)
        except (CronSimError, StopIteration) as error:
            why = str(error) or "it never comes true"
            raise ValueError(
                f"{self.expression!r} is not a cron expression ({why}): write minute, hour, "
                "day of month, month and day of week, such as '0 3 * * *'"
            ) from None

    def next_after(self, moment: datetime) -> datetime:
        """Return the first slot later than `moment` (aware), in UTC."""
        slots = CronSim(self.expression, moment.astimezone(_zone(self.zone)))
        slot = next(slots).astimezone(UTC)
        while slot <= moment:  # a wall-clock time that comes twice has had its slot
            slot = next(slots).astimezone(UTC)
        return slot


def most_in_window(schedule: Schedule, days: float) -> int:
    """Return the most slots of a schedule in any window of so many days, both ends counted."""
    window = timedelta(days=days)
    if isinstance(schedule, Every):
        return window // schedule.period + 1
    slot = datetime(datetime.now(UTC).year, 1, 1, tzinfo=UTC)
    end, inside, most = slot + _YEAR + window, deque[datetime](), 1
    for _ in range(_MOST_SLOTS):
        slot = schedule.next_after(slot)
        inside.append(slot)
        while inside[0] < slot - window:
            inside.popleft()
        most = max(most, len(inside))
        if slot > end:
            break
    else:  # dense: as many as so far, for as long as the window is
        seen = (inside[-1] - inside[0]) / (len(inside) - 1)
        most = max(most, window // seen + 1)
    return most


SESSION_DAYS = 365
"""From the first check of a standing session to its end."""


def checks_of_a_year(schedule: Schedule) -> int:
    """Return the most checks of a schedule in a year, as a standing session has them."""
    return most_in_window(schedule, SESSION_DAYS - 1)


def _zone(name: str) -> tzinfo:
    try:
        return UTC if name == "UTC" else ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise ValueError(f"there is no time zone {name!r}: give an IANA name") from None


def parse_schedule(text: str, *, zone: str = "UTC") -> Schedule:
    """Read ``"every 6h"`` (m, h or d) or a cron expression."""
    if not text.strip().lower().startswith("every"):
        return Cron(" ".join(text.split()), zone)
    match = re.fullmatch(r"every\s+([1-9]\d{0,5})\s*([mhd])", text.strip().lower())
    if match is None:
        raise ValueError(
            f"{text!r} is not an interval: write 'every 30m', 'every 6h' or 'every 1d'"
        )
    if zone != "UTC":
        raise ValueError(
            "an interval has no time zone, it is counted from 1970 in UTC: leave it out"
        )
    return Every(int(match[1]) * _UNITS[match[2]])


class Stop:
    """A request to stop that wakes whoever waits."""

    # It takes the place of `threading.Event`, whose lock a signal handler could find taken by the
    # very thread that it interrupts; ``SimpleQueue.put`` may be called from a handler.

    def __init__(self) -> None:
        self.asked = False
        """Whether it was asked for."""
        self._wake: SimpleQueue[None] = SimpleQueue()

    def ask(self) -> None:
        """Ask for it."""
        self.asked = True
        self._wake.put(None)

    def wait(self, seconds: float) -> bool:
        """Wait for it, `seconds` at most; say whether it was asked for."""
        if not self.asked:
            with suppress(Empty):
                self._wake.get(timeout=seconds)
        return self.asked


@contextmanager
def stop_on_signals() -> Iterator[Stop]:
    """Turn the first SIGTERM or SIGINT into a `Stop`; a second one ends the process as usual."""
    # Only in the main thread, as Python's signals are.
    stop = Stop()

    def ask(number: int, frame: FrameType | None) -> None:
        restore()
        stop.ask()

    def restore() -> None:
        for number, handler in before.items():
            signal.signal(number, handler)

    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    for number in before:
        signal.signal(number, ask)
    try:
        yield stop
    finally:
        restore()


logger = logging.getLogger("flwr_kld")
_LONGEST_WAIT = 30.0
"""Seconds. Timers stand still while a machine sleeps, so the clock is read this often."""


def slot_key(at: datetime) -> str:
    """Name a slot (UTC), ``2026-11-21T03:00:00Z``: every process on this schedule does alike."""
    return f"{at:%Y-%m-%dT%H:%M:%SZ}"


def _now() -> datetime:
    return datetime.now(UTC)


def run_schedule(
    schedule: Schedule,
    job: Callable[[datetime], None],
    *,
    stop: Stop,
    clock: Callable[[], datetime] = _now,
) -> None:
    """Run `job` at every slot until `stop` is asked for; a running job is never interrupted."""
    # Slots that pass while the job runs are left out: runs do not overlap. Slots that pass while
    # the machine sleeps are made up for by one run, for the latest of them. How many were left out
    # is logged. A job that raises is logged, and the loop goes on. After a clock was set back,
    # slots may come again: jobs must be idempotent by `slot_key`.
    slot: datetime | None = None
    while (due := _due(schedule, slot, stop, clock)) is not None:
        if missed := _between(schedule, slot, due):
            logger.warning("no check ran in the last %s slots before %s", missed, slot_key(due))
        slot = due
        try:
            job(slot)
        except Exception:  # one failed run must not end the series
            logger.exception("the run of %s failed", slot_key(slot))


def _between(schedule: Schedule, ran: datetime | None, due: datetime) -> int:
    """Count the slots between two, up to `_MOST_SLOTS`."""
    missed = 0
    while ran is not None and missed < _MOST_SLOTS and (ran := schedule.next_after(ran)) < due:
        missed += 1
    return missed


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
