"""Public rows and nodes' rows from files and databases: one door, and what it says when shut."""

import re
import sqlite3
from contextlib import closing
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from clients.test_node_records import context

from flwr_kld import Binned, Dialect, Labels, Reference, Table, Times
from flwr_kld.clients import node_records
from flwr_kld.common.errors import DomainError, QueryRefused
from flwr_kld.simulations import simulate
from flwr_kld.strategies import KLDrift, Statistics, Trusted
from flwr_kld.table.blind import blind_columns
from flwr_kld.table.frame import TextFile
from flwr_kld.table.texts import numbers_of

RNG = np.random.default_rng(3)
ROWS = pd.DataFrame({"age": RNG.integers(18, 90, 800), "job": RNG.choice(["nurse", "clerk"], 800)})


@pytest.fixture
def folder(tmp_path):
    ROWS.to_csv(tmp_path / "rows.csv", index=False)
    ROWS.to_csv(tmp_path / "ROWS.CSV.GZ", index=False, compression="gzip")
    ROWS.to_parquet(tmp_path / "rows.parquet", index=False)
    (tmp_path / "spark.parquet").mkdir()
    (tmp_path / "spark.parquet" / "_SUCCESS").touch()
    for part in range(4):
        file = tmp_path / f"spark.parquet/part-{part:05}.parquet"
        ROWS[part * 200 : part * 200 + 200].to_parquet(file, index=False)
    with closing(sqlite3.connect(tmp_path / "rows.db")) as database:
        ROWS.to_sql("people", database, index=False)
    return tmp_path


def test_rows_are_the_same_through_every_door_and_on_both_sides(folder):
    usual = Reference.from_frame(ROWS)
    query = "SELECT age, job FROM people"
    (folder / "spark.parquet").rename(folder / "parts")  # a folder of any name
    places = dict.fromkeys(("rows.csv", "ROWS.CSV.GZ", "rows.parquet", "parts"))
    for name, asked in {**places, f"sqlite:///{folder}/rows.db": query}.items():
        place = name if asked else folder / name
        reference = Reference.from_file(place, query=asked)
        assert reference.domain.features == usual.domain.features
        np.testing.assert_array_equal(reference.probabilities, usual.probabilities)
        named = {"drift_records": place} | ({"drift_query": asked} if asked else {})
        same = Reference.from_samples(usual.domain, node_records(context(**named)))
        np.testing.assert_array_equal(same.probabilities, usual.probabilities)


SHUT = {
    "rowz.csv": "did you mean rows.csv|No such file",
    "rows.txt": "ends? in.*csv",
    "rows.feather": "ends? in.*csv",
    "rows.csv.bz2": "ends? in.*gz",
    "rows.db": "give its URL, sqlite:",
    "spark.parquet/_SUCCESS": "ends? in",
    "plain.csv.gz": r"not a whole \.gz file",
    "cut.csv.gz": r"not a whole \.gz file",
    "text.parquet": "not a Parquet file",
    "cut.parquet": "not a Parquet file",
    "parquet.csv": "not utf-8 text|not a header",
    "utf16.csv": "name its encoding",
    "empty.csv": "write a header",
    "sep.csv": "delete it",
    "comment.csv": "delete it",
    "twice.csv": "two columns have the name 'age'",
    "empty": "no Parquet files",
    "odd.parquet": "write them alike",
    "s3://bucket/rows.csv": "copy it here",
    "https://example.org/rows.csv": "copy it here",
    "file:///srv/rows.csv": "give the file's path, /srv/rows.csv",
    "duckdb:///rows.db ?SELECT 1": "use one of sqlite",
    "postgres://localhost/x ?SELECT 1": "use one of sqlite",
    "sqlite:///{}/rows.db": "needs a query",
    "sqlite:///{}/none.db ?SELECT * FROM people": "there is no file|No such file",
    "sqlite:///{}/rows.db ?SELECT * FROM persons": "no such table|that is not there",
    "sqlite:///{}/rows.csv ?SELECT * FROM people": "not a database|not an SQLite database",
    "sqlite:///{}/rows.db ?DELETE FROM people": "readonly|only to select",
    "sqlite:///{}/rows.db ?SELECT age, age FROM people": "two columns",
}
"""Places and queries, and what is said of them: of public rows, or in a node's log."""


