"""Every kind of frame is read as the mapping of lists that it stands for."""

import datetime as dt
import warnings
from collections.abc import Mapping
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from flwr_kld.common.errors import DomainError
from flwr_kld.table.binned import Binned
from flwr_kld.table.labels import Labels
from flwr_kld.table.table import Table
from flwr_kld.table.times import Times

LARGE = 2**53 + 1
"""No float64: where integers become floats it is another one."""
TABLE = Table(
    {
        "age": Binned([18, 65]),
        "code": Labels([7, LARGE]),
        "share": Binned([0.25, 0.5]),
        "member": Labels(["False", "True"]),
        "job": Labels(["nurse", "clerk"]),
        "at": Times("hour"),
        "day": Times(["2024-03-01"]),
    },
    interactions=[("job", "age")],
)
ROWS: dict[str, list[Any]] = {
    "age": [3, 20, None, 70],
    "code": [7, LARGE, LARGE - 1, None],
    "share": [0.2, None, 0.25, 0.7],
    "member": [True, None, False, True],
    "job": ["nurse", "pilot", None, "clerk"],
    "at": [dt.datetime(2024, 1, 1, 5, 59), dt.datetime(1960, 1, 1, 23), None, dt.datetime.max],
    "day": [dt.date(2024, 2, 29), dt.date(2024, 3, 1), dt.date(1, 1, 1), None],
    "note": ["SECRET", None, "x", "y"],
}
SYMBOLS = TABLE.encode(ROWS).tolist()


def by_row(rows: dict[str, list[Any]]) -> list[dict[str, Any]]:
    each = [dict(zip(rows, row, strict=True)) for row in zip(*rows.values(), strict=True)]
    return [{name: value for name, value in row.items() if value is not None} for row in each]


def zoned(rows: dict[str, list[Any]]) -> pl.DataFrame:
    return pl.DataFrame(rows).with_columns(
        pl.col("at").dt.replace_time_zone("America/New_York", non_existent="null")
    )


NULLABLE = {
    "age": "Int8", "code": "Int64", "share": "Float32", "member": "boolean", "job": "string",
}  # fmt: skip
FRAMES = {
    "pandas": lambda rows: pd.DataFrame(rows).assign(code=pd.array(rows["code"], dtype="Int64")),
    "pandas nullable": lambda rows: pd.DataFrame(
        {n: pd.array(c, dtype=NULLABLE.get(n)) for n, c in rows.items()}
    ),
    "pandas category": lambda rows: pd.DataFrame({n: pd.Categorical(c) for n, c in rows.items()}),
    "pandas objects": lambda rows: pd.DataFrame(rows, dtype=object),
    "pandas of pyarrow": lambda rows: pa.table(rows).to_pandas(types_mapper=pd.ArrowDtype),
    "polars": pl.DataFrame,
    "polars zoned": zoned,
    "polars categorical": lambda rows: pl.DataFrame(rows).with_columns(
        pl.col("job").cast(pl.Categorical)
    ),
    "polars enum": lambda rows: pl.DataFrame(rows).with_columns(
        pl.col("job").cast(pl.Enum(["7", "clerk", "", "pilot", "nurse", "nurse "]))
    ),
    "pyarrow": pa.table,
    "pyarrow dictionary": lambda rows: pa.table(
        {n: pa.array(c).dictionary_encode() for n, c in rows.items()}
    ),
    "arrays of pyarrow": lambda rows: {n: pa.array(c) for n, c in rows.items()},
    "series": lambda rows: dict(pl.DataFrame(rows).to_dict()),
    "arrays of objects": lambda rows: {n: np.array(c, dtype=object) for n, c in rows.items()},
    "structured": lambda rows: np.array(
        list(zip(*rows.values(), strict=True)), dtype=[(n, object) for n in rows]
    ),
    "list of dicts": by_row,
}


@pytest.mark.parametrize("kind", FRAMES)
def test_every_kind_of_frame_is_read_as_its_lists(kind):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert TABLE.encode(FRAMES[kind](ROWS)).tolist() == SYMBOLS


COLUMNS = {
    "age": st.integers(-128, 127),
    "code": st.sampled_from([7, LARGE, LARGE - 1, LARGE + 1, -7]),
    "share": st.floats(width=32),
    "member": st.booleans(),
    "job": st.sampled_from(["nurse", "clerk", "pilot", "", "nurse ", "7"]),
    "at": st.datetimes(dt.datetime(1700, 1, 1), dt.datetime(2200, 1, 1)),
    "day": st.dates(dt.date(1700, 1, 1), dt.date(2200, 1, 1)),
}
TABLES = st.lists(
    st.tuples(*(st.none() | values for values in COLUMNS.values())), min_size=1, max_size=8
)


@pytest.mark.parametrize("kind", sorted(FRAMES.keys() - {"polars zoned", "pandas nullable"}))
@given(rows=TABLES)
def test_no_row_changes_another_in_any_kind_of_frame(kind, rows):
    columns = {name: [row[i] for row in rows] for i, name in enumerate(COLUMNS)}
    alone = [TABLE.encode({n: [v] for n, v in zip(COLUMNS, row, strict=True)})[0] for row in rows]
    try:
        frame = FRAMES[kind](columns)
    except (TypeError, pa.ArrowInvalid):  # pandas and pyarrow do not make all of them
        return
    assert TABLE.encode(frame).tolist() == np.array(alone).tolist()


