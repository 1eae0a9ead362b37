"""Files of other programs: recognised on the public side, told on a node, read alike on both."""

import csv
import gzip
import io
import json
import sqlite3
from contextlib import closing
from datetime import date, datetime
from decimal import Decimal

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from flwr.app import Context, RecordDict
from hypothesis import given
from hypothesis import strategies as st

from flwr_kld import Binned, Codes, Dialect, Labels, Reference, Table, Times
from flwr_kld.clients import node_records
from flwr_kld.common.errors import DomainError, QueryRefused
from flwr_kld.table.frame import TextFile
from flwr_kld.table.sniff import sniff

DELIMITERS = {"comma": ",", "semicolon": ";", "tab": "\t", "bar": "|"}
FORMS = {
    # decimal mark and thousands, dates, missing, quoting, encoding
    "plain": (".", "", "%Y-%m-%d", "", csv.QUOTE_MINIMAL, "utf-8"),
    "German": (",", ".", "%d.%m.%Y", "NA", csv.QUOTE_MINIMAL, "latin-1"),
    "French": (",", "\u202f", "%d/%m/%Y", "", csv.QUOTE_MINIMAL, "utf-8"),
    "American": (".", ",", "%m/%d/%Y", "N/A", csv.QUOTE_MINIMAL, "utf-8"),
    "British": (".", ",", "%d %b %Y", "NULL", csv.QUOTE_ALL, "utf-8-sig"),
    "R": (".", "", "%Y-%m-%d %H:%M:%S", "NA", csv.QUOTE_NONNUMERIC, "utf-8"),
    "Excel": (",", "", "%d.%m.%Y", "", csv.QUOTE_MINIMAL, "cp1252"),
    "UTF-16": (".", "", "%b %d, %Y", "None", csv.QUOTE_MINIMAL, "utf-16"),
    "question mark": (".", "", "%Y-%m-%dT%H:%M", "?", csv.QUOTE_MINIMAL, "utf-8"),
    "dash": (".", "", "%Y/%m/%d", "-", csv.QUOTE_ALL, "utf-8"),
}
PACKED = {
    "csv": lambda content: content,
    "csv.gz": gzip.compress,
    "csv.zst": lambda content: pa.compress(content, codec="zstd", asbytes=True),
}
ROWS = 240
DAYS = np.datetime64("2024-03-01") + np.arange(ROWS) * 5 % 360
AMOUNTS = np.random.default_rng(3).gamma(2.0, 3000.0, ROWS).round(2)
JOBS = ["nurse", "Bürokraft", 'the "boss"', None]
TABLE = {"paid": Binned([2000, 6000]), "since": Times("month"), "job": Labels(JOBS[:3])}


def written(form, delimiter, end="\r\n"):
    """Write the rows as a program would, and return the bytes and their encoding."""
    mark, gap, dates, missing, quoting, encoding = FORMS[form]
    lines = io.StringIO()
    writer = csv.writer(lines, delimiter=delimiter, quoting=quoting, lineterminator=end)
    writer.writerow(["paid", "since", "job"])
    for i, (amount, day) in enumerate(zip(AMOUNTS, DAYS, strict=True)):
        paid = f"{amount:,.2f}".replace(",", "G").replace(".", mark).replace("G", gap)
        job = JOBS[i % 4] or missing
        writer.writerow([missing if i % 7 == 0 else paid, day.item().strftime(dates), job])
    return lines.getvalue().encode(encoding)


def expected(table):
    paid = [None if i % 7 == 0 else float(amount) for i, amount in enumerate(AMOUNTS)]
    jobs = [JOBS[i % 4] for i in range(ROWS)]
    return table.encode({"paid": paid, "since": DAYS.astype(str).tolist(), "job": jobs})


def of_node(file, **config):
    named = {f"drift-{key}": value for key, value in {"records": str(file), **config}.items()}
    return node_records(Context(0, 1, named, RecordDict(), {}))


