import datetime as dt
from decimal import Decimal
from uuid import UUID

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from flwr_kld.kernel.vector import Held
from flwr_kld.table.record_ids import record_ids


def ids_of(given: object, records: int) -> np.ndarray:
    return record_ids(Held(np.zeros(records, int)), given)


def test_decimals_of_any_size_are_told_apart():
    sizes = [Decimal(f"1e{size}") for size in (300_000, 300_001, 900_000)]
    assert len(set(ids_of(sizes, 3).tolist())) == 3


def test_ids_of_all_sorts():
    assert ids_of([7, 1, 2], 3).tolist() == [7, 1, 2]
    texts = ids_of(["a", "b", "a"], 3)
    assert texts[0] == texts[2] != texts[1]


@pytest.mark.parametrize(
    "ids",
    [
        [UUID(int=1), UUID(int=2)],
        [dt.date(2026, 5, 1), dt.date(2026, 5, 2)],
        [dt.datetime(2026, 5, 1, 9), dt.datetime(2026, 5, 1, 10)],
    ],
)
def test_ids_that_databases_give_are_those_of_their_texts(ids):
    """Taken for none, they were one record."""
    assert ids_of(ids, 2).tolist() == ids_of([str(one) for one in ids], 2).tolist()
    assert len(set(ids_of(ids, 2).tolist())) == 2


class _Odd:
    def __eq__(self, other):
        raise RuntimeError("eq")

    __hash__ = __int__ = __index__ = __eq__


_ODD_IDS = (None, float("nan"), 2.5, "x", "", "\ud800", b"7", [7], {}, _Odd(), 10**400, np.inf)


def test_ids_of_different_kinds_are_different():
    ids = ids_of([None, 0, 1.5, "x", float("inf"), "", 10**30, "None"], 8)
    assert len(set(ids.tolist())) == 8
    assert ids_of([None, float("nan")], 2).tolist() == [ids[0]] * 2


@given(st.lists(st.one_of(st.integers(), st.text(), st.floats(), st.sampled_from(range(12)))))
def test_each_id_is_read_by_itself(ids):
    ids = [_ODD_IDS[i] if type(i) is int and 0 <= i < 5 else i for i in ids]
    got = ids_of(ids, len(ids))
    assert got.dtype == np.uint64
    assert got.tolist() == [ids_of([one], 1).tolist()[0] for one in ids]


@pytest.mark.parametrize("odd", _ODD_IDS)
def test_an_odd_id_is_neither_refused_nor_changes_the_others(odd):
    usual = [7, -1, 2**40]
    assert ids_of([*usual, odd], 4)[:3].tolist() == ids_of(usual, 3).tolist()
    if np.isscalar(odd) and odd != 10**400:  # a column that became floats or text
        assert ids_of(np.array([*usual, odd]), 4)[:3].tolist() == ids_of(usual, 3).tolist()


def test_a_typed_column_of_ids_has_the_ids_of_its_texts():
    texts = ["007", "12", "12.0", "-3", "18446744073709551615"]
    assert ids_of([int(float(t)) for t in texts[:4]], 4).tolist() == (ids_of(texts[:4], 4).tolist())
    largest = np.array([2**64 - 1], dtype=np.uint64)
    assert ids_of(largest, 1).tolist() == ids_of(texts[4:], 1).tolist()


@pytest.mark.parametrize("bad", [[1, 2], 7, "abc", np.ones((3, 1))])
def test_ids_that_do_not_fit_are_refused_without_saying_them(bad):
    with pytest.raises(ValueError, match=r"id|record") as error:
        ids_of(bad, 3)
    assert "7" not in str(error.value)


@pytest.mark.parametrize("backend", [pd.Series, pl.Series, pa.array])
def test_a_missing_id_is_not_that_of_record_0(backend):
    """Frames keep whole numbers with a gap as floats, or beneath a mask that hides a 0."""
    ids = ids_of(backend([0, 1, 2, None]), 4).tolist()
    assert ids[:3] == [0, 1, 2]
    assert ids[3] == ids_of([None], 1)[0]


def test_a_number_below_zero_is_no_number_beyond_the_largest():
    assert len(set(ids_of([-1, 2**64 - 1, 0, 2**63, -(2**63)], 5).tolist())) == 5
    assert ids_of(np.array([-1, 3]), 2).tolist() == ids_of(["-1", "3"], 2).tolist()


def test_records_without_an_id_of_their_own_are_counted_in_the_log(caplog):
    ids_of([1, 2, 3], 3)
    assert caplog.records == []
    ids_of(["b", "a", "a", None, "", None], 6)
    (record,) = caplog.records
    assert record.args == (2, 6)
    assert "'a'" not in record.getMessage()