def test_values_that_python_cannot_hold_are_read_each_by_itself():
    text = pa.StringArray.from_buffers(
        3, pa.py_buffer(np.array([0, 5, 6, 11], "i4")), pa.py_buffer(b"nurse\xffclerk")
    )
    assert Labels(["nurse", "clerk"]).encode(pa.table({"job": text})["job"]).tolist() == [0, 2, 1]
    finest = pa.array([1, None], pa.time64("ns"))
    assert Labels(["x"]).encode(finest).tolist() == [1, 2]
    wide = pl.Series([7, None, 2**100], dtype=pl.Int128)
    assert Labels([7]).encode(wide).tolist() == [0, 2, 1]
    assert Binned([0]).encode(wide).tolist() == [1, 2, 1]
    assert Binned([0]).encode(pl.Series([[7], None])).tolist() == [2, 2]


ALL = [Labels(["a", "7"]), Binned([0.5]), Times("hour"), Times(["2024-01-01"])]
ODD = [
    Decimal("sNaN"), np.timedelta64(3, "s"), {"a": 1}, [[1], 2], b"\xff", 10**400, pd.NA, pd.NaT,
    np.array([1, 2]), {1}, dt.time(3), dt.datetime.max, 1j, "\ud800", pd.Period("2024-01"),
    pd.DataFrame({"a": [1]}), pd.Timestamp("2024-01-01", tz="Europe/Berlin"),
]  # fmt: skip


@pytest.mark.parametrize("domain", ALL, ids=repr)
@pytest.mark.parametrize("odd", ODD, ids=lambda value: type(value).__name__)
def test_no_object_in_a_data_frame_raises_or_changes_another(domain, odd):
    values = ["a", 7, "2024-01-01T05:00", odd]
    objects = np.empty(4, dtype=object)
    objects[:3], objects[3] = values[:3], odd
    expected = domain.encode(values).tolist()
    for column in (objects, pd.Series(objects), pl.Series(values, dtype=pl.Object)):
        assert domain.encode(column).tolist() == expected


@pytest.mark.parametrize("domain", ALL, ids=repr)
@pytest.mark.parametrize("zone", [None, "Europe/Berlin", "+02:00"])
@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
def test_no_time_that_is_far_off_raises_or_changes_another(domain, unit, zone):
    usual = int(np.datetime64("2024-07-01T05:00", unit).astype(np.int64))
    for far in (-(2**63), -(2**63) + 1, -(10**17), 10**15, 2**63 - 1):
        odd = pa.array([usual, far, usual]).view(pa.timestamp(unit, zone))
        gone = pa.array([usual, None, usual]).view(pa.timestamp(unit, zone))
        for made in (lambda x: x, lambda x: x.to_pandas(types_mapper=pd.ArrowDtype), pl.Series):
            if unit == "s" and made is pl.Series:
                continue  # it has no such unit
            found, expected = (domain.encode(made(x)).tolist() for x in (odd, gone))
            assert found[::2] == expected[::2]


def test_a_time_outside_the_calendar_of_python_is_missing_in_every_container():
    days = [19_900, -(2**31), 2**31 - 1, 2_932_896, 2_932_897]  # the last but one: 9999-12-31
    for column in (
        np.array(days).view("M8[D]"),
        list(np.array(days).view("M8[D]")),
        pa.array(days, pa.int32()).view(pa.date32()),
        pl.Series(days, dtype=pl.Int32).cast(pl.Date),
    ):
        assert Times("hour").encode(column).tolist() == [0, 24, 24, 0, 24]
        assert Labels(["a"]).encode(column).tolist() == [1] * 5


class _Row(Mapping[str, int]):
    def __getitem__(self, name: str) -> int:
        raise RuntimeError(name)

    def __iter__(self):
        raise RuntimeError

    def __len__(self) -> int:
        raise RuntimeError


def test_a_row_without_a_key_or_that_is_none_is_missing():
    table = Table({"age": Binned([18]), "sex": ["f", "m"]})
    rows = [{"sex": "f"}, None, {"age": 20, "sex": "m"}, 7777, _Row(), {}, ("f", 3)]
    symbols = (table.encode(rows) - [0, 3]).tolist()
    assert symbols == [[2, 0], [2, 3], [1, 1], [2, 3], [2, 3], [2, 3], [2, 3]]
    assert table.encode([]).shape == (0, 2)


@pytest.mark.parametrize(
    ("frame", "message"),
    [
        (pl.DataFrame({"age": [7777]}), "sex"),
        (pd.DataFrame([[7777, 8888, 9999]], columns=["age", "sex", "age"]), "distinct"),
        (pl.LazyFrame({"age": [7777], "sex": ["f"]}), "collect"),
        (pd.Series([7777]), "frame"),
        ({"age": 7777, "sex": ["f"]}, "age"),
        ({"age": pl.DataFrame({"age": [7777]}), "sex": ["f"]}, "age"),
    ],
)
def test_only_the_form_of_a_frame_is_refused(frame, message):
    table = Table({"age": Binned([18]), "sex": ["f", "m"]})
    with pytest.raises(DomainError, match=message) as caught:
        table.encode(frame)
    assert "7777" not in str(caught.value)
    assert caught.value.__context__ is None or caught.value.__suppress_context__
