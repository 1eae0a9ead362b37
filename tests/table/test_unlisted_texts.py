"""What a record answers to a question for labels: its own text, and nothing else."""

import math
from datetime import datetime
from decimal import Decimal

import numpy as np
import pytest

from flwr_kld import Dialect, Labels, Table
from flwr_kld.ask.unlisted_labels import UnlistedLabels
from flwr_kld.kernel.selection import LONGEST
from flwr_kld.table.unlisted_texts import UnlistedTexts

LABELS = Labels(["nurse", "1"])
TEXTS = UnlistedTexts(LABELS)


def told(records, domain=TEXTS):
    """Return the text of each record, empty for what has none."""
    return np.ascontiguousarray(domain.encode(records)).view(f"S{LONGEST}").reshape(-1).tolist()


class Rude:
    """A value that raises whatever is done with it."""

    def __hash__(self):
        raise RuntimeError("secret")

    def __eq__(self, other):
        raise RuntimeError("secret")

    def __str__(self):
        raise RuntimeError("secret")


LISTED = ["nurse", "1", 1, 1.0, True, b"nurse", "01"]
MISSING = [None, math.nan, np.datetime64("NaT", "us"), np.ma.masked]
TEXTLESS = ["", Rude(), datetime(2024, 1, 1), [], {}, object(), 1 + 2j, "\0"]
ODD = [10**5000, "x" * 10**6, "\ud800", "a\0b", "\n", b"\xff", Decimal("0.1"), -0.0, math.inf]


@pytest.mark.parametrize("value", [*LISTED, *MISSING, *TEXTLESS])
def test_what_is_listed_or_missing_or_has_no_text_answers_nothing(value):
    assert told(["baker", value, "baker"])[1] == b""


@pytest.mark.parametrize("odd", [*LISTED, *MISSING, *TEXTLESS, *ODD], ids=lambda v: repr(type(v)))
def test_one_odd_record_changes_its_own_text_only(odd):
    texts = told(["baker", odd, 7, "nurse"])
    assert [*texts[:1], *texts[2:]] == [b"baker", b"7", b""]


def test_a_label_is_sent_as_its_text_however_a_column_holds_it():
    """A whole number is written alike whatever its type, a text as it is spelt."""
    assert set(told([7, 7.0, "7", np.int8(7), b"7"])) == {b"7"}
    spelt = ["7", "7.0", "07", " 7", "Ü", "u"]
    assert told(spelt) == [text.encode() for text in spelt]
    assert told(np.array([7.0, 1.0, np.nan])) == [b"7", b"", b""]
    assert told(np.array([7, 7], dtype=np.int32)) == [b"7", b"7"]
    assert set(told(["cook", "cook\0", b"cook\0\0"])) == {b"cook"}
    assert told([]) == []


def test_a_file_is_read_as_the_table_reads_it():
    """Its own missing texts, and the column that the feature reads."""
    table = Table(
        {"job": ["nurse"], "age": ["1"]},
        dialect=Dialect(sentinels={"work": ["??"]}),
        sources={"job": "work"},
    )
    asked = UnlistedLabels("job").over(table)
    rows = {"work": ["baker", "nurse", "??", "NA"], "age": ["1"] * 4}
    assert told(rows, asked) == [b"baker", b"", b"", b""]


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
    assert told([text]) == [bytes_of]
