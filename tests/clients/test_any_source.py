"""Odd values in some records: as many records, the others' symbols as they were, and no refusal.

Over programs that write text, Parquet and SQLite, and frames in memory. Each example changes some
of about five records; with `FLWR_KLD_EXAMPLES=20` there are more than 10^5 in all.
"""

from decimal import Decimal
from functools import partial

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from flwr.app import Context, RecordDict
from hypothesis import given, settings
from hypothesis import strategies as st

from examples import examples
from flwr_kld import Binned, Labels, Table, Times
from flwr_kld.clients import node_records

DOMAINS = {
    "number": Binned([-1.0, 0.0, 1.0, 20.0]),
    "code": Labels([1, 7, 20]),
    "label": Labels(["nurse", "7", "NA", "é"]),
    "hour": Times("hour"),
    "month": Times(["2024-01-01", "2024-02-01T12:00"]),
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("rows")


class _NoFrame(Exception):
    """A program cannot hold such values: they do not come so far."""


def rows_of(row):
    """Two lists of so many records, and which of the second ones take the place of the first."""
    return st.lists(st.tuples(row, row, st.booleans()), min_size=2, max_size=8)


def require_each_by_itself(symbols, drawn):
    """What stands in one record changes its symbols, and nothing else."""
    first, second, changed = zip(*drawn, strict=True)
    mixed = [b if other else a for a, b, other in drawn]
    found = [symbols(list(rows)) for rows in (first, second, mixed)]
    assert [len(one) for one in found] == [len(drawn)] * 3
    expected = np.where(np.array(changed)[:, None], found[1], found[0])
    np.testing.assert_array_equal(found[2], expected)


INT64 = st.integers(-(2**63), 2**63 - 1)
INT32 = st.integers(-(2**31), 2**31 - 1)
ZONES = st.sampled_from([None, "UTC", "Europe/Berlin", "America/New_York", "+14:00", "-00:01"])
DAY = 86_400


def as_type(kind, storage=None):
    """Make a column of integers of another type, whatever they are: pyarrow checks nothing."""
    return lambda values: pa.array(values, storage or pa.int64()).view(kind)


def as_text(values, kind=None):
    return pa.array(values, pa.binary()).view(kind or pa.string())


def times(draw):
    unit = draw(st.sampled_from(["s", "ms", "us", "ns"]))
    second = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}[unit]
    usual = [19_753 * DAY * second, 0, 3661 * second]
    return as_type(pa.timestamp(unit, draw(ZONES))), usual, INT64


BYTES = [b"nurse", b"7", b"2024-01-31", b"1.5"]
DECIMALS = st.decimals(allow_nan=False, allow_infinity=False, places=2, min_value=-(10**30))
COLUMNS = {
    "int64": lambda draw: (partial(pa.array, type=pa.int64()), [1, 7], INT64),
    "uint64": lambda draw: (
        partial(pa.array, type=pa.uint64()), [1, 7], st.integers(0, 2**64 - 1),
    ),
    "int8": lambda draw: (partial(pa.array, type=pa.int8()), [1, 7], st.integers(-128, 127)),
    "float64": lambda draw: (partial(pa.array, type=pa.float64()), [1.0, 1.5], st.floats()),
    "float32": lambda draw: (
        partial(pa.array, type=pa.float32()), [1.0, 1.5], st.floats(width=32),
    ),
    "bool": lambda draw: (partial(pa.array, type=pa.bool_()), [True, False], st.booleans()),
    "text": lambda draw: (as_text, BYTES, st.binary(max_size=6)),
    "long text": lambda draw: (
        lambda values: pa.array(values, pa.large_binary()).view(pa.large_string()), BYTES,
        st.binary(max_size=6),
    ),
    "bytes": lambda draw: (partial(pa.array, type=pa.binary()), BYTES, st.binary(max_size=6)),
    "dictionary": lambda draw: (
        lambda values: as_text(values).dictionary_encode(), BYTES, st.binary(max_size=6),
    ),
    "decimal": lambda draw: (
        partial(pa.array, type=pa.decimal128(38, 2)), [Decimal("7.00"), Decimal("1.50")],
        DECIMALS.filter(lambda d: abs(d) < 10**35),
    ),
    "timestamp": times,
    "date32": lambda draw: (as_type(pa.date32(), pa.int32()), [19_753, 0], INT32),
    "date64": lambda draw: (as_type(pa.date64()), [19_753 * DAY * 1000, 0], INT64),
    "time64": lambda draw: (as_type(pa.time64("ns")), [0, 10**9], INT64),
    "duration": lambda draw: (as_type(pa.duration("ns")), [0, 10**9], INT64),
    "list": lambda draw: (partial(pa.array, type=pa.list_(pa.int64())), [[7], []],
                          st.lists(INT64 | st.none(), max_size=3)),
    "struct": lambda draw: (
        partial(pa.array, type=pa.struct({"a": pa.float64()})), [{"a": 1.0}, {}],
        st.fixed_dictionaries({"a": st.floats()}),
    ),
    "null": lambda draw: (pa.array, [None], st.none()),
}  # fmt: skip


def parquet(table, file):
    pq.write_table(table, file)
    context = Context(0, 1, {"drift-records": str(file)}, RecordDict(), {})
    return node_records(context)


HOLDERS = {
    "pyarrow": lambda table, _: table,
    "Parquet": parquet,
    "pandas": lambda table, _: table.to_pandas(),
    "pandas of pyarrow": lambda table, _: table.to_pandas(types_mapper=pd.ArrowDtype),
    "polars": lambda table, _: pl.from_arrow(table),
}


@pytest.mark.parametrize("holder", HOLDERS)
@pytest.mark.parametrize("kind", COLUMNS)
@given(data=st.data())
@settings(max_examples=examples(6))
def test_no_value_in_a_typed_column_moves_another(folder, kind, holder, data):
    make, usual, odd = COLUMNS[kind](data.draw)
    if holder == "polars" and usual is BYTES and kind != "bytes":  # it has no texts but in UTF-8
        odd = st.text(max_size=4).map(lambda text: text.encode(errors="replace"))
    value = st.sampled_from(usual) | odd | st.none()
    table, file = Table(DOMAINS), folder / "rows.parquet"

    def symbols(rows):
        try:
            column = make([value for (value,) in rows])
            frame = HOLDERS[holder](pa.table(dict.fromkeys(DOMAINS, column)), file)
        except (OverflowError, ValueError, pa.ArrowException, pl.exceptions.PolarsError) as error:
            raise _NoFrame from error
        return table.encode(frame)

    try:
        require_each_by_itself(symbols, data.draw(rows_of(st.tuples(value))))
    except _NoFrame:
        assert holder != "pyarrow"