@pytest.mark.parametrize(
    ("form", "delimiter", "packed"),
    [
        *((form, "semicolon", "csv") for form in FORMS),
        *(("German", delimiter, "csv.gz") for delimiter in DELIMITERS),
        ("UTF-16", "comma", "csv.zst"),
    ],
)
def test_a_file_of_another_program_is_recognised_and_read_alike_on_both_sides(
    tmp_path, form, delimiter, packed
):
    file = tmp_path / f"rows.{packed}"
    file.write_bytes(PACKED[packed](written(form, DELIMITERS[delimiter])))
    dialect = sniff(file)
    table = Table(TABLE, dialect=dialect)
    assert (table.encode(of_node(file)) == expected(table)).all()

    reference = Reference.from_csv(file)  # with no word of the table, either
    assert set(reference.columns) == {"paid", "since: date", "since: weekday", "job"}
    told = Reference.from_samples(reference.domain, of_node(file))
    np.testing.assert_allclose(told.probabilities, reference.probabilities, atol=1e-12)
    shares = {name: column.unlisted for name, column in reference.columns.items()}
    assert shares["since: weekday"] == {}
    assert shares["paid"]["missing"] == pytest.approx(35 / ROWS)
    assert shares["job"] == {"missing": pytest.approx(0.25)}


@pytest.mark.parametrize("form", FORMS)
def test_a_node_says_how_its_own_file_is_written(tmp_path, form):
    """A federation's table is of one dialect, and a node's file of another."""
    file = tmp_path / "rows.csv"
    file.write_bytes(written(form, ";"))
    mark, _, dates, missing, _, encoding = FORMS[form]
    order = {"d": "day-first", "m": "month-first"}.get(dates[1], "iso")
    own = {"delimiter": ";", "decimal": mark, "dates": order, "encoding": encoding}
    table = Table(TABLE, dialect=Dialect("\t", "utf-16", dates="month-first"))
    found = table.encode(of_node(file, **own, missing=missing))
    assert (found == expected(table)).all()
    assert of_node(file, **own)["job"][:2] == ["nurse", "Bürokraft"]


def test_the_table_tells_a_node_how_to_read_and_columns_by_name(tmp_path):
    file = tmp_path / "rows.csv"
    file.write_bytes(written("German", ";"))
    reference = Reference.from_csv(file)
    rows = of_node(file)
    assert (
        node_records(
            Context(0, 1, {"drift-records": str(file)}, RecordDict(), {}), reference.domain
        )["job"][0]
        == "nurse"
    )
    assert len(reference.domain.encode(rows)) == ROWS


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("delimiter", "::"), ("decimal", "·"), ("dates", "whenever"), ("encoding", "utf-7"),
        ("encoding", "shift_jis"), ("encoding", "gb18030"), ("encoding", "no-such"),
    ],
)  # fmt: skip
def test_a_dialect_that_is_none_is_refused_by_name(tmp_path, caplog, key, value):
    with pytest.raises(DomainError, match=key):
        Dialect(**{key: value})
    file = tmp_path / "rows.csv"
    file.write_bytes(written("plain", ","))
    with pytest.raises(QueryRefused):
        of_node(file, **{key: value})
    assert key in caplog.text
    assert value in caplog.text


@pytest.mark.parametrize(
    "wrong", [5, {"missing": "NA"}, {"missing": [1]}, {"sentinels": ["x"]}, {"x": 1}]
)
def test_a_spec_with_no_dialect_is_refused(wrong):
    table = Table(TABLE)
    with pytest.raises(DomainError):
        Table.from_fields(
            {
                **{k: v for k, v in table.spec().items() if k not in ("kind", "version")},
                "dialect": wrong,
            }
        )


def test_a_dialect_travels_with_the_reference_and_is_part_of_its_fingerprint(tmp_path):
    own = Dialect(";", "latin-1", ",", "day-first", ["", "-"], {"paid": ["-1"]})
    none = {name: [None] for name in TABLE}
    reference = Reference.from_frame(Table(TABLE, dialect=own), none, allow_unlisted=True)
    reference.save(tmp_path / "r.json")
    assert Reference.load(tmp_path / "r.json").domain.dialect == own
    assert json.dumps(reference.domain.spec())
    plain = Reference.from_frame(Table(TABLE), none, allow_unlisted=True)
    assert plain.fingerprint != reference.fingerprint
    assert (plain.probabilities == reference.probabilities).all()


