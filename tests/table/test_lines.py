"""Blocks of lines: as the rule for one line and one text reads them, each by itself."""

from contextlib import contextmanager

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from examples import examples
from flwr_kld import Binned, Dialect, Domain, Labels, Table, Times
from flwr_kld.common.errors import DomainError
from flwr_kld.table import lines
from flwr_kld.table.frame import TextFile


class Lengths(Domain):
    """A domain of a user's own: texts of fewer than three characters, others, and none."""

    kind = "test lengths"
    size = 3

    def encode(self, records):
        return np.array([2 if r is None else int(len(r) >= 3) for r in records], dtype=np.int64)

    def name_of(self, symbol):
        return str(symbol)

    def spec(self):
        return {"kind": self.kind, "version": self.version}


DOMAINS = {
    "number": Binned([-999.0, 0.0, 1.0, 1.5, 2.0, 1000.0]),
    "hour": Times("hour"),
    "day": Times(["2024-01-01", "2024-01-31"]),
    "label": Labels(["1", "x", "NA", "é", 'a"b']),
    "length": Lengths(),
    "many": Binned(np.arange(100.0).tolist()),
}
DIALECTS = [
    Dialect(),
    Dialect(sentinels={"number": ["-999", "1"], "many": ["1.0"], "hour": ["2024-01-31"]}),
    Dialect(";", "latin-1", ",", "day-first", missing=["", "-9,9"]),
    Dialect("\t", "cp1252", ".", "month-first"),
    Dialect("|", "utf-8", ",", "iso"),
    Dialect(line_end="lf"),  # below a header that ends in CR LF
]
ENDS = [b"\n", b"\r\n", b"\r"]
USUAL = [b"1", b"-1.5", b"20", b"x", b"2024-01-31", b"2024-01-31T05:06:07", b"", b"0,5"]
ODD = [
    b" ", b"NA", b"nan", b"-999", b"-999.0", b"-9,9", b"+1", b"-+1", b" 1 ", b"1_000", b"inf",
    b"-Infinity", b"nan(1)", b"1e400", b"1e-400", b"5.", b".5", b",5", b"5,", b".", b"-", b"1e",
    b"1,5", b"1.5", b"1.234,5", b"1,234.5", b"1'000", b"$3", b"12 %", b"true", b"0x10", b"007",
    b"9" * 65, b"0." + b"9" * 70, b"x" * 200, "١٢".encode(), "\u00a01".encode(), "é".encode(),
    b"\xff", b"\xe91", b"1\0", b"\0", b"\xef\xbb\xbf", b"\xef\xbb\xbf1", b"\xe2\x80\xa8",
    b"2024-01-31 05:06", b"2024-01-31 24:00", b"2024-01-31 05:06:07.123456", b"2024-01-31 05",
    b"2024-01-31 05:06:07.1234567", b"2024-01-31T05:06Z", b"2024-1-31", b"2024-02-30", b"20240131",
    b"0000-01-01", b"0001-01-01", b"9999-12-31", b"31.12.2024", b"31/01/2024 5:06 PM", b"2024",
    b"Jan 31, 2024", b"2024-W01-1", b"12024-01-01",
]  # fmt: skip
BROKEN = [
    b'"', b'""', b'"""', b'""""', b'"a', b'a"', b'a"b', b'"a"b', b'"a""b"', b'"a"" ', b' "a"',
    b'"1"', b'"1,5"', b'"a,b', b'b"', b"\r", b"\n", b"1\r", b"\r1", b"1\n", b"\r\r\n", b"\n\r",
]  # fmt: skip


@contextmanager
def blocks_of(size, longest):
    usual, (lines._BLOCK, lines._LONGEST) = (lines._BLOCK, lines._LONGEST), (size, longest)
    try:
        yield
    finally:
        lines._BLOCK, lines._LONGEST = usual


def length_of(line, dialect):
    """Bytes in UTF-8; what is not UTF-8 counts as it stands."""
    decoded = line if dialect.encoding == "utf-8" else line.decode(dialect.encoding, "replace")
    return len(decoded if isinstance(decoded, bytes) else decoded.encode())


