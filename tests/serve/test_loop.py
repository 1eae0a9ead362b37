"""The loop on a clock that tests move: nothing here waits."""

import logging
import os
import signal
from collections import Counter
from datetime import UTC, datetime, timedelta
from functools import partial
from zoneinfo import ZoneInfo

import pytest

from flwr_kld.cli import schedule
from flwr_kld.cli.schedule import (
    Cron,
    Stop,
    parse_schedule,
    run_schedule,
    slot_key,
    stop_on_signals,
)
from flwr_kld.strategies import SinceLastCheck

START = datetime(2026, 11, 20, 22, 0, 30, tzinfo=UTC)


class Time:
    """A clock and a stop in one: waiting moves the clock, and `events` happen on the way.

    Parameters
    ----------
    events : dict[datetime, Callable]
        What happens once the clock shows a moment; may move the clock.
    """

    def __init__(self, until: datetime, events=None, start: datetime = START) -> None:
        self.now, self.until, self.events = start, until, dict(events or {})
        self.longest = 0.0
        self.asked = False

    def __call__(self) -> datetime:
        return self.now

    def wait(self, seconds: float) -> bool:
        assert seconds > 0
        self.longest = max(self.longest, seconds)
        self.now += timedelta(seconds=seconds)
        for moment in [m for m in self.events if m <= self.now]:
            self.events.pop(moment)()
        self.asked = self.asked or self.now >= self.until
        return self.asked


def at(hour: int, minute: int = 0, day: int = 21) -> datetime:
    return datetime(2026, 11, day, hour, minute, tzinfo=UTC)


def keys_of(time: Time, text: str, job=lambda slot: None) -> list[str]:
    keys = []

    def run(slot: datetime) -> None:
        keys.append(slot_key(slot))
        job(slot)

    run_schedule(parse_schedule(text), run, stop=time, clock=time)
    return keys


def test_every_slot_once_and_never_at_the_start():
    time = Time(until=at(15))
    assert keys_of(time, "0 */6 * * *") == [
        "2026-11-21T00:00:00Z", "2026-11-21T06:00:00Z", "2026-11-21T12:00:00Z",
    ]  # fmt: skip
    assert time.longest <= 30  # a timer stands still while the machine sleeps


def test_after_sleep_one_run_for_the_latest_slot(caplog):
    time = Time(until=at(13))
    time.events[at(1, 30)] = lambda: setattr(time, "now", at(9, 17))  # suspended at 01:30
    assert keys_of(time, "0 * * * *") == [
        "2026-11-20T23:00:00Z", "2026-11-21T00:00:00Z", "2026-11-21T01:00:00Z",
        "2026-11-21T09:00:00Z",
        "2026-11-21T10:00:00Z", "2026-11-21T11:00:00Z", "2026-11-21T12:00:00Z",
    ]  # fmt: skip
    assert [r.getMessage() for r in caplog.records] == [
        "no check ran in the last 7 slots before 2026-11-21T09:00:00Z"
    ]


@pytest.mark.parametrize("start", ["2026-03-01", "2026-10-01"], ids=["spring", "autumn"])
@pytest.mark.parametrize(
    ("zone", "rule"),
    [
        *((f"Etc/GMT{-hours:+d}", SinceLastCheck("t")) for hours in (-12, -5, 0, 9, 14)),
        ("America/New_York", SinceLastCheck("t")),
        ("Europe/Berlin", SinceLastCheck("t", lag=0, zone="Europe/Berlin")),
        ("Australia/Lord_Howe", SinceLastCheck("t", lag=0, zone="Australia/Lord_Howe")),
    ],
    ids=str,
)  # fmt: skip
def test_sixty_nights_of_watching_count_each_row_once(monkeypatch, zone, rule, start):
    """Over a change of the clock, three nights of sleep, and a clock that is minutes off."""
    monkeypatch.setattr(schedule, "_LONGEST_WAIT", 3600.0)
    own, first = ZoneInfo(zone), datetime.fromisoformat(start).replace(tzinfo=UTC)
    came = [first + i * timedelta(minutes=20) for i in range(62 * 72)]
    told = [moment.astimezone(own).replace(tzinfo=None) for moment in came]
    time = Time(first + timedelta(days=61), start=first + timedelta(hours=12))

    def jump(by: timedelta) -> None:
        time.now += by

    for days, by in (
        (9, timedelta(days=3)),
        (20, timedelta(minutes=-5)),
        (40, timedelta(minutes=4)),
    ):
        time.events[first + timedelta(days=days)] = partial(jump, by)
    counted, last, nights = Counter(), None, []

    def check(slot: datetime) -> None:
        nonlocal last
        nights.append(slot)
        last = rule.next(last, time.now)
        ends = datetime.fromisoformat(last.start), datetime.fromisoformat(last.end)
        there = zip(came, told, strict=True)
        counted.update(row for at, row in there if at <= time.now and ends[0] <= row < ends[1])

    run_schedule(Cron("0 3 * * *", zone), check, stop=time, clock=time)
    assert len(nights) == len(set(nights))  # of three nights asleep, one check
    assert 57 <= len(nights) <= 59
    inner = [
        row
        for row in told
        if first.date() + timedelta(4) <= row.date() < nights[-1].date() - timedelta(3)
    ]
    assert len(inner) > 50 * 72
    assert Counter(inner) == Counter({row: counted[row] for row in set(inner)})  # one hour twice


