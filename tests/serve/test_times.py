"""Next slots: against a scan minute by minute, and where clocks change."""

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flwr_kld.cli.schedule import Cron, Every, most_in_window, parse_schedule

MINUTE = timedelta(minutes=1)
BERLIN = ZoneInfo("Europe/Berlin")
moments = st.datetimes(datetime(2020, 1, 1), datetime(2035, 1, 1)).map(
    lambda naive: naive.replace(tzinfo=UTC)
)
zones = st.sampled_from(["UTC", "Europe/Berlin", "America/St_Johns", "Antarctica/Troll"])


@st.composite
def near_a_clock_change(draw):
    change = draw(
        st.sampled_from(
            [datetime(2026, 3, 29, 1, tzinfo=UTC), datetime(2026, 10, 25, 1, tzinfo=UTC)]
        )
    )
    return change + timedelta(seconds=draw(st.integers(-4 * 3600, 4 * 3600)))


def scan(minutes: set[int], hours: set[int], after: datetime) -> datetime:
    at = after.replace(second=0, microsecond=0) + MINUTE
    while at.minute not in minutes or at.hour not in hours:
        at += MINUTE
    return at


@given(moments, st.sets(st.integers(0, 59), min_size=1), st.sets(st.integers(0, 23), min_size=1))
def test_cron_gives_the_first_minute_that_fits(moment, minutes, hours):
    text = f"{','.join(map(str, minutes))} {','.join(map(str, hours))} * * *"
    assert Cron(text).next_after(moment) == scan(minutes, hours, moment)


@given(
    st.one_of(moments, near_a_clock_change()),
    zones,
    st.sampled_from(
        ["30 2 * * *", "0,30 1,2,3 * * *", "*/7 * * * *", "0 */5 * * *", "15 0 29 2 *"]
    ),
    st.floats(0, 1),
)
def test_a_slot_is_later_and_the_same_from_every_moment_before_it(moment, zone, text, part):
    schedule = parse_schedule(text, zone=zone)
    slot = schedule.next_after(moment)
    assert slot > moment
    assert slot.utcoffset() == timedelta(0)
    assert schedule.next_after(moment + part * (slot - moment) * 0.999999) == slot


@given(moments, st.integers(1, 5000))
def test_intervals_are_aligned_strictly_later_and_at_most_a_period_away(moment, minutes):
    schedule = Every(minutes * MINUTE)
    slot = schedule.next_after(moment)
    assert moment < slot <= moment + minutes * MINUTE
    assert (slot - datetime(1970, 1, 1, tzinfo=UTC)) % (minutes * MINUTE) == timedelta(0)


def local(*parts: int, fold: int = 0) -> datetime:
    return datetime(*parts, fold=fold, tzinfo=BERLIN).astimezone(UTC)


def test_a_night_without_the_hour_runs_after_the_gap_and_once():
    schedule = Cron("30 2 * * *", "Europe/Berlin")
    assert schedule.next_after(local(2026, 3, 29, 1, 0)) == local(2026, 3, 29, 3, 0)
    assert schedule.next_after(local(2026, 3, 29, 3, 0)) == local(2026, 3, 30, 2, 30)


def test_a_night_with_the_hour_twice_runs_the_first_time_only():
    schedule = Cron("30 2 * * *", "Europe/Berlin")
    first = local(2026, 10, 25, 2, 30)
    assert schedule.next_after(local(2026, 10, 25, 1, 0)) == first
    assert schedule.next_after(first) == local(2026, 10, 26, 2, 30)
    again = local(2026, 10, 25, 2, 10, fold=1)  # 02:30 is still to come, for the second time
    assert schedule.next_after(again) == local(2026, 10, 26, 2, 30)


def test_intervals_are_read():
    assert parse_schedule("every 6h") == Every(timedelta(hours=6))
    assert parse_schedule(" Every 15 m") == Every(timedelta(minutes=15))
    assert parse_schedule("every 1d").next_after(datetime(2026, 5, 1, tzinfo=UTC)) == datetime(
        2026, 5, 2, tzinfo=UTC
    )


@pytest.mark.parametrize(
    "text",
    ["", "hello", "* * * *", "0 0 3 * * *", "60 * * * *", "0 0 31 2 *", "0 0 30 2 *",
     "every", "every 0h", "every -1h", "every 1.5h", "every 6x", "every 6h 30m"],
)  # fmt: skip
def test_what_is_no_schedule_is_refused(text):
    with pytest.raises(ValueError, match=r"cron|interval"):
        parse_schedule(text)


def test_seconds_and_unknown_zones_are_refused():
    with pytest.raises(ValueError, match="minute"):
        Every(timedelta(seconds=59))
    for zone in ("Mars/Olympus", "", "../../etc/passwd"):
        for text in ("0 3 * * *", "every 6h"):
            with pytest.raises(ValueError, match="zone"):
                parse_schedule(text, zone=zone)


@pytest.mark.parametrize(
    ("text", "days", "most"),
    [
        ("0 3 * * *", 30, 31), ("every 1d", 30, 31), ("every 6h", 1, 5), ("0 3 * * 1", 30, 5),
        ("0 3 1 * *", 27, 1), ("0 3 1 * *", 30, 2), ("*/5 * * * *", 1, 289),
        ("*/5 * * * *", 30, 8641), ("0 3 29 2 *", 30, 1),
    ],
)  # fmt: skip
def test_the_fullest_window_is_counted(text, days, most):
    assert most_in_window(parse_schedule(text), days) == most
