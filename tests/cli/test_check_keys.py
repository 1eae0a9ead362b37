"""Keys: every start in a slot gives the same one."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flwr_kld.cli.app_runs import require_key
from flwr_kld.cli.check import current_key, latest_slot
from flwr_kld.cli.schedule import parse_schedule

MOMENTS = st.datetimes(
    datetime(2020, 1, 1), datetime(2035, 1, 1), timezones=st.just(UTC), allow_imaginary=False
)


@given(MOMENTS, st.sampled_from(["every 7m", "every 6h", "every 3d", "0 3 * * *", "30 4 1 * *"]))
def test_the_latest_slot_has_begun_and_no_later_one_has(now, text):
    schedule = parse_schedule(text)
    slot = latest_slot(schedule, now)
    later = schedule.next_after(slot)
    assert slot <= now < later
    assert latest_slot(schedule, later) == later


@given(MOMENTS, st.integers(0, 86_399))
def test_all_starts_of_a_day_are_one_check(day, seconds):
    schedule = parse_schedule("0 0 * * *")
    midnight = day.replace(hour=0, minute=0, second=0, microsecond=0)
    key = current_key(midnight + timedelta(seconds=seconds), schedule)
    assert key == f"{midnight:%Y-%m-%dT%H:%M:%SZ}" == require_key(key)


def test_a_slot_is_found_years_back():
    leap = parse_schedule("0 0 29 2 *")
    assert latest_slot(leap, datetime(2027, 6, 1, tzinfo=UTC)) == datetime(2024, 2, 29, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "latest"),
    [
        ("* * * 1 *", datetime(2026, 1, 31, 23, 59, tzinfo=UTC)),
        ("*/5 * * 1-6 *", datetime(2026, 6, 30, 23, 55, tzinfo=UTC)),
        ("30 4 1 1 *", datetime(2026, 1, 1, 4, 30, tzinfo=UTC)),
    ],
)
def test_a_season_without_slots_is_not_walked_through(text, latest):
    asked = []

    class Counted:
        def next_after(self, moment):
            asked.append(moment)
            return parse_schedule(text).next_after(moment)

    assert latest_slot(Counted(), datetime(2026, 12, 30, 23, 17, tzinfo=UTC)) == latest
    assert len(asked) < 30  # bisections of 8 years: there are 44,640 slots


def test_without_a_schedule_it_is_the_minute():
    at = datetime(2026, 11, 21, 3, 4, 59, tzinfo=UTC)
    assert current_key(at) == "2026-11-21T03:04:00Z"