def fields_of(line, dialect, width):
    """What the rule makes of one line."""
    (row,) = dialect.rows([line.decode(dialect.encoding, "replace")])
    return [text or None for text in [*row, *[""] * width][:width]]


def by_rule(records, dialect):
    """The rule, one text after the other: the oracle."""
    rows = [fields_of(line, dialect, len(DOMAINS)) for line in records]
    table = Table(DOMAINS, dialect=dialect)
    each = [table.encode({name: [row[i]] for i, name in enumerate(DOMAINS)}) for row in rows]
    return rows, np.array(each, dtype=np.int64).reshape(len(rows), len(DOMAINS))


@st.composite
def files(draw):
    dialect = draw(st.sampled_from(DIALECTS))
    end = b"\n" if dialect.line_end == "lf" else draw(st.sampled_from(ENDS))
    delimiter = dialect.delimiter.encode()
    value = st.sampled_from(USUAL) | st.sampled_from(ODD)
    quoted = value.map(lambda text: b'"' + text.replace(b'"', b'""') + b'"')
    usual = st.lists(value, min_size=len(DOMAINS), max_size=len(DOMAINS)).map(delimiter.join)
    some = value | quoted | st.sampled_from(BROKEN) | st.just(b'"a' + delimiter + b'b"')
    odd = st.lists(some, max_size=len(DOMAINS) + 2).map(delimiter.join)
    of_six = st.lists(some, min_size=len(DOMAINS), max_size=len(DOMAINS)).map(delimiter.join)
    line = usual | of_six | odd | st.binary(max_size=12)
    records = draw(st.lists(line, max_size=12))
    records = [record.replace(end, b"") for record in records]
    if end == b"\r":
        records = [record.lstrip(b"\n") for record in records]  # else CR and LF end the header
    return dialect, end, records


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("rows")


@given(files(), st.integers(1, 100), st.sampled_from([300, 400, 1 << 26]))
@settings(max_examples=examples(300))
def test_blocks_are_read_as_each_line_and_text_by_itself(folder, file, size, longest):
    dialect, end, records = file
    path = folder / "rows.csv"
    head = dialect.delimiter.join(DOMAINS).encode() + b"\r" * (dialect.line_end == "lf")
    path.write_bytes(end.join([head, *records, b""]))
    short = [line if length_of(line, dialect) <= longest else b"" for line in records]
    rows, symbols = by_rule(short, dialect)
    with blocks_of(size, longest):
        text = TextFile(path, dialect=dialect)
        found = Table(DOMAINS, dialect=dialect).encode(text)
        np.testing.assert_array_equal(found, symbols)
        assert [list(row) for row in zip(*text.values(), strict=True)] == rows
    columns = list(zip(*rows, strict=True)) or [()] * len(DOMAINS)
    for kind in (pa.string(), pa.large_string()):
        held = {n: pa.array(own, kind) for n, own in zip(DOMAINS, columns, strict=True)}
        in_two = pa.concat_tables([pa.table(held).slice(0, 3), pa.table(held).slice(3)])
        np.testing.assert_array_equal(Table(DOMAINS, dialect=dialect).encode(in_two), symbols)


@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("length", [299, 300, 301, 302, 303, 599, 1000])
@pytest.mark.parametrize("last", [False, True])
def test_a_line_that_is_too_long_is_a_record_of_missing_values(folder, end, length, last):
    path = folder / "long.csv"
    records = [b"1,x", b"x" * (length - 2) + b",1"] + [b"2,x"] * (not last)
    path.write_bytes(end.join([b"number,label", *records]))
    fits = length <= 300
    expected = ["1", "x" * (length - 2) if fits else None] + ["2"] * (not last)
    for size in range(1, 100, 7):
        with blocks_of(size, 300):
            assert TextFile(path)["number"] == expected
            if not fits:
                with pytest.raises(DomainError, match="longer"):
                    TextFile(path, public=True)["number"]