@pytest.fixture
def shut(folder):
    text, parquet = (folder / "rows.csv").read_bytes(), (folder / "rows.parquet").read_bytes()
    for name, content in {
        "rows.txt": text, "rows.feather": text, "rows.csv.bz2": text, "plain.csv.gz": text,
        "cut.csv.gz": (folder / "ROWS.CSV.GZ").read_bytes()[:200], "text.parquet": text,
        "cut.parquet": parquet[:400], "parquet.csv": parquet, "empty.csv": b"",
        "utf16.csv": text.decode().encode("utf-16"), "sep.csv": b"sep=;\n" + text,
        "comment.csv": b"# made by X\n" + text, "twice.csv": b"age,age\n1,2\n",
    }.items():  # fmt: skip
        (folder / name).write_bytes(content)
    (folder / "empty").mkdir()
    (folder / "odd.parquet").mkdir()
    for part, names in enumerate((["age"], ["job"])):
        ROWS[names].to_parquet(folder / f"odd.parquet/{part}.parquet", index=False)
    return folder


@pytest.mark.parametrize("told", SHUT)
def test_a_door_that_is_shut_says_why_and_what_to_do(shut, caplog, told):
    place, _, query = told.partition(" ?")
    place = place.format(shut) if "://" in place else str(shut / place)
    table = Reference.from_frame(ROWS).domain
    with pytest.raises((ValueError, FileNotFoundError), match=SHUT[told]):
        Reference.from_file(place, table, query=query or None)
    with pytest.raises(QueryRefused, match="log"):
        table.encode(
            node_records(context(drift_records=place, **({"drift_query": query} if query else {})))
        )
    assert re.search(SHUT[told], caplog.text)
    assert not (shut / "none.db").exists()


def test_a_column_that_is_not_there_is_sought_among_those_that_are(folder):
    table = Reference.from_frame(ROWS).domain
    ROWS.rename(columns=str.upper).to_csv(folder / "upper.csv", index=False)
    ROWS.to_csv(folder / "bars.csv", index=False, sep="|")
    for file, words in (("upper.csv", "'AGE'"), ("bars.csv", r"divided at '\|'.*delimiter")):
        with pytest.raises(DomainError, match=words):
            table.encode(node_records(context(drift_records=folder / file)))
    with pytest.raises(DomainError, match="'age'"):
        Reference.from_file(folder / "rows.csv", Table({"ward": ["icu"]}))
    (folder / "head.csv").write_text("age,job\n")
    with pytest.raises(ValueError, match="rows"):
        Reference.from_file(folder / "head.csv", table)
    (folder / "bare.csv").write_text((folder / "rows.csv").read_text().partition("\n")[2])
    with pytest.raises(DomainError, match="out"):
        Reference.from_file(folder / "rows.csv", table, query="SELECT 1")
    with pytest.raises(DomainError, match="2 others"):  # whose names are a record
        table.encode(node_records(context(drift_records=folder / "bare.csv")))


@pytest.mark.parametrize(
    ("header", "row"), [(b"\r\n", b"\n"), (b"\n", b"\r"), (b"\r", b"\n")], ids=repr
)
def test_line_ends_that_are_not_the_headers_are_said(folder, caplog, header, row):
    lines = (folder / "rows.csv").read_bytes().splitlines()
    (folder / "mixed.csv").write_bytes(lines[0] + header + row.join([*lines[1:], b""]))
    table = Reference.from_frame(ROWS).domain
    with pytest.raises(DomainError, match="line"):
        Reference.from_file(folder / "mixed.csv", table)
    assert len(table.encode(node_records(context(drift_records=folder / "mixed.csv")))) <= 2
    assert "drift-line-end" in caplog.text


