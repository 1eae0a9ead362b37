"""Idempotency keys: by what name two starts of the same check know each other."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

from flwr_kld.operate.schedule import Schedule, Slot

_SAFE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:@+-]{0,99}")
_MINUTE = timedelta(minutes=1)
"""Slots are at least this far apart."""
_LONGEST_GAP = timedelta(days=366 * 8)
"""Slots further back are not looked for: 29 February comes every 8 years at least."""


def check_key(key: str) -> str:
    """Return the key if it can stand in a run config, a log and a table."""
    if not _SAFE.fullmatch(key):
        raise ValueError(
            f"{key!r} is not a valid key: use at most 100 letters, digits and . _ : @ + -, "
            "starting with a letter or a digit"
        )
    return key


def current_key(now: datetime, schedule: Schedule | None = None) -> str:
    """Return the key of a schedule's latest slot, or of the current UTC minute."""
    if schedule is None:
        return Slot(now.astimezone(UTC).replace(second=0, microsecond=0)).key
    return Slot(latest_slot(schedule, now)).key


def latest_slot(schedule: Schedule, now: datetime) -> datetime:
    """Return a schedule's last slot that is not later than `now`, by bisection."""
    back = _MINUTE
    while (slot := schedule.next_after(now - back)) > now:
        if back > _LONGEST_GAP:
            raise ValueError("the schedule had no slot in the last 8 years")
        back *= 2
    no_slot_until_now = now  # after this moment
    while no_slot_until_now - slot >= _MINUTE:
        middle = slot + (no_slot_until_now - slot) / 2
        later = schedule.next_after(middle)
        if later <= now:
            slot = later
        else:
            no_slot_until_now = middle
    return slot
