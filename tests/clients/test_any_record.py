"""Whatever one record holds, a node has as many records as before, and the others' symbols stay."""

import csv
import os
import sqlite3
import tempfile
import uuid
from contextlib import closing
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
import sqlalchemy as sa
from flwr.app import Context, RecordDict
from hypothesis import given
from hypothesis import strategies as st

from flwr_kld import Binned, Labels, Table, Times
from flwr_kld.ask.period import Period, of_period
from flwr_kld.clients import node_records
from flwr_kld.common.errors import QueryRefused

TABLE = Table({"age": Binned([18, 65]), "job": Labels(["nurse", "clerk"]), "at": Times("hour")})
LINES = [
    b'"',
    b'"a,b',
    b'a"b',
    b"",
    b",",
    b"\xff",
    b'"a""b",c',
    b'"a"b,c',
    b"a\rb,c",
    b"\r",
    b"\xef\xbb\xbf",
]


def loaded(records, query=""):
    named = {"drift-records": str(records), "drift-query": query}
    return node_records(Context(0, 1, named, RecordDict(), {}))


def test_a_line_of_a_csv_is_a_record(tmp_path):
    file = tmp_path / "rows.csv"
    long = "x" * 200_000
    file.write_bytes(
        f'age,job\n17,nurse\n,\n"a\nb",clerk\n20\n30,clerk,7\n\n{long},"a ""b"", c"'.encode()
        + b"\n\xff\0,clerk\r\n"
    )
    found = loaded(file)
    assert found["age"] == ["17", None, "a", 'b"', "20", "30", None, long, "\ufffd\0"]
    assert found["job"][4:] == [None, "clerk", None, 'a "b", c', "clerk"]
    for header in (b"age,job", b"age,job\n", b'\xef\xbb\xbf"age",job\r\n'):
        file.write_bytes(header)
        assert loaded(file) == {"age": [], "job": []}


@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\r"])
@given(lines=st.lists(st.binary(max_size=8) | st.sampled_from(LINES), min_size=1, max_size=5))
def test_each_line_of_a_csv_is_read_by_itself(end, lines):
    lines = [line for line in lines if end not in line]
    if end == b"\r":
        lines = [line.lstrip(b"\n") for line in lines]  # else the header's end would be CR LF
    with tempfile.NamedTemporaryFile(suffix=".csv") as file:

        def read(*lines):
            Path(file.name).write_bytes(end.join([b"age,job", *lines, b""]))
            return dict(loaded(file.name))

        together = read(*lines)
        alone = [read(line) for line in lines]
    for name in ("age", "job"):
        assert together[name] == [one[name][0] for one in alone]


def by_csv_module(rows, file, **options):
    with open(file, "w", newline="", encoding="utf-8", errors="surrogateescape") as lines:
        writer = csv.writer(lines, **options)
        writer.writerow(rows)
        writer.writerows(zip(*rows.values(), strict=True))


def by_sqlite(rows, file):
    names = ", ".join(rows)
    with closing(sqlite3.connect(file)) as database:
        database.execute(f"CREATE TABLE t ({names.replace(',', ' TEXT,')} TEXT)")
        for row in zip(*rows.values(), strict=True):
            as_bytes = [text and text.encode(errors="surrogateescape") for text in row]
            places = ", ".join(["CAST(? AS TEXT)"] * len(row))
            database.execute(f"INSERT INTO t VALUES ({places})", as_bytes)
        database.commit()


WRITERS = {
    "csv": ("\r\n", by_csv_module),
    "csv, all quoted": ("\r\n", partial(by_csv_module, quoting=csv.QUOTE_ALL)),
    "csv, LF": ("\n", partial(by_csv_module, lineterminator="\n")),
    "pandas": ("\n", lambda rows, file: pd.DataFrame(rows).to_csv(file, index=False)),
    "polars": ("\n", lambda rows, file: pl.DataFrame(rows).write_csv(file)),
    "polars, all quoted": (
        "\n",
        lambda rows, file: pl.DataFrame(rows).write_csv(file, quote_style="always"),
    ),
    "pyarrow": ("\n", lambda rows, file: pyarrow.csv.write_csv(pa.table(rows), file)),
    "parquet": (None, lambda rows, file: pq.write_table(pa.table(rows), file)),
    "sqlite": (None, by_sqlite),
}
"""The line end that each writes, and how."""
ODD = [
    None, "", " ", '"', '""', '"flu', 'flu"', 'f"lu', "flu,cold", ",", "\r", "flu\r", "\rflu",
    "fl\ru", "\n", "flu\n", "fl\nu", "fl\r\nu", "\0", "\x1a", "\x85", "\u2028", "\ufeff", "é",
    "fl\udcffu", "x" * 200_000, "'", "\\", "NA", "#", "=1", "1e400", "0000-00-00",
]  # fmt: skip