def test_lines_end_in_lf_if_a_dialect_or_the_node_config_says_so(folder, caplog):
    """A header that Windows wrote over rows of another system: whatever a record holds."""
    lines = (folder / "rows.csv").read_bytes().splitlines()
    usual = Reference.from_frame(ROWS)

    def counted(rows):
        (folder / "mixed.csv").write_bytes(lines[0] + b"\r\n" + b"\n".join([*rows, b""]))
        told = context(drift_records=folder / "mixed.csv", drift_line_end="lf")
        return usual.domain.encode(node_records(told))

    symbols = counted(lines[1:])
    np.testing.assert_array_equal(symbols, usual.domain.encode(ROWS))
    assert Reference.from_file(folder / "mixed.csv").domain.dialect.line_end == "lf"
    assert "line end" not in caplog.text
    others = np.arange(800) != 77
    for odd in (b"", b'"', b"\r", b"20,nurse\r", b"\r20\r,\r\r", b'"\r', b'20,"a\rb', b"\xff,,"):
        np.testing.assert_array_equal(
            counted([*lines[1:78], odd, *lines[79:]])[others], symbols[others]
        )


@pytest.mark.parametrize("names", [[0, "b"], [None, "b"], [("a", "x"), ("a", "y")], [" ", "b"]])
def test_names_that_are_no_text_are_refused_with_a_sentence(names):
    frame = ROWS.set_axis(pd.Index(names, tupleize_cols=False), axis=1)
    for make in (Reference.from_frame, Table.from_frame):
        with pytest.raises(DomainError, match="name"):
            make(frame)


WARDS = ["Surgery", "ICU", "Day ward"] * 200


@pytest.mark.parametrize("door", ["frame", "samples", "file", "column"])
def test_a_column_that_is_all_other_is_refused_with_labels_seen(tmp_path, door):
    labels = Labels(["surgery", "icu"])
    table, rows = Table({"ward": labels, "n": Labels(["1"])}), {"ward": WARDS, "n": ["1"] * 600}
    pd.DataFrame(rows).to_csv(tmp_path / "rows.csv", index=False)
    make = {
        "frame": lambda **more: Reference.from_frame(table, rows, **more),
        "samples": lambda **more: Reference.from_samples(table, rows, **more),
        "file": lambda **more: Reference.from_file(tmp_path / "rows.csv", table, **more),
        "column": lambda **more: Reference.from_samples(labels, WARDS, **more),
    }[door]
    with pytest.raises(DomainError, match="allow_unlisted"):
        make()
    assert make(allow_unlisted=True).unlisted


def test_a_column_that_is_nearly_empty_is_not_blind():
    rows = {"note": [None] * 95 + ["a", "b", "a", "b", "a"], "none": [None] * 100}
    assert Reference.from_frame(rows).unlisted
    with pytest.raises(DomainError, match="'note'"):
        Reference.from_frame(Table({"note": Labels(["x"])}), {"note": [None] * 100})


def test_a_blind_column_is_found_by_its_symbols_alone():
    table = Table({"ward": ["surgery"], "job": ["nurse"]})
    symbols = table.encode({"ward": WARDS, "job": ["nurse"] * 600})
    assert blind_columns(table, symbols) == ["ward"]
    assert blind_columns(table, symbols[:99]) == []  # of few records nothing is said


def test_a_node_whose_column_is_blind_says_so_in_its_own_log(caplog):
    """Once a process: of a name that no other test has."""
    table = Table({"station": ["Surgery", "ICU"], "job": ["nurse"]})
    rows = {"station": ["Surgery", "ICU"] * 300, "job": ["nurse"] * 600}
    monitor = KLDrift(Reference.from_frame(table, rows), Trusted(1.0, 1e-6))
    simulate(monitor, [pd.DataFrame(rows), pd.DataFrame({**rows, "station": ["icu"] * 600})])
    said = [record.getMessage() for record in caplog.records if "doctor --data" in record.message]
    assert len(said) == 1
    assert "'station'" in said[0]
    assert "icu" not in said[0]


