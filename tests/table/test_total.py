"""Any record has a symbol, and none changes another's: refusals and columns' types would tell."""

import datetime
import enum
import fractions
import warnings
from decimal import Decimal
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from flwr_kld.common.errors import DomainError
from flwr_kld.table.base import Domain
from flwr_kld.table.binned import Binned
from flwr_kld.table.categories import Categories
from flwr_kld.table.codes import Codes
from flwr_kld.table.labels import Labels
from flwr_kld.table.times import Times

COLOURS = Labels(["red", "green", "7", "-3"])
NUMBERS = Labels([7, -3, 0, 2**62])
BINS = Binned([-1.5, 0, 7])
TRUTH = Labels(["True", "False"])
DAYS = Times("weekday")
YEARS = Times(["2024-01-01", "2025-06-30T12:00"])
CODES = Codes(["red", "7"], buckets=5)
STARTS = Codes(["re", "-3"], prefix=2)
ALL = [COLOURS, NUMBERS, BINS, TRUTH, DAYS, YEARS, CODES, STARTS]


class _Hostile:
    """Raises at whatever is done with it."""

    def __eq__(self, other: object) -> bool:
        raise RuntimeError("eq")

    def __hash__(self) -> int:
        return hash("red")

    def __float__(self) -> float:
        raise RuntimeError("float")

    def __bool__(self) -> bool:
        raise RuntimeError("bool")


class _Infinite(_Hostile):
    def __float__(self) -> float:
        raise OverflowError

    def __gt__(self, other: object) -> bool:
        raise RuntimeError("gt")


class _Classless(_Hostile):
    @property
    def __class__(self) -> Any:
        raise RuntimeError("class")


class _OddFloat(float):
    def __ne__(self, other: object) -> bool:
        raise RuntimeError("ne")

    def __hash__(self) -> int:
        raise RuntimeError("hash")


class NAType:
    """Stands for pandas.NA, whose truth is not known."""

    def __eq__(self, other: object) -> bool:
        raise TypeError("boolean value of NA is ambiguous")

    __hash__ = object.__hash__


class _Names(enum.StrEnum):
    RED = "red"


ODD: list[Any] = [
    np.str_("red"), np.int8(-3), np.uint64(2**64 - 1), np.float16(7), np.longdouble(1) / 3,
    np.float32("nan"), np.complex64(7), np.datetime64("NaT", "s"), np.datetime64("2024-01-01"),
    np.timedelta64(7, "s"), np.timedelta64("NaT", "s"), np.bool_(True), np.ma.masked,
    np.array(7), np.array([7]), np.array([[1, 2], [3, 4]]), np.array([], dtype="U1"),
    _Hostile(), _Infinite(), _Classless(), _OddFloat(7), _OddFloat("nan"), NAType(), _Names.RED,
    Decimal("sNaN"), Decimal("1e999999"), Decimal(7), fractions.Fraction(10**400, 3),
    object(), int, len, b"red", bytearray(b"7"), "red\0", "\ud800", "1" * 5000,
    np.datetime64(2**62, "Y"), datetime.date(1, 1, 1), datetime.time(3), b"2024-01-01",
    "2024-02-30",
    datetime.datetime(9999, 12, 31, tzinfo=datetime.timezone(datetime.timedelta(hours=-23))),
]  # fmt: skip

WILD: st.SearchStrategy[Any] = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.integers(-(10**400), 10**400),
    st.floats(),
    st.complex_numbers(),
    st.text(max_size=4),
    st.binary(max_size=4),
    st.decimals(),
    st.fractions(),
    st.datetimes(),
    st.datetimes(timezones=st.timezones()),
    st.dates(),
    st.sampled_from(
        [
            "red",
            "green",
            "7",
            "-3",
            7,
            -3,
            7.0,
            "7.0",
            0,
            -0.0,
            1e300,
            "1e999",
            "nan",
            1e9,
            1e12,
            1e17,
            1e20,
            "no",
            " Ja ",
        ]
    ),
    st.integers(0, len(ODD) - 1).map(lambda i: ODD[i]),  # hypothesis would hash them
    st.recursive(
        st.none() | st.integers() | st.text(max_size=2),
        lambda x: st.lists(x, max_size=3) | st.dictionaries(st.text(max_size=2), x, max_size=2),
        max_leaves=4,
    ),
)


@pytest.mark.parametrize("domain", ALL, ids=repr)
@given(records=st.lists(WILD, max_size=12))
def test_each_record_is_encoded_by_itself_whatever_the_others_are(
    domain: Domain, records: list[Any]
) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        symbols = domain.encode(records)
        alone = [domain.encode([record]).tolist() for record in records]
    assert symbols.dtype == np.int64
    assert symbols.shape == (len(records),)
    assert symbols.tolist() == [symbol for (symbol,) in alone]
    assert all(0 <= symbol < domain.size for symbol in symbols)


@pytest.mark.parametrize("domain", ALL, ids=repr)
@given(records=st.lists(WILD, max_size=12))
def test_an_array_of_objects_is_read_as_a_list_is(domain: Domain, records: list[Any]) -> None:
    column = np.empty(len(records), dtype=object)
    for i, record in enumerate(records):
        column[i] = record
    assert domain.encode(column).tolist() == domain.encode(records).tolist()
    assert domain.encode(tuple(records)).tolist() == domain.encode(records).tolist()


@given(rows=st.lists(st.tuples(WILD, WILD), max_size=8))
def test_each_row_of_a_table_is_encoded_by_itself(rows: list[tuple[Any, Any]]) -> None:
    table = Categories({"colour": COLOURS, "age": BINS})
    colours, ages = [row[0] for row in rows], [row[1] for row in rows]
    symbols = table.encode({"colour": colours, "age": ages})
    alone = [table.encode({"colour": [c], "age": [a]}).tolist()[0] for c, a in rows]
    assert symbols.tolist() == alone
    assert all(0 <= symbol < table.size for symbol in symbols)


