"""Labels: encoding, order, and names that are refused."""

import time

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from flwr_kld.common.errors import DomainError
from flwr_kld.table.labels import Labels


def test_symbol_is_the_place_of_the_name() -> None:
    domain = Labels(["red", "blue", "green"])
    assert domain.size == 5
    symbols = domain.encode(["green", "red", "blue", "red"])
    assert symbols.tolist() == [2, 0, 1, 0]
    assert symbols.dtype == np.int64
    names = [domain.name_of(i) for i in range(5)]
    assert names == ["red", "blue", "green", "other", "missing"]


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


def test_what_is_not_listed_is_other_or_missing() -> None:
    domain = Labels(["flu", "cold"])
    assert domain.encode(["cold", "syphilis", None, 4, "flu"]).tolist() == [1, 2, 3, 2, 0]
    assert domain.unlisted == ("other", "missing")
    assert domain.unlisted_index().tolist() == [-1, -1, 0, 1]


@pytest.mark.parametrize(
    "records",
    [[1, 7], ["1", "7"], [1.0, 7.0], np.array([1, 7], dtype=np.uint8), np.array([1.0, 7.0])],
)
@pytest.mark.parametrize("names", [[7, 1], ["7", "1"]])
def test_a_whole_number_and_its_text_are_one_label(
    names: list[str] | list[int], records: object
) -> None:
    assert Labels(names).encode(records).tolist() == [1, 0]


def test_a_number_has_one_label_however_it_is_spelt() -> None:
    assert Labels([1]).encode(["01", "1.0", " 1", "+1", "1e0", "true", b"1"]).tolist() == [0] * 7
    assert Labels(["01", "0.5"]).encode([1, 1.0, True, 0.5, ".50"]).tolist() == [0, 0, 0, 1, 1]
    assert Labels(["false", "true"]).encode([1, "True", "TRUE", False]).tolist() == [1, 1, 1, 0]
    assert Labels(["1", "2"]).encode(["one", "nan", "", "1.5", "0x1"]).tolist() == [2] * 5


def test_the_name_that_is_spelt_so_comes_first() -> None:
    several = Labels(["01", "1.0", "1", "5e-1", "0.5"])
    assert several.encode(["01", "1.0", "1", "001", 1, True]).tolist() == [0, 1, 2, 2, 2, 2]
    assert several.encode([0.5, "0.50", "5e-1"]).tolist() == [4, 4, 3]
    assert Labels(["01", "1.0"]).encode([1, "1", "1.0"]).tolist() == [2, 2, 1]  # in doubt


def test_whole_numbers_that_float64_does_not_tell_apart_are_told_apart() -> None:
    large = 2**53
    for names in ([large + 1], [str(large + 1)]):
        given = [large, large + 1, str(large), str(large + 1), float(large)]
        assert Labels(names).encode(given).tolist() == [1, 0, 1, 0, 1]


@pytest.mark.parametrize("symbol", [-1, 4, 0.5, "a", None])
def test_name_of_refuses_what_is_not_a_symbol(symbol: int) -> None:
    with pytest.raises(DomainError, match="3"):
        Labels(["a", "b"]).name_of(symbol)


def test_many_labels_are_named_in_no_more_time_than_they_take_to_list() -> None:
    """A cross-table of a thousand by a thousand names each of them a thousand times."""
    labels = Labels(range(40_000))
    started = time.process_time()
    assert [labels.name_of(i) for i in range(40_000)] == list(labels.listed)
    assert time.process_time() - started < 5
    assert [labels.name_of(40_000 + i) for i in (0, 1)] == ["other", "missing"]