@pytest.mark.parametrize("columns", [1, 2])
@pytest.mark.parametrize("writer", WRITERS)
def test_no_value_changes_how_many_records_there_are_or_another(tmp_path, writer, columns):
    end, write = WRITERS[writer]
    domains = {"v": Labels(["flu", "cold"]), "w": Labels(["c"])}
    table = Table({name: domains[name] for name in ("v", "w")[:columns]})

    file = tmp_path / {"parquet": "rows.parquet", "sqlite": "rows.db"}.get(writer, "rows.csv")
    place = f"sqlite:///{file}" if writer == "sqlite" else file

    def symbols(position, value):
        rows = {"v": ["flu", "cold", "cold", "flu"], "w": ["c", "c", "d", "c"]}
        rows["v"][position] = value
        file.unlink(missing_ok=True)
        write({name: rows[name] for name in table.features}, file)
        return table.encode(loaded(place, "SELECT * FROM t"))

    unchanged = {position: symbols(position, "cold") for position in (0, 2, 3)}
    for odd in ODD:
        for position, usual in unchanged.items():
            try:
                found = symbols(position, odd)
            except UnicodeEncodeError:
                continue  # it writes UTF-8 only
            if end is not None and end in (odd or ""):  # two lines are two records
                assert len(found) == len(usual) + 1
                assert (found[:position] == usual[:position]).all()
                assert (found[position + 2 :] == usual[position + 1 :]).all()
            else:
                assert len(found) == len(usual)
                others = np.arange(len(usual)) != position
                assert (found[others] == usual[others]).all()


def test_sqlite_holds_any_type_in_any_column(tmp_path):
    with closing(sqlite3.connect(tmp_path / "t.db")) as database:
        database.execute("CREATE TABLE t (at TIMESTAMP, age INTEGER, job TEXT)")
        odd = ("0000-00-00", "9" * 30, b"\xff")
        usual = ("2024-01-01 05:00", 20, "nurse")
        database.executemany("INSERT INTO t VALUES (?, ?, ?)", [usual, odd, usual])
        database.commit()
    for options in ("", "?detect_types=3"):  # by which sqlite3 would raise for "0000-00-00"
        rows = loaded(f"sqlite:///{tmp_path}/t.db{options}", "SELECT * FROM t")
        found = (TABLE.encode(rows) - [0, 4, 8]).tolist()
        assert found == [[1, 0, 5], [2, 2, 24], [1, 0, 5]]


SERVER = "FLWR_KLD_TEST_POSTGRES"
TEXT = {
    "UTF8": r"'\xc3a9', 'UTF8'",
    "SQL_ASCII": r"'\xe9', 'SQL_ASCII'",
    "EUC_JP": r"'\xf5a1', 'EUC_JP'",
}
"""One that psycopg cannot decode, or the server not convert to UTF-8, but for the first."""


def require_that_none_changes_another(url, values, text=""):
    """Load each odd value beside a usual one, which is listed."""
    for domain, usual, odd in values:
        for value in odd:
            asked = f"SELECT {usual} AS v UNION ALL SELECT {value.replace('{text}', text)}"
            symbols = domain.encode(loaded(url, asked)["v"])
            assert len(symbols) == 2, value
            assert symbols[0] < domain.size - len(domain.unlisted), usual


IN_POSTGRES = [
    (Times("hour"), "timestamp '2024-01-01 05:00'", ["'infinity'", "'0044-03-15 BC'"]),
    (Times("hour"), "timestamptz '2024-01-01 05:00'", ["'20000-01-01'"]),
    (Times("weekday"), "date '2024-01-01'", ["'-infinity'", "'0044-03-15 BC'"]),
    (Labels(["05:00:00"]), "time '05:00'", ["'24:00'"]),
    (Labels(["False", "True"]), "true", ["null", "false"]),
    (Labels([7]), "7", ["null", "9"]),
    (Labels([7]), "7.00", ["'NaN'", "1e300"]),
    (Binned([0.5]), "float8 '0.5'", ["'NaN'", "'-Infinity'"]),
    (Labels(["nurse"]), "text 'nurse'", ["convert_from({text})", "''"]),
    (Labels(["nurse"]), "bytea 'nurse'", [r"'\xff'"]),
    (Labels(["{2024-01-01}"]), "'{2024-01-01}'::date[]", ["'{infinity}'"]),
    (Labels(["{}"]), "jsonb '{}'", ["(repeat('[', 5000) || repeat(']', 5000))::jsonb"]),
    (Labels(["1 day"]), "interval '1 day'", ["'170000000 years'"]),
    (Labels(["empty"]), "daterange 'empty'", ["'[-infinity,infinity]'"]),
]  # fmt: skip


