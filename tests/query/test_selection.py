import datetime as dt
import json
from uuid import UUID

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from flwr_kld.kernel.vector import Held
from flwr_kld.query.selection import EVERYTHING, Selection, record_ids, salted


def ids_of(given: object, records: int) -> np.ndarray:
    return record_ids(Held(np.zeros(records, int)), given)


IDS = np.arange(200_000, dtype=np.uint64)


@given(st.integers(1, 50), st.text(min_size=1, max_size=20).filter(str.isprintable))
def test_buckets_partition_the_records(modulus, key):
    ids = IDS[:500]
    taken = [Selection(key, modulus, (r,)).selected(ids) for r in range(modulus)]
    assert (np.sum(taken, axis=0) == 1).all()


@pytest.mark.parametrize("ids", [IDS, salted(IDS, b"s" * 32)], ids=["plain", "salted"])
def test_buckets_are_uniform_and_independent_of_those_by_another_key(ids):
    one, other = (
        sum(r * Selection(key, n, (r,)).selected(ids).astype(int) for r in range(n))
        for key, n in (("k", 5), ("another", 4))
    )
    table = np.bincount(4 * one + other, minlength=20)
    assert stats.chisquare(table).pvalue > 1e-6


def test_a_salt_makes_clients_records_independent_of_each_other():
    """The same positions of two clients share a bucket as often as chance has it: sd 0.0011."""
    one, other = (Selection("k", 2, (0,)).selected(salted(IDS, s)) for s in (b"a" * 32, b"b" * 32))
    assert abs((one == other).mean() - 0.5) < 0.006
    assert abs(one.mean() - 0.5) < 0.006


def test_a_salted_id_is_the_same_in_every_check_and_its_own():
    ids = salted(IDS, b"s" * 32)
    order = np.random.default_rng(0).permutation(len(IDS))
    assert np.array_equal(salted(IDS[order], b"s" * 32), ids[order])
    assert len(np.unique(ids)) == len(IDS)
    assert not len(salted(IDS[:0], b"s" * 32))


def test_ids_of_all_sorts():
    assert ids_of(None, 3).tolist() == [0, 1, 2]
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


@given(st.integers(1, 9))
def test_json_round_trip(modulus):
    rule = Selection("schlüssel", modulus, (modulus - 1,))
    assert Selection.from_json(rule.to_json()) == rule


@pytest.mark.parametrize(
    "change",
    [
        {"modulus": 0},
        {"modulus": 10**9},
        {"modulus": 1.0},
        {"modulus": 1.5, "residues": [0]},
        {"modulus": 2, "residues": [0.5]},
        {"modulus": 2, "residues": [False]},
        {"modulus": True},
        {"residues": "0"},
        {"groups": 1},
        {"key": 7},
        {"key": None},
        {"key": "line\nbreak"},
        {"key": "\ud800"},
        {"residues": []},
        {"residues": [1]},
        {"residues": [0, 0]},
        {"key": "x" * 200},
        {"more": 1},
    ],
)
def test_rules_that_no_server_may_ask(change):
    raw = {**json.loads(EVERYTHING.to_json()), **change}
    text = json.dumps(raw, sort_keys=True, separators=(",", ":"))
    with pytest.raises(ValueError, match="the selection of records"):
        Selection.from_json(text)


def test_only_one_text_means_a_selection():
    with pytest.raises(ValueError, match="the selection of records"):
        Selection.from_json(EVERYTHING.to_json().replace(",", ", "))
