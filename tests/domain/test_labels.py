"""Labels: encoding, order, and refusals that show no value."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from flwr_kld.domain import Labels
from flwr_kld.errors import DomainError


def test_symbol_is_the_place_of_the_name() -> None:
    domain = Labels(["red", "blue", "green"])
    assert domain.size == 3
    symbols = domain.encode(["green", "red", "blue", "red"])
    assert symbols.tolist() == [2, 0, 1, 0]
    assert symbols.dtype == np.int64
    assert [domain.name_of(i) for i in range(3)] == ["red", "blue", "green"]


def test_integers_need_not_be_sorted_or_positive() -> None:
    domain = Labels([10, -3, 7])
    assert domain.encode(np.array([7, 10, -3], dtype=np.int8)).tolist() == [2, 0, 1]
    assert domain.name_of(1) == "-3"


@given(
    st.lists(st.text(st.characters(min_codepoint=33), max_size=6), min_size=1, unique=True),
    st.data(),
)
def test_encoding_equals_a_dictionary(names: list[str], data: st.DataObject) -> None:
    records = data.draw(st.lists(st.sampled_from(names)))
    place = {name: i for i, name in enumerate(names)}
    assert Labels(names).encode(records).tolist() == [place[r] for r in records]


@given(st.sets(st.integers(-(2**63), 2**63 - 1), min_size=1), st.data())
def test_integer_encoding_equals_a_dictionary(names: set[int], data: st.DataObject) -> None:
    order = data.draw(st.permutations(sorted(names)))
    assert Labels(order).encode(list(order)).tolist() == list(range(len(order)))


@pytest.mark.parametrize("empty", [[], (), np.array([]), np.array([], dtype="U3")])
def test_no_records_give_no_symbols(empty: object) -> None:
    symbols = Labels(["a"]).encode(empty)
    assert symbols.shape == (0,)
    assert symbols.dtype == np.int64


SECRET = "syphilis"


@pytest.mark.parametrize(
    ("names", "records", "message"),
    [
        (["flu", "cold"], ["flu", SECRET], "not in the domain"),
        (["flu", "cold"], np.array([SECRET]), "not in the domain"),
        (["flu", "cold"], np.array([SECRET], dtype=object), "one-dimensional text or integers"),
        (["flu", "cold"], [SECRET, 4], "one-dimensional text or integers"),
        (["flu", "cold"], [SECRET, None], "one-dimensional text or integers"),
        (["flu", "cold"], [[SECRET]], "one-dimensional text or integers"),
        (["flu", "cold"], np.array([[SECRET]]), "one-dimensional text or integers"),
        (["flu", "cold"], SECRET, "one-dimensional text or integers"),
        (["flu", "cold"], np.array(SECRET), "one-dimensional text or integers"),
        (["flu", "cold"], {SECRET: 1}, "one-dimensional text or integers"),
        (["flu", "cold"], np.array([SECRET.encode()]), "one-dimensional text or integers"),
        ([1, 2], [SECRET], "both must be text or both integers"),
        ([1, 2], [1, 987654], "not in the domain"),
        ([1, 2], [987654.0], "one-dimensional text or integers"),
        ([1, 2], [float("nan")], "one-dimensional text or integers"),
        ([0, 1], [True, False], "one-dimensional text or integers"),
        ([0, 1], np.array([True]), "one-dimensional text or integers"),
        ([1, 2], [2**80], "64 signed bits"),
        ([-1, 2], np.array([2**64 - 1], dtype=np.uint64), "64 signed bits"),
        (["flu", "1"], np.array([1]), "both must be text or both integers"),
        ([1, 2], 987654, "one-dimensional text or integers"),
    ],
)
def test_refusal_says_what_is_wrong_and_shows_no_value(
    names: list[str] | list[int], records: object, message: str
) -> None:
    with pytest.raises(DomainError, match=message) as caught:
        Labels(names).encode(records)
    for value in (SECRET, "987654", str(2**80), str(2**64 - 1), "nan", "True"):
        assert value not in str(caught.value)
    assert caught.value.__cause__ is None
    assert caught.value.__context__ is None or caught.value.__suppress_context__


@pytest.mark.parametrize(
    ("names", "message"),
    [
        ([], "at least one"),
        (["a", "b", "a"], "distinct"),
        (["a", 1], "text or integers"),
        ([1.5], "text or integers"),
        ("abc", "text or integers"),
        ([True, False], "text or integers"),
        (7, "text or integers"),
    ],
)
def test_bad_names_are_refused(names: list[str], message: str) -> None:
    with pytest.raises(DomainError, match=message):
        Labels(names)


@pytest.mark.parametrize("symbol", [-1, 2, 0.5, "a", None])
def test_name_of_refuses_what_is_not_a_symbol(symbol: int) -> None:
    with pytest.raises(DomainError, match="from 0 to 1"):
        Labels(["a", "b"]).name_of(symbol)