@pytest.mark.noise(1)
@pytest.mark.parametrize(("nodes", "blind"), [(1, False), (10, True)])
def test_a_report_says_which_columns_are_blind_and_what_a_blind_node_does(nodes, blind):
    """Of pooled counts, which are released anyway: few blind nodes are their share of 'other'."""
    table = Table({"ward": ["Surgery", "ICU"], "age": Binned([40.0, 60.0])})
    rows = {"ward": ["Surgery", "ICU"] * 300, "age": [30.0, 50.0, 70.0] * 200}
    monitor = KLDrift(Reference.from_frame(table, rows), Trusted(10.0, 1e-6), threshold=0.05)
    odd = pd.DataFrame({"ward": ["icu"] * 600, "age": ["30,5"] * 600})
    report = simulate(monitor, [odd] * nodes + [pd.DataFrame(rows)] * (10 - nodes))
    for name, way in (("ward", "other"), ("age", "missing")):
        said = report.columns[name].sentence
        assert ("blind, as it lists no value of 100 %" in said) is blind
        assert f"{way}: 0 % → {100 if blind else 10} %" in said
    assert "own log says" in " ".join(str(report).split())


@pytest.mark.parametrize("form", ["list", "dict", "groups"])
def test_frames_are_clients_rows_and_text_is_none(form):
    rows = pd.DataFrame({"job": ["nurse", "clerk"] * 300, "site": list("xyz") * 200})
    groups = rows.groupby("site")
    held = {"list": [g for _, g in groups], "dict": dict(list(groups)), "groups": groups}[form]
    question = Statistics(Table({"job": ["nurse", "clerk"]}), Trusted(10.0, 1e-6))
    report = simulate(question, held)
    assert report.cohort.survivors == 3
    assert sum(report.columns["job"].counts.values[:2]) == pytest.approx(600, abs=30)
    with pytest.raises(ValueError, match="3 frames"):
        simulate(question, held, clients=7)
    for text in ("people.csv", Path("people.csv"), b"people.csv"):
        with pytest.raises(ValueError, match="file"):
            simulate(question, text, clients=3)


_SPELT = (
    "", "0", "-0", "12", "+12", "1.5", "1,5", "1.234", "1,234", "12.34567", "1.234.567",
    "1,234,567", "1234.567", "1234,567", ".5", "5.", ",5", "5,", "1e5", "1E-05", "1,5e3", "1e999",
    "-1e-999", "inf", "nan", "true", " 7 ", "7 %", "$1,000.50", "(3)", "1_000", "٣", "\u22125",
    "0x1f", "1'000", "9" * 20, "9" * 41, "1." + "3" * 20, "2 days 01:00:00", "PT5M", "x", "1.5\n",
    "007", "01.30",
)  # fmt: skip


@pytest.mark.parametrize("decimal", [".", ","])
def test_many_texts_are_the_numbers_that_each_is(decimal):
    dialect = Dialect(decimal=decimal)
    each = np.array([dialect.number(text) for text in _SPELT])
    np.testing.assert_array_equal(numbers_of(pa.array(_SPELT), dialect), each)


@pytest.mark.parametrize("decimal", [".", ","])
def test_a_public_file_that_is_held_has_the_symbols_of_one_that_is_read(tmp_path, decimal):
    file = tmp_path / "public.csv"
    rows = [f'"{text}";{place % 3}' for place, text in enumerate(3 * _SPELT) if "\n" not in text]
    file.write_text("\n".join(["a;b", *rows]), encoding="utf-8")
    own = {"delimiter": ";", "decimal": decimal, "sentinels": {"a": ["12"]}}
    held, read = (TextFile(file, own, public=True) for _ in range(2))
    for domain in (Binned([0, 1, 12, 20]), Labels(["12", "true", "1.5"]), Times("month")):
        table = Table({"a": domain, "b": Labels(["0", "1"])}, dialect=held.dialect)
        assert len(held) == 2
        assert held.is_held
        assert not read.is_held
        np.testing.assert_array_equal(table.encode(held), table.encode(read))