@pytest.mark.parametrize(
    ("decimal", "text", "number"),
    [
        (".", "1,234.50", 1234.5), (".", "$1,234.50", 1234.5), (".", "-12.5 %", -12.5),
        (".", "€ 3", 3), (".", "1 234", 1234), (".", "1'234'567.8", 1234567.8), (".", "1e3", 1000),
        (".", "1,23", None), (".", "1,2345", None), (".", "12a", None), (".", "", None),
        (".", "1,234 567", None), (".", "true", 1), (".", ".5", 0.5), (".", ".", None),
        (",", "1.234,50", 1234.5), (",", "3,14", 3.14), (",", "1.234", 1234), (",", "1.5", None),
        (",", "-0,5 €", -0.5), (",", "1\u00a0234,5", 1234.5), (",", "7", 7), (",", ",", None),
        (",", "2,5e3", 2500), (",", "5 EUR", 5), (".", "٣", 3), (",", "٣", None),
    ],
)  # fmt: skip
def test_numbers_of_every_spelling(decimal, text, number):
    read = Dialect(decimal=decimal).number(text)
    assert np.isnan(read) if number is None else read == pytest.approx(number)


@pytest.mark.parametrize(
    ("dates", "text", "iso"),
    [
        ("iso", "01/02/2024", None), ("day-first", "01/02/2024", "2024-02-01T00:00:00"),
        ("month-first", "01/02/2024", "2024-01-02T00:00:00"),
        ("day-first", "31.12.99", "1999-12-31T00:00:00"),
        ("day-first", "1-2-24 9:05", "2024-02-01T09:05:00"),
        ("month-first", "7/4/2024, 12:30 am", "2024-07-04T00:30:00"),
        ("month-first", "7/4/2024 12:30:15 PM", "2024-07-04T12:30:15"),
        ("month-first", "7/4/2024 13:30 PM", None), ("month-first", "31/12/2024", None),
        ("iso", "4 July 2024", "2024-07-04T00:00:00"), ("iso", "Jul 4 2024", "2024-07-04T00:00:00"),
        ("iso", "4-Jul-2024", "2024-07-04T00:00:00"), ("iso", "2024/7/4", "2024-07-04T00:00:00"),
        ("iso", "4. März 2024", "2024-03-04T00:00:00"),
        ("iso", "04-JUL-24", "2024-07-04T00:00:00"), ("iso", "4/Jul/99", "1999-07-04T00:00:00"),
        ("iso", "04-JUL-24 10:30", "2024-07-04T10:30:00"), ("iso", "4 Jul 12:30", None),
        ("iso", "1 juil. 2024", "2024-07-01T00:00:00"),
        ("iso", "1 juin 2024", "2024-06-01T00:00:00"),
        ("iso", "24 dic 2024", "2024-12-24T00:00:00"),
        ("iso", "4 Foo 2024", None), ("iso", "0/0/0000", None), ("day-first", "01/02.2024", None),
    ],
)  # fmt: skip
def test_dates_of_every_spelling(dates, text, iso):
    assert Dialect(dates=dates).time(text) == (text if iso is None else iso)


@pytest.mark.parametrize(
    "text",
    ["$" + " " * 10**6 + "x", "9" * 10**6 + "x", "1,000" * 10**5, "1/1/2024" + " " * 10**6 + "x"],
    ids=range(4),
)
def test_no_text_takes_a_node_hours(text):
    """Which would tell of the record that holds it."""
    dialect = Dialect(dates="day-first")
    assert np.isnan(dialect.number(text))
    assert dialect.time(text) == text


def test_a_label_that_is_listed_is_no_missing_value():
    """Namibia, and a sentinel of one column that is a value of another."""
    table = Table(
        {"country": ["NA", "DE"], "other": ["DE"], "income": Binned([0]), "debt": Binned([0])},
        dialect=Dialect(sentinels={"income": ["-999"]}),
    )
    rows = {"country": ["NA"], "other": ["NA"], "income": ["-999"], "debt": ["-999"]}
    names = [table.name_of(symbol) for symbol in table.encode(rows)[0]]
    assert names == ["country=NA", "other=missing", "income=missing", "debt=< 0"]


def test_sentinels_are_recognised_only_where_nothing_else_is_negative(tmp_path):
    rng = np.random.default_rng(0)
    file = tmp_path / "rows.csv"
    lines = ["income,change"]
    for i in range(200):
        lines.append(f"{-999 if i % 5 == 0 else rng.integers(1, 90)},{rng.integers(-1000, 1000)}")
    file.write_text("\n".join(lines))
    assert sniff(file).sentinels == {"income": ("-999",)}


