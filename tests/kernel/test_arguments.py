"""Numbers that callers give: what passes, as what, and what does not."""

import math
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest

from flwr_kld.kernel.arguments import as_tuple, finite, integer, text

NO_NUMBERS = [
    None,
    "1",
    b"1",
    True,
    np.True_,
    1j,
    Decimal(1),
    [1],
    np.ones(1),
    np.timedelta64(1, "s"),
]
NOT_FINITE = [math.nan, math.inf, -math.inf, np.float32("nan"), np.float64("inf")]


@pytest.mark.parametrize("value", [3, np.int8(3), np.uint64(3)])
def test_a_whole_number_comes_out_as_pythons(value):
    assert type(integer("n", value, least=3, most=3)) is int


@pytest.mark.parametrize("value", [3, 0.25, np.float32(0.25), np.int64(3), Fraction(1, 4)])
def test_a_number_comes_out_as_pythons(value):
    number = finite("x", value, least=0.25, most=3)
    assert type(number) is float
    assert number == value


@pytest.mark.parametrize("value", [*NO_NUMBERS, *NOT_FINITE, 3.0, 2.5, np.float64(3), Fraction(3)])
def test_what_is_no_whole_number_is_refused(value):
    with pytest.raises(ValueError, match=r"^n "):
        integer("n", value, unit="clients")


@pytest.mark.parametrize("value", [*NO_NUMBERS, *NOT_FINITE, 10**400])
def test_what_is_no_number_is_refused(value):
    with pytest.raises(ValueError, match=r"^x "):
        finite("x", value)


@pytest.mark.parametrize(
    ("ends", "inside", "outside", "words"),
    [
        ({"least": 0, "most": 1}, [0, 1], [-1e-9, 1.1], "in [0, 1], got"),
        ({"above": 0, "below": 1}, [0.5], [0, 1], "in (0, 1), got"),
        ({"least": 0.5, "below": 1}, [0.5], [0.4, 1], "in [0.5, 1), got"),
        ({"above": 0, "most": 0.5}, [0.5], [0, 0.6], "in (0, 0.5], got"),
        ({"least": 2}, [2], [1.9], "number, at least 2, got 1.9"),
        ({"most": 2}, [2], [2.1], "number, at most 2, got 2.1"),
        ({"above": 2}, [2.1], [2], "above 2, got 2"),
        ({"below": 2}, [1.9], [2], "below 2, got 2"),
    ],
)
def test_a_range_is_held_to_and_said(ends, inside, outside, words):
    for value in inside:
        assert finite("x", value, **ends) == value
    for value in outside:
        with pytest.raises(ValueError, match=r"^x ") as caught:
            finite("x", value, **ends)
        assert words in str(caught.value)


@pytest.mark.parametrize("value", [10**400, -(10**400), "s" * 1000, list(range(1000))])
def test_a_message_never_shows_what_is_long(value):
    with pytest.raises(ValueError, match="whole") as caught:
        integer("n", value, least=0, most=5)
    assert len(str(caught.value)) < 100


def test_a_text_is_no_list_and_an_empty_text_is_none():
    assert as_tuple("names", iter(["a", "b"])) == ("a", "b")
    for value in ("ab", b"ab", 3, None):
        with pytest.raises(ValueError, match="names"):
            as_tuple("names", value)
    for value in ("", None, 3):
        with pytest.raises(ValueError, match="name"):
            text("name", value)
