"""Checks over buckets of records: no record is charged for checks over other records."""

import tempfile
from pathlib import Path

import pytest
from guard.files import period_of
from hypothesis import given, settings
from hypothesis import strategies as st

from examples import examples
from flwr_kld.errors import QueryRefused
from flwr_kld.guard.receipts import Claim, Receipts
from flwr_kld.sums import Identity

KEY = Identity.generate()
BUDGET = 10


def spend(check, partition="", residues="", epsilon=1):
    about = (check, "0", "d", "r", "p", "none", "trusted")
    return Claim(*about, epsilon, 0, "record", 0, partition, residues)


def reserve(file, asked, buckets_apart=True, epsilon=BUDGET):
    limits = period_of(86400, epsilon, delta=0, stable_record_ids=buckets_apart)
    file.reserve(asked, 1000.0, limits)


def test_disjoint_buckets_are_not_added_up(tmp_path):
    file = Receipts(tmp_path / "r.db", KEY)
    for bucket in range(4):
        reserve(file, spend(f"c{bucket}", "4:k", str(bucket), BUDGET))
    with pytest.raises(QueryRefused, match="more than this client has left"):
        reserve(file, spend("again", "4:k", "0"))


@pytest.mark.parametrize("spelling", ["00", " 0", "+0", "0_0", "٠"])
def test_a_bucket_under_another_spelling_is_the_same_bucket(tmp_path, spelling):
    file = Receipts(tmp_path / "r.db", KEY)
    reserve(file, spend("c0", "4:k", "0", BUDGET))
    with pytest.raises(QueryRefused, match="more than this client has left"):
        reserve(file, spend("c1", "4:k", spelling))


def test_receipts_of_buckets_that_are_none_admit_nothing_more(tmp_path):
    file = Receipts(tmp_path / "r.db", KEY)
    with pytest.raises(QueryRefused, match="not whole"):
        reserve(file, spend("c0", "4:k", "0.5"))


def test_without_stable_ids_everything_is_added_up(tmp_path):
    file = Receipts(tmp_path / "r.db", KEY)
    reserve(file, spend("c0", "4:k", "0", BUDGET), buckets_apart=False)
    with pytest.raises(QueryRefused, match="more than this client has left"):
        reserve(file, spend("c1", "4:k", "1"), buckets_apart=False)


RULES = st.sampled_from([("", ""), ("2:a", "0"), ("2:a", "1"), ("3:b", "0,2"), ("3:b", "1")])


@settings(max_examples=examples(40))
@given(st.lists(st.tuples(RULES, st.integers(1, 4)), max_size=12))
def test_no_record_ever_exceeds_the_budget(asked):
    """Against six records, one in each crossing of the two partitions."""
    charged = dict.fromkeys([(a, b) for a in "01" for b in "012"], 0)
    with tempfile.TemporaryDirectory() as folder:
        file = Receipts(Path(folder) / "r.db", KEY)
        for i, ((partition, residues), epsilon) in enumerate(asked):
            try:
                reserve(file, spend(f"c{i}", partition, residues, epsilon))
            except QueryRefused:
                continue
            for a, b in charged:
                mine = {"": True, "2:a": a in residues, "3:b": b in residues}[partition]
                charged[a, b] += epsilon * mine
    assert max(charged.values()) <= BUDGET
