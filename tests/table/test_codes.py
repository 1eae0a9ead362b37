"""Codes: some by name, the rest by prefix or in buckets that are the same everywhere."""

import subprocess
import sys
import time
import unicodedata

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from flwr_kld import Codes, Table
from flwr_kld.common.errors import DomainError

LONG = ["x" * 10**6, "1 " * 500_000, "9" * 10**6 + "x", " " * 10**6 + "x", "a@" * 500_000]


def named(domain, values):
    return [domain.name_of(symbol) for symbol in domain.encode(values)]


def test_a_code_that_is_not_named_is_in_a_bucket_fixed_for_ever():
    airports = Codes(["ATL", "other"], buckets=16)
    assert named(airports, ["ATL", "ORD", "LHR", "", "é", None, [1], "other"]) == [
        "ATL", "bucket 1 of 16", "bucket 4 of 16", "bucket 1 of 16", "bucket 15 of 16",
        "missing", "(other)", "other",
    ]  # fmt: skip
    assert (airports.size, airports.unlisted) == (20, ("(other)", "missing"))


def test_buckets_are_the_same_in_another_process():
    code = "from flwr_kld import Codes; print(Codes([], 99).encode(['ä', '7', 'ORD']).tolist())"
    output = subprocess.check_output([sys.executable, "-c", code], env={"PYTHONHASHSEED": "1"})
    assert output == f"{Codes([], 99).encode(['ä', '7', 'ORD']).tolist()}\n".encode()


def test_codes_that_begin_alike_are_one():
    icd = Codes(["I21", "A0"], prefix=3)
    assert named(icd, ["I21.4", "I21", "I2", "A0", "A01", "Z99", None]) == [
        "I21…", "I21…", "other", "A0…", "other", "other", "missing",
    ]  # fmt: skip
    both = Codes(["80"], buckets=4, prefix=2)
    assert len(set(both.encode(["10115", "10999", "10"]).tolist())) == 1


@pytest.mark.parametrize(
    "values",
    [
        ["7", "80331", None], [7, 80331, None], [7.0, 80331.0, float("nan")],
        np.array([7, 80331, np.nan]), pd.Series([7, 80331, None], dtype="Int64"),
        pl.Series([7, 80331, None]), pl.Series(["7", "80331", None]), [b"7", b"80331", None],
        pd.Series(["7", "80331", None], dtype="category"),
    ],
    ids=range(9),
)  # fmt: skip
@pytest.mark.parametrize("domain", [Codes(["7"], 9), Codes(["80"], 3, 2)], ids=repr)
def test_a_code_is_read_alike_whatever_type_its_column_has(domain, values):
    assert domain.encode(values).tolist() == domain.encode(["7", "80331", None]).tolist()


@given(st.lists(st.text(), max_size=8), st.integers(1, 40))
def test_every_text_has_a_bucket_of_its_own_choice(texts, buckets):
    domain = Codes([], buckets)
    symbols = domain.encode(texts)
    assert (symbols < buckets).all()
    assert symbols.tolist() == [domain.encode([text])[0] for text in texts]


def test_codes_spread_over_the_buckets():
    """Chi-squared of 10,000 numbered codes in 16 buckets, at 1 in 10,000."""
    counts = np.bincount(Codes([], 16).encode([f"{i:06}" for i in range(10_000)]), minlength=16)
    assert ((counts[:16] - 625) ** 2 / 625).sum() < 44.3


@pytest.mark.parametrize("text", LONG, ids=range(len(LONG)))
@pytest.mark.parametrize("domain", [Codes(["x"], 9), Codes(["x"], 3, 1)], ids=repr)
def test_a_text_of_a_million_characters_is_read_at_once(domain, text):
    """Or its node would answer late, which tells of the record. A slow pattern takes hours."""
    started = time.process_time()
    domain.encode([text])
    assert time.process_time() - started < 5


def test_spellings_of_one_letter_are_different_codes_and_move_no_other():
    names = [unicodedata.normalize(form, "é") for form in ("NFC", "NFD")]
    assert named(Codes(names), names) == names
    assert len(set(Codes(names[:1]).encode(names).tolist())) == 2


def test_several_columns_of_a_table_read_one_of_the_records():
    table = Table(
        {"zip": Codes(["80"], prefix=2), "first": Codes(["8"], prefix=1), "own": ["a"]},
        sources={"first": "zip"},
        interactions=[("zip", "first")],
    )
    rows = {"zip": ["80331", None], "own": ["a", "b"]}
    names = [[table.name_of(symbol) for symbol in row] for row in table.encode(rows)]
    assert names == [
        ["zip=80…", "first=8…", "own=a", "zip=80…, first=8…"],
        ["zip=missing", "first=missing", "own=other", "zip=missing, first=missing"],
    ]  # fmt: skip
    assert (table.encode([{"zip": "80331", "own": "a"}, {"own": "b"}]) == table.encode(rows)).all()
    with pytest.raises(DomainError, match="zip"):
        table.encode({"first": ["80331"], "own": ["a"]})
    with pytest.raises(DomainError, match="'x'"):
        Table({"zip": ["80"]}, sources={"x": "zip"})
