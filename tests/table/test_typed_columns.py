"""Whatever type a loader gives a column, each record has the symbol that its own text has.

Loaders that infer types give a column another one where a single record is odd. Each test compares
with the list of texts, so the record is odd in half of the examples and changes no other symbol.
"""

import io
import warnings
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.csv
import pytest
from hypothesis import given
from hypothesis import strategies as st

from flwr_kld.table.base import Domain
from flwr_kld.table.binned import Binned
from flwr_kld.table.dialect import Dialect
from flwr_kld.table.labels import Labels
from flwr_kld.table.records import as_column
from flwr_kld.table.table import Table
from flwr_kld.table.times import Times

WHOLE = ["0", "1", "2", "01", "007", "1.0", "2.00", "+1", "1e0", "-3", "-0"]
REAL = [*WHOLE, "0.5", ".50", "1e-3", "-2.75", "1e22", "inf"]
TRUTH = ["true", "false", "True", "FALSE"]
DAYS = ["20240131", "20231201", "20240131.0", "20240230", "2024"]
TIMES = ["2024-01-31", "2023-12-01", "2024-01-31T05:00:00", "1960-02-29 23:59:59"]
ODD = [
    "x", "?", "1e400", "9" * 30, "1_000", "yes", "-inf", "true", "2.5", "2024-13-01",
    "20240131", "2024-01-31", "1,5", "१", "1" * 5000, " 1", "12:30", "-", "Infinity", "b'1'",
]  # fmt: skip
CASES: list[tuple[Domain, list[str]]] = [
    (Labels(["0", "1", "2", "7", "-3"]), WHOLE),
    (Labels([0, 1, 2, 7, -3]), WHOLE),
    (Labels(["00", "1.0", "02", "007", "-3.0"]), WHOLE),
    (Labels(["0.50", "1", "-2.75", "1e22"]), REAL),
    (Binned([-2.75, 0, 0.5, 1]), REAL),
    (Labels(["False", "True"]), TRUTH),
    (Labels(["true", "false"]), TRUTH),
    (Labels([0, 1]), TRUTH),
    (Binned([0.5]), TRUTH),
    (Times("month"), DAYS),
    (Times("hour"), TIMES),
    (Times(["2024-01-31"]), [*DAYS, *TIMES]),
]


def csv_of(texts: list[str]) -> io.BytesIO:
    return io.BytesIO("\n".join(["v", *(f'"{text}"' for text in texts), ""]).encode())


LOADERS = {
    "pandas": lambda texts: pd.read_csv(csv_of(texts))["v"],
    "pandas nullable": lambda texts: pd.read_csv(csv_of(texts), dtype_backend="pyarrow")["v"],
    "polars": lambda texts: pl.read_csv(
        csv_of(texts), infer_schema_length=None, try_parse_dates=True
    )["v"],
    "pyarrow": lambda texts: pyarrow.csv.read_csv(csv_of(texts))["v"],
    "numpy": lambda texts: np.array([typed(text) for text in texts]),
    "list": lambda texts: [typed(text) for text in texts],
    "bytes": lambda texts: [text.encode() for text in texts],
    "category": lambda texts: pd.Series([typed(text) for text in texts], dtype="category"),
    "objects": lambda texts: pd.Series([typed(text) for text in texts], dtype=object),
}


def typed(text: str) -> Any:
    """What a careful parser makes of a text."""
    for read in (int, float, Decimal):
        try:
            return read(text)
        except (ValueError, ArithmeticError):
            pass
    return {"true": True, "false": False}.get(text.lower(), text)


@pytest.mark.parametrize(("domain", "usual"), CASES, ids=repr)
@given(data=st.data())
def test_a_typed_column_is_read_as_its_texts(domain, usual, data):
    texts = data.draw(st.lists(st.sampled_from(usual), min_size=1, max_size=6))
    if data.draw(st.booleans()):
        texts.insert(data.draw(st.integers(0, len(texts))), data.draw(st.sampled_from(ODD)))
    wanted = domain.encode(texts).tolist()
    for name, load in LOADERS.items():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # pandas': two types in a column
            try:
                column = load(texts)
            except (pl.exceptions.ComputeError, pa.ArrowException, OverflowError):
                continue  # a loader that raises is not one to use: see the threat model
        assert domain.encode(column).tolist() == wanted, name


@pytest.mark.parametrize(("dtype", "digits"), [(np.float32, 6), (np.float16, 3)])
@given(data=st.data())
def test_a_float_of_less_precision_is_the_decimal_that_it_stands_for(dtype, digits, data):
    """As are those of Parquet files: .7 of 32 bits is below .7."""
    places = st.integers(-20, 20) if dtype is np.float32 else st.integers(-4, 1)
    decimal = st.builds("{}e{}".format, st.integers(-(10**digits) + 1, 10**digits - 1), places)
    texts = data.draw(st.lists(decimal, min_size=1, max_size=5))
    numbers = [float(text) for text in texts]
    domain = Binned(sorted({number + 0.0 for number in numbers}))
    labels = Labels(list(dict.fromkeys(texts)))
    short = np.array(numbers, dtype)
    columns = [short, list(short), pd.Series(short), pa.array(short), np.ma.array(short)]
    for column in columns:
        np.testing.assert_array_equal(domain.encode(column), domain.encode(texts))
        np.testing.assert_array_equal(labels.encode(column), labels.encode(numbers))
    table = Table({"x": Binned([0])}, dialect=Dialect(sentinels={"x": texts[:1]}))
    assert table.encode({"x": short})[0].tolist() == [2]


def test_a_float_of_less_precision_keeps_what_is_no_short_decimal():
    odd = [np.inf, -np.inf, np.nan, 16777216, 3.4e38, 1e-45, -0.0, 1 / 3]
    found = as_column(np.array(odd, np.float32))
    np.testing.assert_array_equal(found.astype(np.float32), np.array(odd, np.float32))
    assert found.dtype == np.float64
    assert found[-1] == np.float32(1 / 3)