@pytest.mark.skipif(SERVER not in os.environ, reason=f"{SERVER} names no server: test-databases")
@pytest.mark.parametrize("encoding", TEXT)
def test_no_value_in_postgresql_raises_or_changes_another(encoding):
    server = sa.make_url(os.environ[SERVER]).set(drivername="postgresql+psycopg")
    name = f"records_{uuid.uuid4().hex}"
    engine = sa.create_engine(server, poolclass=sa.pool.NullPool, isolation_level="AUTOCOMMIT")
    # Without it, SQLAlchemy cannot connect to a database in SQL_ASCII.
    own = server.set(database=name).update_query_dict({"client_encoding": "utf8"})
    url = own.render_as_string(hide_password=False)

    with engine.connect() as connection:
        connection.exec_driver_sql(
            f"CREATE DATABASE {name} ENCODING '{encoding}' LOCALE 'C' TEMPLATE template0"
        )
        try:
            connection.exec_driver_sql(f"ALTER DATABASE {name} SET datestyle TO 'German'")
            require_that_none_changes_another(url, IN_POSTGRES, TEXT[encoding])
            with pytest.raises(QueryRefused, match="InternalError"):
                loaded(url, "CREATE TABLE t AS SELECT 1 AS v")
        finally:
            connection.exec_driver_sql(f"DROP DATABASE {name}")


IN_MARIADB = [
    (Times("hour"), "timestamp '2024-01-01 05:00'", ["CAST('0000-00-00' AS datetime)"]),
    (Times("weekday"), "date '2024-01-01'", ["CAST('0000-00-00' AS date)"]),
    (Labels(["05:00:00"]), "time '05:00'", ["time '-838:59:59'"]),
    (Labels(["False", "True"]), "true", ["false", "null"]),
    (Labels([7]), "7", ["-9223372036854775808"]),
    (Labels([7]), "7.00", ["-1e64"]),
    (Binned([0.5]), "0.5e0", ["-1.7e308", "0e0"]),
    (Labels(["nurse"]), "'nurse'", ["x'ff'", "CONVERT(x'81' USING latin1)", "'%'"]),
    (Labels(["é"]), "CONVERT(x'e9' USING latin1)", ["x'e9'"]),
    (Labels(["{}"]), "JSON_OBJECT()", ["REPEAT('[', 5000)"]),
    (Labels(["a"]), "CONVERT('a' USING utf8mb4)", ["CONVERT(x'f09f9880' USING utf8mb4)"]),
]
"""Of a connection in latin1, PyMySQL by itself raises for a byte that Python's cp1252 lacks."""
MARIADB = "FLWR_KLD_TEST_MARIADB"


@pytest.mark.skipif(MARIADB not in os.environ, reason=f"{MARIADB} names no server: test-databases")
@pytest.mark.parametrize("charset", ["utf8mb4", "latin1"])
def test_no_value_in_mariadb_raises_or_changes_another(charset):
    url = f"{os.environ[MARIADB]}&charset={charset}"
    require_that_none_changes_another(url, IN_MARIADB)
    with pytest.raises(QueryRefused, match="OperationalError"):
        loaded(url, "CREATE TABLE t AS SELECT 1 AS v")


@pytest.mark.parametrize(
    ("server", "kind"),
    [
        *((SERVER, kind) for kind in ("date", "timestamp", "timestamptz", "text", "varchar(20)")),
        *((MARIADB, kind) for kind in ("date", "datetime", "char")),
    ],
)
def test_a_server_selects_the_rows_of_a_period(server, kind):
    if server not in os.environ:
        pytest.skip(f"{server} names no server: test-databases")
    days = ("'2024-05-31'", "'2024-06-01'", "'2024-06-30'", "'2024-07-02'", "NULL")
    rows = " UNION ALL ".join(f"SELECT CAST({day} AS {kind}) AS v, 'a:b' AS w" for day in days)
    query = f"SELECT * FROM ({rows}) AS t WHERE v >= {{from}} AND v < {{to}} AND w LIKE 'a:%'"
    with of_period(Period("v", "2024-06-01", "2024-07-01T12:00")):
        found = loaded(os.environ[server], query)["v"]
    assert [str(value)[:10] for value in found] == ["2024-06-01", "2024-06-30"]


@pytest.mark.parametrize(
    "driver",
    ["postgresql+psycopg2", "mysql+mysqldb", "mssql+pyodbc", "oracle+oracledb", "duckdb", "no"],
)
def test_a_driver_that_may_raise_for_a_value_is_refused_before_it_is_asked(driver, caplog):
    with pytest.raises(QueryRefused, match="DomainError"):
        loaded(f"{driver}://drift:SECRET@localhost/x", "SELECT 1")
    assert f"loading by {driver} may fail" in caplog.text
    assert "SECRET" not in caplog.text
