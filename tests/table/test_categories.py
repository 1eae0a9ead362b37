"""Categories: a bijection between combinations and symbols."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from flwr_kld.common.errors import DomainError
from flwr_kld.table.binned import Binned
from flwr_kld.table.categories import Categories
from flwr_kld.table.labels import Labels

TABLE = Categories({"sex": ["f", "m"], "age": Binned([18, 65]), "ward": [3, 1]})


def test_every_combination_has_its_own_symbol_and_the_last_feature_varies_fastest() -> None:
    rows = list(
        itertools.product(["f", "m", "x", None], [5, 20, 70, float("nan")], [3, 1, 2, None])
    )
    sex, age, ward = (list(column) for column in zip(*rows, strict=True))
    assert TABLE.size == 64
    assert TABLE.encode({"sex": sex, "age": age, "ward": ward}).tolist() == list(range(64))
    assert TABLE.name_of(0) == "sex=f, age=< 18, ward=3"
    assert TABLE.name_of(21) == "sex=m, age=[18, 65), ward=1"
    assert TABLE.name_of(47) == "sex=other, age=missing, ward=missing"
    assert len({TABLE.name_of(i) for i in range(64)}) == 64


@given(st.lists(st.integers(1, 3), min_size=1, max_size=4))
def test_encoding_is_a_bijection(sizes: list[int]) -> None:
    domain = Categories({f"x{i}": list(range(size)) for i, size in enumerate(sizes)})
    rows = list(itertools.product(*([*range(size), size, None] for size in sizes)))
    symbols = domain.encode({f"x{i}": [row[i] for row in rows] for i in range(len(sizes))})
    assert symbols.dtype == np.int64
    assert symbols.tolist() == list(range(domain.size))


def test_structured_rows_and_mappings_agree_and_other_columns_are_ignored() -> None:
    rows = np.array(
        [("m", 70.0, 1, 9), ("f", 18.0, 3, 9)],
        dtype=[("sex", "U1"), ("age", float), ("ward", int), ("other", int)],
    )
    assert TABLE.encode(rows).tolist() == [25, 4]
    assert TABLE.encode({name: rows[name] for name in ("sex", "age", "ward")}).tolist() == [25, 4]


@pytest.mark.parametrize(
    ("records", "message"),
    [
        ({"sex": "SECRET", "age": [1], "ward": [1]}, "sex"),
        ({"sex": ["f"], "age": 7777, "ward": [1]}, "age"),
        ({"sex": ["f"], "age": [77771], "SECRET": [1]}, "ward"),
        ({"sex": ["f"] * 7777, "age": [1], "ward": [1]}, "same"),
        ({"sex": ["f"], "age": [1], "ward": [1] * 7777}, "same"),
        (np.array([7777]), "feature"),
        (np.array([7777]), "frame"),
        ({}, "sex"),
    ],
)
def test_refusal_names_the_feature_and_shows_no_value(records: object, message: str) -> None:
    with pytest.raises(DomainError, match=message) as caught:
        TABLE.encode(records)
    for value in ("SECRET", "7777", "nan"):
        assert value not in str(caught.value)
    assert caught.value.__cause__ is None
    assert caught.value.__context__ is None or caught.value.__suppress_context__


@pytest.mark.parametrize(
    ("features", "message"),
    [
        ({}, "feature"),
        ([("a", ["x"])], "mapping"),
        ({1: ["x"]}, "must be text"),
        ({"a": TABLE}, "feature"),
        ({"a": ["x", "x"]}, "distinct"),
        ({str(i): [0, 1] for i in range(32)}, "combinations"),
    ],
)
def test_bad_features_are_refused(features: dict[str, list[str]], message: str) -> None:
    with pytest.raises(DomainError, match=message):
        Categories(features)


def test_the_largest_joint_domain_still_counts_exactly() -> None:
    domain = Categories({str(i): [0, 1] for i in range(31)})
    assert domain.encode({str(i): [None] for i in range(31)}).tolist() == [2**62 - 1]


def test_names_stand_for_labels_and_the_caller_keeps_his_mapping() -> None:
    features = {"a": ["x", "y"]}
    domain = Categories(features)
    assert domain == Categories({"a": Labels(["x", "y"])})
    features["b"] = ["z"]
    assert domain.size == 4
