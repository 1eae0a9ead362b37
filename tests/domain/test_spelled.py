"""What a record counts as in a question for labels: its own spelling, and nothing else."""

import math
from datetime import datetime
from decimal import Decimal

import numpy as np
import pytest

from flwr_kld import Dialect, Labels, Table
from flwr_kld.domain.spelled import Spelled
from flwr_kld.domain.tree_code import (
    LENGTHS,
    LONGEST,
    POSITIONS,
    SYMBOLS,
    bytes_told,
    cut,
    encoded,
)
from flwr_kld.query.spelling import Spelling

LABELS = Labels(["nurse", "1"])
FIRST = Spelled(LABELS, "a", 0)
LAST = Spelled(LABELS, "a", POSITIONS - 1)
NONE = SYMBOLS


class Rude:
    """A value that raises whatever is done with it."""

    def __hash__(self):
        raise RuntimeError("secret")

    def __eq__(self, other):
        raise RuntimeError("secret")

    def __str__(self):
        raise RuntimeError("secret")


LISTED = ["nurse", "1", 1, 1.0, True, b"nurse", "01"]
MISSING = [None, math.nan, np.datetime64("NaT"), np.ma.masked]
TEXTLESS = ["", Rude(), datetime(2024, 1, 1), [], {}, object(), 1 + 2j, "\0"]
ODD = [10**5000, "x" * 10**6, "\ud800", "a\0b", "\n", b"\xff", Decimal("0.1"), -0.0, math.inf]


@pytest.mark.parametrize("value", [*LISTED, *MISSING, *TEXTLESS])
def test_what_is_listed_or_missing_or_has_no_text_is_in_no_cell(value):
    assert FIRST.encode(["baker", value, "baker"])[1] == NONE


@pytest.mark.parametrize("odd", [*LISTED, *MISSING, *TEXTLESS, *ODD], ids=lambda v: repr(type(v)))
def test_one_odd_record_changes_its_own_symbol_only(odd):
    """In every histogram."""
    for domain in (FIRST, LAST):
        usual = domain.encode(["baker", "baker", 7, "nurse"])
        found = domain.encode(["baker", odd, 7, "nurse"])
        assert domain.holds(found)
        assert np.delete(found, 1).tolist() == np.delete(usual, 1).tolist()


def test_a_label_is_told_by_its_text_however_a_column_holds_it():
    """A whole number is written alike whatever its type, a text as it is spelt."""
    assert len({*LAST.encode([7, 7.0, "7", np.int8(7), b"7"]).tolist()}) == 1
    assert len({*LAST.encode(["7", "7.0", "07", " 7", "Ü", "u"]).tolist()}) > 4
    assert LAST.encode(np.array([7.0, 1.0, np.nan])).tolist()[1:] == [NONE, NONE]
    assert LAST.encode(np.array([7, 7], dtype=np.int32))[0] == LAST.encode(["7"])[0]
    assert len({*LAST.encode(["cook", "cook\0", b"cook\0\0"]).tolist()}) == 1
    assert LAST.encode([]).shape == (0,)


def test_a_file_is_read_as_the_table_reads_it(tmp_path):
    """Its own missing texts, and the column that the feature reads."""
    table = Table(
        {"job": ["nurse"], "age": ["1"]},
        dialect=Dialect(sentinels={"work": ["??"]}),
        sources={"job": "work"},
    )
    asked = Spelling("job", "s").over(table)
    symbols = asked.encode({"work": ["baker", "nurse", "??", "NA"], "age": ["1"] * 4})
    first = symbols[:, 0]
    assert symbols.shape == (4, POSITIONS)
    assert first[0] == encoded([b"baker"], "s", 0)[0]
    assert first[1:].tolist() == [NONE] * 3


@pytest.mark.parametrize(
    ("text", "bytes_of"),
    [
        ("x" * 41, b"x" * LONGEST),
        ("é" * 21, "é".encode() * 20),
        ("x" + "é" * 20, b"x" + "é".encode() * 19),
        ("\ud800", b"?"),
    ],
)
def test_a_long_text_is_cut_between_two_characters(text, bytes_of):
    assert cut(text) == bytes_of


def test_each_histogram_tells_of_as_many_bytes_or_more_as_the_one_before():
    """At most one more: the search lengthens beginnings byte by byte."""
    for length in LENGTHS:
        told = bytes_told(length)
        assert told[-1] == length
        assert set(np.diff([0, *told]).tolist()) <= {0, 1}


def test_cells_are_even_and_differ_between_salts_and_histograms():
    texts = [str(i).encode() for i in range(51200)]
    cells = encoded(texts, "a", 60)
    assert np.bincount(cells, minlength=SYMBOLS).std() < 20  # 200 in each, ± 14
    for other in (encoded(texts, "b", 60), encoded(texts, "a", 61)):
        assert 100 < (cells == other).sum() < 300


def test_the_first_bytes_decide_the_first_cells():
    """Of texts that are filled up to the same length."""
    for place, told in enumerate(bytes_told(8)):
        one, other = encoded([b"bakers", b"baker"], "a", place)
        assert (one == other) or told > 5


def test_a_name_of_a_cell():
    assert [FIRST.name_of(s) for s in (3, SYMBOLS)] == ["cell 3", "listed, missing or no text"]
