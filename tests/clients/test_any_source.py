"""Odd values in some records: as many records, the others' symbols as they were, and no refusal.

Over programs that write text, Parquet and SQLite, and frames in memory. Each example changes some
of about five records; with `FLWR_KLD_EXAMPLES=20` there are more than 10^5 in all.
"""

import csv
import datetime as dt
import sqlite3
from contextlib import closing
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
from flwr_kld import Binned, Dialect, Labels, Table, Times
from flwr_kld.clients import node_records

DOMAINS = {
    "number": Binned([-1.0, 0.0, 1.0, 20.0]),
    "code": Labels([1, 7, 20]),
    "label": Labels(["nurse", "7", "NA", "é"]),
    "hour": Times("hour"),
    "month": Times(["2024-01-01", "2024-02-01T12:00"]),
}
USUAL = ["nurse", "7", "1.5", "20", "-3", "2024-01-31", "2024-01-31 05:06:07", "é", "a,b;c", "x y"]
PIECES = st.sampled_from(
    ["nurse", "7", "1", ".", ",", ";", "\t", "|", "-", "+", "e400", "_", " ", "\u00a0", '"', '""',
     "'", "\\", "\r", "\n", "\0", "\x1a", "\x85", "\u2028", "\ufeff", "é", "٣", "😀", "NA", "nan",
     "inf", "true", "$", "%", "=", "#", "2024-01-31", "31.12.2024", "T24:00", "Z", "0000-00-00",
     "x" * 70_000, "9" * 400]
)  # fmt: skip
TEXT = st.lists(PIECES, max_size=4).map("".join) | st.text(max_size=5)
UTF8 = TEXT.filter(lambda text: text.isascii() or text.encode("utf-8", "replace").decode() == text)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("rows")


def encoded(table, place, **config):
    named = {"drift-records": str(place), "drift-query": "SELECT * FROM t ORDER BY i"}
    own = {f"drift-{key}": value for key, value in config.items()}
    context = Context(0, 1, {**named, **own}, RecordDict(), {})
    return table.encode(node_records(context, table))


def by_csv(file, rows, encoding="utf-8", **form):
    with open(file, "w", newline="", encoding=encoding, errors="replace") as lines:
        writer = csv.writer(lines, **form)
        writer.writerow(rows)
        writer.writerows(zip(*rows.values(), strict=True))


def by_r(file, rows, mark=",", numbers=True):
    """As write.csv and write.csv2 do: row names, quoted texts, numbers and NA without quotes."""

    def spelt(text):
        if text is None or (numbers and text.replace(".", "", 1).isdecimal()):
            return "NA" if text is None else text
        return '"' + text.replace('"', '""') + '"'

    lines = [mark.join(['""', *map(spelt, rows)])]
    for number, row in enumerate(zip(*rows.values(), strict=True), 1):
        lines.append(mark.join([f'"{number}"', *map(spelt, row)]))
    file.write_bytes(("\n".join(lines) + "\n").encode("utf-8", "replace"))


def by_sqlite(file, rows):
    file.unlink(missing_ok=True)
    with closing(sqlite3.connect(file)) as database:
        kinds = ("TEXT", "INTEGER", "TIMESTAMP", "NUMERIC", "BLOB")
        columns = [f"{n} {kind}" for n, kind in zip(rows, kinds, strict=True)]
        database.execute(f"CREATE TABLE t (i INTEGER, {', '.join(columns)})")
        for i, row in enumerate(zip(*rows.values(), strict=True)):
            places = ", ".join("CAST(? AS TEXT)" if type(v) is bytes else "?" for v in row)
            database.execute(f"INSERT INTO t VALUES ({i}, {places})", row)
        database.commit()


def by_pandas(file, rows, **form):
    pd.DataFrame(rows, dtype=object).to_csv(file, errors="replace", **form)


TEXT_FILES = {
    # how it is written, its dialect, its line end
    "csv": (by_csv, {}, "\r\n"),
    "csv, unix": (partial(by_csv, dialect="unix"), {}, "\n"),
    "csv, tabs": (partial(by_csv, dialect="excel-tab"), {"delimiter": "\t"}, "\r\n"),
    "csv, CR": (partial(by_csv, lineterminator="\r"), {}, "\r"),
    "csv, not quoted": (
        partial(by_csv, quoting=csv.QUOTE_NONE, escapechar="\\", lineterminator="\n"), {}, "\n",
    ),
    "csv, no doubled quotes": (
        partial(by_csv, doublequote=False, escapechar="\\", lineterminator="\n"), {}, "\n",
    ),
    "csv, apostrophes": (partial(by_csv, quotechar="'", lineterminator="\n"), {}, "\n"),
    "Excel, semicolons": (
        partial(by_csv, encoding="cp1252", delimiter=";"),
        {"delimiter": ";", "encoding": "cp1252", "decimal": ","}, "\r\n",
    ),
    "Excel, UTF-8": (partial(by_csv, encoding="utf-8-sig"), {}, "\r\n"),
    "Excel, Unicode text": (
        partial(by_csv, encoding="utf-16", dialect="excel-tab"),
        {"delimiter": "\t", "encoding": "utf-16"}, "\r\n",
    ),
    "R": (by_r, {}, "\n"),
    "R, semicolons": (partial(by_r, mark=";"), {"delimiter": ";", "decimal": ","}, "\n"),
    "R, bars": (partial(by_r, mark="|", numbers=False), {"delimiter": "|"}, "\n"),
    "pandas": (partial(by_pandas, index=False), {}, "\n"),
    "pandas, quoted": (partial(by_pandas, quoting=csv.QUOTE_NONNUMERIC, na_rep="NA"), {}, "\n"),
    "pandas, gzip": (by_pandas, {}, "\n"),
    "polars": (lambda file, rows: pl.DataFrame(rows).write_csv(file), {}, "\n"),
    "polars, tabs": (
        lambda file, rows: pl.DataFrame(rows).write_csv(
            file, separator="\t", quote_style="always", include_bom=True
        ), {"delimiter": "\t"}, "\n",
    ),
    "polars, never quoted": (
        lambda file, rows: pl.DataFrame(rows).write_csv(file, quote_style="never"), {}, "\n",
    ),
    "pyarrow": (lambda file, rows: pyarrow.csv.write_csv(pa.table(rows), file), {}, "\n"),
}  # fmt: skip


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


