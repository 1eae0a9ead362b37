"""Checks that protect whom the operator's limits are for, and others, which are refused."""

import tempfile
from fractions import Fraction
from pathlib import Path

import pytest
from guard.files import guard_file, protecting, question
from hypothesis import given, settings
from hypothesis import strategies as st

from examples import examples
from flwr_kld.common.errors import QueryRefused
from flwr_kld.guard import verify
from flwr_kld.guard.guard import Guard
from flwr_kld.kernel.promise import WholeClients

PROTECTS = {"record": "record", "client": WholeClients(9)}


def guard_of(folder, protects="record"):
    changes = ("max_epsilon = 1.0", "max_epsilon = 3.0"), protecting(protects)
    return Guard.from_file(guard_file(folder, *changes), clock=lambda: 5000.0)


@pytest.mark.parametrize("mine", PROTECTS)
@pytest.mark.parametrize("other", PROTECTS)
def test_a_check_that_protects_others_is_refused_and_costs_nothing(tmp_path, mine, other):
    guard = guard_of(tmp_path, mine)
    if mine != other:
        with pytest.raises(QueryRefused, match=other):
            guard.admit(question("1", protects=PROTECTS[other]), "0")
        assert not (tmp_path / "receipts.db").exists()
        return
    for i in range(6):
        guard.admit(question(f"{i}", epsilon=0.5, protects=PROTECTS[other]), "0")
    with pytest.raises(QueryRefused, match="left: 0"):
        guard.admit(question("more", epsilon=1e-9, protects=PROTECTS[other]), "0")


@pytest.mark.parametrize("epsilon", [1e6, 1e300])
def test_a_promise_of_nothing_is_beyond_every_limit(tmp_path, epsilon):
    with pytest.raises(QueryRefused, match="epsilon"):
        guard_of(tmp_path).admit(question("1", epsilon=epsilon, delta=0.9), "0")


@settings(max_examples=examples(25))
@given(st.lists(st.tuples(st.integers(1, 99), st.integers(1, 8)), max_size=14))
def test_checks_never_cost_a_client_more_than_the_period(checks):
    """Nothing that fits is refused, either; how many records count changes nothing."""
    charged = Fraction(0)
    with tempfile.TemporaryDirectory() as folder:
        guard = guard_of(Path(folder), "client")
        for i, (most, eighths) in enumerate(checks):
            cost = Fraction(eighths, 8)
            try:
                guard.admit(question(f"{i}", epsilon=eighths / 8, protects=WholeClients(most)), "0")
            except QueryRefused:
                assert charged + cost > 3
            else:
                charged += cost
    assert charged <= 3


def test_a_file_that_protects_others_than_before_refuses(tmp_path):
    guard_of(tmp_path).admit(question("1"), "0")
    with pytest.raises(QueryRefused, match="record"):
        guard_of(tmp_path, "client").admit(question("2", protects=WholeClients(9)), "0")


@pytest.mark.parametrize("protects", PROTECTS)
def test_a_receipt_names_all_that_shaped_the_answer(tmp_path, protects):
    guard = guard_of(tmp_path, protects)
    promised = PROTECTS[protects]
    most = 5 if protects == "record" else 9
    receipt = guard.admit(question("1", protects=promised, most_records=most, model="a" * 64), "0")
    assert (receipt.protects, receipt.most_records, receipt.model) == (protects, most, "a" * 64)
    assert guard.admit(question("2", protects=promised), "0").model == "none"
    assert [r.most_records for r in verify(tmp_path / "receipts.db").receipts] == [
        most, 0 if protects == "record" else 9,
    ]  # fmt: skip
