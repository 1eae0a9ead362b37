"""Times: edges, hours, days and months, on each time's own clock."""

import datetime as dt
from zoneinfo import ZoneInfo

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from flwr_kld.common.errors import DomainError
from flwr_kld.table.base import domain_from_spec
from flwr_kld.table.table import Table
from flwr_kld.table.times import Times


@given(st.lists(st.datetimes(), min_size=1, max_size=8))
def test_clock_and_calendar_are_pythons(times):
    for by, of in [
        ("hour", lambda t: t.hour),
        ("weekday", lambda t: t.weekday()),
        ("month", lambda t: t.month - 1),
    ]:
        expected = [of(t) for t in times]
        assert Times(by).encode(times).tolist() == expected
        assert Times(by).encode(np.array(times, dtype="M8[us]")).tolist() == expected
        assert Times(by).encode([t.isoformat() for t in times]).tolist() == expected


def test_edges_cut_as_those_of_numbers_do():
    year = Times([dt.date(2024, 1, 1), "2024-07-01T12:00"])
    assert [year.name_of(s) for s in range(year.size)] == [
        "< 2024-01-01", "[2024-01-01, 2024-07-01T12:00:00)", ">= 2024-07-01T12:00:00", "missing",
    ]  # fmt: skip
    times = ["2023-12-31T23:59:59.999999", "2024-01-01", "2024-07-01T11:59", "2024-07-01T12:00", ""]
    assert year.encode(times).tolist() == [0, 1, 1, 2, 3]
    assert year == Times(["2024-01-01T00:00:00", np.datetime64("2024-07-01T12:00", "s")])
    assert domain_from_spec(year.spec()) == year
    assert domain_from_spec(Times("hour").spec()) == Times("hour")


def test_a_time_is_read_on_its_own_clock():
    late = dt.datetime(2024, 1, 1, 23, 30, tzinfo=ZoneInfo("America/New_York"))
    for time in (late, late.isoformat(), late.replace(tzinfo=None)):
        assert Times("hour").encode([time]).tolist() == [23]
        assert Times("weekday").encode([time]).tolist() == [0]


def test_a_time_of_day_has_an_hour_and_no_date():
    told = ["13:45", "13:45:00", "1:45 pm", "01:45 P.M.", dt.time(13, 45), b"13:45", "13:45:00.5"]
    assert set(Times("hour").encode(told).tolist()) == {13}
    assert Times("hour").encode(["12:00 am", "0:30", "24:00", "13:00 pm", "7"]).tolist() == [
        0, 0, 24, 24, 24,
    ]  # fmt: skip
    assert set(Times("weekday").encode(told).tolist()) == {7}
    table = Table({"at": Times("hour")})
    assert table.encode({"at": pa.chunked_array([told[:3]])}).tolist() == [[13]] * 3


def test_what_is_no_time_is_missing():
    odd = [
        0,
        2024,
        1.5,
        "24:00",
        "x",
        dt.timedelta(1),
        True,
        np.datetime64("NaT", "s"),
        {},
    ]
    assert set(Times("hour").encode(odd).tolist()) == {24}
    assert set(Times(["2024-01-01"]).encode(np.arange(3)).tolist()) == {2}
    assert Times("month").encode(np.array(["NaT", "1969-12-31"], dtype="M8[D]")).tolist() == [
        12,
        11,
    ]


@pytest.mark.parametrize(
    ("by", "message"),
    [
        ("year", "weekday"),
        ([], "one or more"),
        (7, "datetimes"),
        (["2024"], "one or more"),
        ([2024, 2025], "one or more"),
        (["2024-01-01", "2024-01-01T00:00"], "increasing"),
        (["2024-01-01T00:00+01:00"], "without"),
    ],
)
def test_no_times(by, message):
    with pytest.raises(DomainError, match=message):
        Times(by)