DIALECTS = [
    Dialect(), Dialect(";", "latin-1", ","), Dialect("\t", "utf-16-le"), Dialect("|", "cp1252"),
]  # fmt: skip


@pytest.mark.parametrize("place", range(len(DIALECTS)))
@given(data=st.data())
def test_no_line_changes_another_in_any_dialect(tmp_path_factory, place, data):
    """Whatever bytes stand in one record: as many records, and the others as they were."""
    dialect = DIALECTS[place]
    if dialect.encoding.startswith("utf-16"):
        units = st.lists(st.integers(0, 0xFFFF).filter(lambda u: u != 10), max_size=6)
        line = units.map(lambda held: b"".join(u.to_bytes(2, "little") for u in held))
    else:
        line = st.binary(max_size=8).filter(lambda held: b"\n" not in held)
    lines = data.draw(st.lists(line, min_size=2, max_size=5))
    odd, at = data.draw(line), data.draw(st.integers(0, len(lines) - 1))
    file = tmp_path_factory.mktemp("rows") / "rows.csv"
    table = Table({"a": Binned([0.0]), "b": Times("month"), "c": ["x", "1"]}, dialect=dialect)
    end = "\n".encode(dialect.encoding)

    def symbols(lines):
        head = dialect.delimiter.join("abc").encode(dialect.encoding)
        file.write_bytes(end.join([head, *lines, b""]))
        return table.encode(TextFile(file, dialect=dialect))

    usual, found = symbols(lines), symbols([*lines[:at], odd, *lines[at + 1 :]])
    assert len(usual) == len(found) == len(lines)
    others = np.arange(len(lines)) != at
    assert (usual[others] == found[others]).all()


SENTINELS = {"number": "-999", "time": "9999-12-31", "label": "-9"}
HELD = {
    "number": ["5", "-999.0", Decimal("-999"), Decimal("-999.00"), np.int32(-999), -999],
    "time": ["2024-05-01", "9999-12-31 00:00:00", datetime(9999, 12, 31), date(9999, 12, 31),
             np.datetime64("9999-12-31"), "31.12.9999"],
    "label": ["a", "-9", Decimal("-9"), -9.0, np.float32(-9), np.int64(-9)],
}  # fmt: skip


def test_a_sentinel_is_one_in_every_type_and_spelling(tmp_path):
    """SQL and Parquet give decimals and dates, where a text file gives texts."""
    table = Table(
        {"number": Binned([0]), "time": Times(["2024-01-01"]), "label": ["a"]},
        dialect=Dialect(dates="day-first", sentinels={n: [text] for n, text in SENTINELS.items()}),
    )
    missing = [part.stop - 1 for part in table.parts]
    found = table.encode(HELD)
    assert (found[0] != missing).all()
    np.testing.assert_array_equal(found[1:], [missing] * 5)
    typed = {
        "number": pa.array([Decimal("-999.00")]),
        "time": pa.array([date(9999, 12, 31)]),
        "label": np.array([-9.0]),
    }
    np.testing.assert_array_equal(table.encode(typed), [missing])
    file = tmp_path / "rows.csv"
    file.write_text("number,time,label\n-999.0,9999-12-31T00:00,-9\n")
    np.testing.assert_array_equal(table.encode(TextFile(file)), [missing])


def test_a_sentinel_has_the_decimal_mark_of_its_dialect():
    table = Table(
        {"cost": Binned([100])}, dialect=Dialect(decimal=",", sentinels={"cost": ["9.999"]})
    )
    found = table.encode({"cost": ["9.999", 9999, "9999,0", "9,999", 9.999]})
    assert found[:, 0].tolist() == [2, 2, 2, 0, 0]


def test_labels_and_codes_that_are_numbers_have_the_decimal_mark_of_their_file():
    columns = {"level": Labels(["1", "2", "1,5", "x"]), "code": Codes(["17", "4"])}
    comma = Table(columns, dialect=Dialect(decimal=","))
    written = {"level": ["1,0", "2,00", "1,5", "x", "3,0"], "code": ["17,0", "4", "a,b", "", "5,0"]}
    plain = {"level": [1.0, 2.0, "1,5", "x", 3.0], "code": [17, "4", "a,b", None, 5.0]}
    np.testing.assert_array_equal(comma.encode(written), Table(columns).encode(plain))