@pytest.mark.parametrize(
    "odd",
    [
        None,
        float("nan"),
        2.5,
        "x",
        1j,
        True,
        2**64 - 1,
        np.datetime64("NaT", "s"),
        Decimal(1),
        b"x",
    ],
)
@pytest.mark.parametrize("domain", ALL, ids=repr)
def test_one_odd_record_may_change_the_columns_type_but_no_other_symbol(
    domain: Domain, odd: Any
) -> None:
    usual = [7, -3, 0, 5]
    column = np.array([*usual, odd])  # integers become floats, text, objects, complex numbers
    assert domain.encode(column)[:4].tolist() == domain.encode(usual).tolist()
    assert domain.encode([*usual, odd])[:4].tolist() == domain.encode(usual).tolist()


def test_what_is_missing_and_what_is_merely_other() -> None:
    missing = [
        None, float("nan"), np.float32("nan"), complex("nan"), Decimal("nan"), Decimal("sNaN"),
        np.datetime64("NaT", "s"), np.timedelta64("NaT", "s"), np.ma.masked, NAType(),
    ]  # fmt: skip
    other = ["blue", "", 8, 7.5, [7], {}, b"blue", _Hostile(), object(), np.array([7]), ("red",)]
    assert COLOURS.encode([b"red", b"\xff"]).tolist() == [0, 4]
    assert set(COLOURS.encode(missing).tolist()) == {5}
    assert set(COLOURS.encode(other).tolist()) == {4}
    no_numbers = [*missing, "x", "", [7], {}, object(), np.array([7]), 1j, np.inf, 10**400]
    assert set(BINS.encode(no_numbers).tolist()) == {4}


def test_masked_and_dated_columns() -> None:
    mask = [False, True, False]
    assert NUMBERS.encode(np.ma.array([7, 7, 5], mask=mask)).tolist() == [0, 5, 4]
    assert COLOURS.encode(np.ma.array(["red"] * 3, mask=mask)).tolist() == [0, 5, 0]
    assert BINS.encode(np.ma.array([-2, -2, 7.0], mask=mask)).tolist() == [0, 4, 3]
    dates = np.array(["2024-01-01", "NaT"], dtype="M8[D]")
    assert COLOURS.encode(dates).tolist() == [4, 5]
    assert BINS.encode(dates).tolist() == [4, 4]
    rows = np.zeros(2, dtype=[("a", int)])
    assert COLOURS.encode(rows).tolist() == [4, 4]
    assert BINS.encode(np.ma.array(rows)).tolist() == [4, 4]


def test_columns_of_a_data_frame() -> None:
    pandas = pytest.importorskip("pandas")
    nothing = [None, pandas.NA, float("nan")]
    for column in (
        pandas.Series(["red", "blue", None], dtype="category"),
        pandas.Series(["red", "blue", None], dtype="string"),
        pandas.Series(["red", "blue", None]),
    ):
        assert COLOURS.encode(column).tolist() == [0, 4, 5]
    for dtype in ("Int64", "Float64", "float64", "category", object):
        column = pandas.Series([7, 5, None], dtype=dtype)
        assert NUMBERS.encode(column).tolist() == [0, 4, 5]
        assert BINS.encode(column).tolist() == [3, 2, 4]
    assert COLOURS.encode(pandas.Series([*nothing, pandas.NaT], dtype=object)).tolist() == [5] * 4
    frame = pandas.DataFrame({"colour": ["red", None], "age": [5.0, None]})
    table = Categories({"colour": COLOURS, "age": BINS})
    assert table.encode(frame).tolist() == [2, 5 * 5 + 4]
    with pytest.raises(DomainError, match="column"):
        BINS.encode(frame[["age"]])


@pytest.mark.parametrize("domain", ALL, ids=repr)
@pytest.mark.parametrize(
    ("records", "message"),
    [
        ("SECRET", "array"),
        (b"SECRET", "array"),
        ({"SECRET": 1}, "array"),
        (97531, "array"),
        (None, "array"),
        (np.array("SECRET"), "dimension"),
        (np.array([[97531.0]]), "dimension"),
    ],
)
def test_only_the_form_of_the_whole_is_refused_and_no_value_is_shown(
    domain: Domain, records: object, message: str
) -> None:
    with pytest.raises(DomainError, match=message) as caught:
        domain.encode(records)
    assert "SECRET" not in str(caught.value)
    assert "97531" not in str(caught.value)
    assert caught.value.__cause__ is None
    assert caught.value.__context__ is None or caught.value.__suppress_context__


def test_unlisted_ways_name_the_first_feature_that_does_not_fit() -> None:
    table = Categories({"job": ["nurse", "cook"], "age": Binned([40])})
    assert table.unlisted == ("'other' in job", "'missing' in job", "'missing' in age")
    ways = table.unlisted_index()
    for job, age, way in [
        ("nurse", 30, None),
        ("cook", 50, None),
        ("pilot", 30, "'other' in job"),
        (None, None, "'missing' in job"),
        ("pilot", None, "'other' in job"),
        ("cook", None, "'missing' in age"),
    ]:
        (symbol,) = table.encode({"job": [job], "age": [age]})
        assert (table.unlisted[ways[symbol]] if ways[symbol] >= 0 else None) == way
    assert Labels(["a", "other"]).unlisted == ("(other)", "missing")
    assert Labels(["a", "other"]).name_of(2) == "(other)"
    assert Labels(["other", "(other)"]).unlisted == ("((other))", "missing")
    assert Labels(["a", "b"]).unlisted_index().tolist() == [-1, -1, 0, 1]