def test_slots_that_pass_during_a_run_are_left_out():
    time = Time(until=at(5))

    def slow(slot: datetime) -> None:
        time.now += timedelta(minutes=150)

    assert keys_of(time, "0 * * * *", slow) == [
        "2026-11-20T23:00:00Z", "2026-11-21T02:00:00Z",
    ]  # fmt: skip


def test_a_clock_set_back_during_a_run_does_not_repeat_its_slot():
    time = Time(until=at(2, 30))

    def back(slot: datetime) -> None:
        time.now -= timedelta(seconds=2)

    assert keys_of(time, "0 * * * *", back) == [
        "2026-11-20T23:00:00Z", "2026-11-21T00:00:00Z", "2026-11-21T01:00:00Z",
        "2026-11-21T02:00:00Z",
    ]  # fmt: skip


def test_a_clock_that_was_years_ahead_does_not_stop_the_series():
    time = Time(until=at(1, 30), start=datetime(2031, 1, 1, tzinfo=UTC))
    time.until = datetime(2032, 1, 1, tzinfo=UTC)

    def right() -> None:
        time.now, time.until = START, at(0, 30)

    time.events[datetime(2031, 1, 1, 0, 1, tzinfo=UTC)] = right
    assert keys_of(time, "0 * * * *") == ["2026-11-20T23:00:00Z", "2026-11-21T00:00:00Z"]


def test_a_failed_job_is_logged_and_the_next_one_runs(caplog):
    def fail(slot: datetime) -> None:
        raise RuntimeError("the superlink is down")

    with caplog.at_level(logging.ERROR, logger="flwr_kld"):
        assert len(keys_of(Time(until=at(1, 30)), "0 * * * *", fail)) == 3
    assert "the run of 2026-11-21T00:00:00Z failed" in caplog.text
    assert "the superlink is down" in caplog.text


def test_no_run_after_a_stop_during_a_run():
    time = Time(until=at(23))

    def stop(slot: datetime) -> None:
        time.asked, time.now = True, slot + timedelta(hours=1)

    assert keys_of(time, "every 1h", stop) == ["2026-11-20T23:00:00Z"]


def test_a_stop_wakes_and_stays():
    stop = Stop()
    assert not stop.wait(0.001)
    stop.ask()
    assert stop.wait(3600)
    assert stop.wait(3600)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_asks_and_the_next_one_is_left_to_python(number):
    before = {n: signal.getsignal(n) for n in (signal.SIGTERM, signal.SIGINT)}
    with stop_on_signals() as stop:
        assert not stop.asked
        os.kill(os.getpid(), number)
        assert stop.wait(3600)
        assert {n: signal.getsignal(n) for n in before} == before
    assert {n: signal.getsignal(n) for n in before} == before


def test_the_loop_ends_on_a_signal_while_it_waits():
    runs, looks = [], []

    def clock() -> datetime:
        looks.append(START)
        if len(looks) == 2:
            os.kill(os.getpid(), signal.SIGTERM)
        return START

    with stop_on_signals() as stop:
        run_schedule(parse_schedule("every 1d"), runs.append, stop=stop, clock=clock)
    assert runs == []
    assert len(looks) == 2