@pytest.mark.parametrize(
    "held",
    [
        np.array, lambda texts: np.array(texts, "S"), lambda texts: list(np.array(texts)),
        lambda texts: [text.encode() for text in texts], np.ma.array,
        lambda texts: np.ma.array(texts, dtype=object),
        lambda texts: pa.array([text.encode() for text in texts]),
        lambda texts: pa.array(texts).dictionary_encode(),
        lambda texts: pa.array(texts, pa.string_view()),
        lambda texts: pl.Series([text.encode() for text in texts]),
        lambda texts: pd.Series(texts, dtype="category"),
    ],
    ids=range(11),
)  # fmt: skip
def test_texts_are_read_by_the_dialect_whatever_holds_them(held):
    """Parquet files of older programs have bytes for texts."""
    table = Table(
        {"cost": Binned([10, 100]), "job": ["clerk"], "day": Times("month")},
        dialect=Dialect(decimal=",", dates="day-first"),
    )
    rows = {
        "cost": ["NA", "1.234,5", "5"], "job": ["NA", "clerk", "x"], "day": ["", "01.07.2015", "?"]
    }  # fmt: skip
    found = table.encode({name: held(texts) for name, texts in rows.items()})
    np.testing.assert_array_equal(found, table.encode(rows))


@pytest.mark.parametrize("missing", [["", "NA"], ["NA"], []])
def test_an_empty_field_is_one_thing_in_a_file_and_in_a_frame(tmp_path, missing):
    """It is missing whatever else is, unless a column lists it as a label."""
    table = Table(
        {"job": ["clerk"], "unit": ["", "x"], "note": Codes(["x"], 3), "level": Labels([-1, 1])},
        dialect=Dialect(missing=[*missing, "-1"]),
    )
    rows = {"job": ["", "clerk"], "unit": ["", "x"], "note": ["", "y"], "level": ["", "-1"]}
    file = tmp_path / "rows.csv"
    file.write_text(
        ",".join(rows) + "\n" + "\n".join(map(",".join, zip(*rows.values(), strict=True))) + "\n"
    )
    read = [table.encode(held) for held in (TextFile(file), rows, pa.table(rows))]
    names = [table.name_of(symbol) for symbol in read[0][0]]
    assert names == ["job=missing", "unit=", "note=missing", "level=missing"]
    assert table.name_of(read[0][1, 3]) == "level=-1"
    for found in read[1:]:
        np.testing.assert_array_equal(found, read[0])


def test_a_nodes_own_dialect_holds_in_every_file_and_database(tmp_path):
    table = Table({"cost": Binned([10, 100]), "day": Times("month"), "job": ["clerk"]})
    rows = pd.DataFrame(
        {"cost": ["1.234,5", "--"], "day": ["01.07.2015", "--"], "job": ["clerk", "--"]}
    )
    rows.to_csv(tmp_path / "rows.csv", sep=";", index=False)
    rows.to_parquet(tmp_path / "rows.parquet")
    with closing(sqlite3.connect(tmp_path / "rows.db")) as database:
        rows.to_sql("rows", database)
    own = {"delimiter": ";", "decimal": ",", "dates": "day-first", "missing": "--"}
    read = [
        of_node(tmp_path / "rows.csv", **own),
        of_node(tmp_path / "rows.parquet", **own),
        of_node(f"sqlite:///{tmp_path}/rows.db", query="SELECT * FROM rows", **own),
    ]
    for found in read:
        names = [[table.name_of(symbol) for symbol in row] for row in table.encode(found)]
        assert names[0] == ["cost=>= 100", "day=July", "job=clerk"]
        assert names[1] == ["cost=missing", "day=missing", "job=missing"]
        assert "clerk" not in repr(found)


def test_a_public_file_of_another_dialect_keeps_the_tables_sentinels(tmp_path):
    """Nodes' -999 are missing: so is the reference's."""
    table = Table({"income": Binned([0])}, dialect=Dialect(sentinels={"income": ["-999"]}))
    file = tmp_path / "public.csv"
    file.write_text("income;job\n-999;nurse\n5;clerk\n")
    reference = Reference.from_csv(file, table, dialect=Dialect(";"))
    assert reference.columns["income"].unlisted == {"missing": 0.5}