def by_column(rows):
    return dict(zip(DOMAINS, map(list, zip(*rows, strict=True)), strict=True))


@pytest.mark.parametrize("writer", TEXT_FILES)
@given(data=st.data())
@settings(max_examples=examples(20))
def test_no_value_in_a_text_file_moves_another(folder, writer, data):
    write, told, end = TEXT_FILES[writer]
    table = Table(DOMAINS, dialect=Dialect(**told))
    odd = UTF8 if writer.startswith(("polars", "pyarrow")) else TEXT
    text = st.sampled_from(USUAL) | odd.filter(lambda text: end not in text) | st.none()
    packed = ".csv.gz" if "gzip" in writer else ".csv"
    file = folder / f"rows{packed}"

    def symbols(rows):
        write(file, by_column(rows))
        return encoded(table, file)

    require_each_by_itself(symbols, data.draw(rows_of(st.tuples(*[text] * len(DOMAINS)))))


NUMBERS = st.integers() | st.floats() | st.decimals() | st.fractions() | st.complex_numbers()
TIMES = st.datetimes(timezones=st.none() | st.timezones()) | st.dates() | st.times()
NESTED = st.lists(NUMBERS | TEXT, max_size=2) | st.dictionaries(TEXT, NUMBERS, max_size=2)
OBJECTS = TEXT | NUMBERS | TIMES | NESTED | st.timedeltas() | st.binary(max_size=6) | st.none()
HELD = st.integers(0, 9).map(
    [
        Decimal("sNaN"), pd.NA, pd.NaT, np.datetime64(2**62, "Y"), np.array([1, 2]), object(),
        pd.Period("2024-01"), "\ud800", np.float16(7), {1, 2},
    ].__getitem__
)  # fmt: skip
TYPED = [
    [7, 1, 20], [1.0, 7.0, 1.5], [True, False], USUAL, [dt.date(2024, 1, 31), None],
    [dt.datetime(2024, 1, 31, 5), dt.datetime(1970, 1, 1, 23, 59, 59, 999_999)],
    [Decimal("7.00"), Decimal(1)], [b"nurse", b"7"], [1, "nurse", None],
]  # fmt: skip
FRAMES = {
    "lists": dict,
    "list of dicts": lambda rows: [
        dict(zip(rows, row, strict=True)) for row in zip(*rows.values(), strict=True)
    ],
    "pandas objects": lambda rows: pd.DataFrame(rows, dtype=object),
    "pandas": pd.DataFrame,
    "polars objects": lambda rows: pl.DataFrame(
        {name: pl.Series(column, dtype=pl.Object) for name, column in rows.items()}
    ),
}


@pytest.mark.parametrize("kind", FRAMES)
@given(data=st.data())
@settings(max_examples=examples(20))
def test_no_object_in_a_frame_moves_another(kind, data):
    table = Table(DOMAINS)
    usual = data.draw(st.lists(st.sampled_from(TYPED), min_size=5, max_size=5))
    row = st.tuples(*(st.sampled_from(values) | OBJECTS | HELD for values in usual))

    def symbols(rows):
        try:
            frame = FRAMES[kind](by_column(rows))
        except (OverflowError, TypeError, ValueError) as error:
            raise _NoFrame from error
        return table.encode(frame)

    try:
        require_each_by_itself(symbols, data.draw(rows_of(row)))
    except _NoFrame:
        assert kind == "pandas"


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


@given(data=st.data())
@settings(max_examples=examples(40))
def test_no_value_in_sqlite_moves_another(folder, data):
    file = folder / "rows.db"
    value = st.sampled_from([*USUAL, 1, 7.0, None]) | UTF8 | INT64 | st.floats()
    row = st.tuples(*[value | st.binary(max_size=6)] * len(DOMAINS))

    def symbols(rows):
        by_sqlite(file, by_column(rows))
        return encoded(Table(DOMAINS), f"sqlite:///{file}")

    require_each_by_itself(symbols, data.draw(rows_of(row)))
